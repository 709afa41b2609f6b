"""Which rows come when, and which replica gets them: pure functions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tfdist.data.order import epoch_order
from tfdist.data.split import batch_count, part_bounds

ROWS = st.integers(0, 500)
SEEDS = st.integers(0, 2**31 - 1)
EPOCHS = st.integers(0, 1000)


@given(ROWS, SEEDS, EPOCHS)
def test_an_epoch_has_every_row_once_and_always_in_the_same_order(rows: int, seed: int, epoch: int) -> None:
    order = epoch_order(rows, seed, epoch)
    assert sorted(order) == list(range(rows))
    assert np.array_equal(order, epoch_order(rows, seed, epoch))


@given(SEEDS, EPOCHS)
def test_other_epochs_and_seeds_have_other_orders(seed: int, epoch: int) -> None:
    order = epoch_order(50, seed, epoch)
    assert not np.array_equal(order, epoch_order(50, seed, epoch + 1))
    assert not np.array_equal(order, epoch_order(50, seed + 1, epoch))


@given(ROWS, st.integers(1, 70))
def test_parts_follow_one_another_and_differ_by_one_row_at_most(rows: int, parts: int) -> None:
    bounds = [part_bounds(rows, parts, index) for index in range(parts)]
    ends = [0] + [end for _, end in bounds]
    assert [begin for begin, _ in bounds] == ends[:-1]
    assert ends[-1] == rows
    sizes = [end - begin for begin, end in bounds]
    assert max(sizes) - min(sizes) <= 1


@given(ROWS, st.integers(1, 70))
def test_batches_hold_all_rows_and_none_is_empty(rows: int, batch_size: int) -> None:
    count = batch_count(rows, batch_size)
    assert count * batch_size >= rows
    assert (count - 1) * batch_size < rows or count == 0
