"""Whatever users pass as data comes out as global batches, each row once, in the order that was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdist.data.batch import take_part
from tfdist.data.inputs import make_source
from tfdist.data.source import Source
from tfdist.errors import ConfigError

ROWS = np.arange(10, dtype="float32")[:, None]
LABELS = np.arange(10, dtype="int32")


def read(source: Source, epoch: int) -> list[list[int]]:
    """Gives the numbers of the rows in each batch of an epoch."""
    source.begin_epoch(epoch)
    return [keras.tree.flatten(batch)[0].numpy()[:, 0].astype(int).tolist() for batch in source.pipeline()]


def flat(batches: list[list[int]]) -> list[int]:
    """Gives the rows of all batches."""
    return [row for batch in batches for row in batch]


def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields batches of 4, 4 and 2 rows."""
    for begin in range(0, 10, 4):
        yield ROWS[begin : begin + 4], LABELS[begin : begin + 4]


class Sequence(keras.utils.PyDataset):
    """The same batches by index."""

    ended = 0

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        return list(batches())[index]

    def on_epoch_end(self) -> None:
        self.ended += 1


IN_ORDER = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
SOURCES = {
    "arrays": lambda: make_source(ROWS, LABELS, batch_size=4),
    "dataset": lambda: make_source(tf.data.Dataset.from_tensor_slices((ROWS, LABELS)).batch(4)),
    "sequence": lambda: make_source(Sequence()),
    "generator": lambda: make_source(batches()),
}


@pytest.mark.parametrize("name", SOURCES)
def test_unshuffled_rows_come_in_order(name: str) -> None:
    assert read(SOURCES[name](), 0) == IN_ORDER


@pytest.mark.parametrize("name", SOURCES)
def test_looking_at_the_first_batch_loses_nothing(name: str) -> None:
    source = SOURCES[name]()
    assert source.first_batch()[1].numpy().tolist() == [0, 1, 2, 3]
    assert read(source, 0) == IN_ORDER


@pytest.mark.parametrize("name", ["arrays", "dataset", "sequence"])
def test_an_epoch_can_be_read_again(name: str) -> None:
    source = SOURCES[name]()
    assert read(source, 0) == read(source, 1) == IN_ORDER
    assert source.batches == 3


def test_a_generator_is_read_once() -> None:
    source = SOURCES["generator"]()
    assert not source.replayable
    assert read(source, 0) == IN_ORDER
    assert read(source, 1) == []


def test_shuffled_arrays_mix_rows_anew_in_each_epoch() -> None:
    source = make_source(ROWS, LABELS, batch_size=4, shuffle=True, seed=3)
    first, second, again = read(source, 0), read(source, 1), read(source, 0)
    assert first == again
    assert sorted(flat(first)) == sorted(flat(second)) == list(range(10))
    assert flat(first) != flat(second)
    assert first != read(make_source(ROWS, LABELS, batch_size=4, shuffle=True, seed=4), 0)


def test_shuffled_sequences_mix_batches_and_hear_of_ended_epochs() -> None:
    sequence = Sequence()
    source = make_source(sequence, shuffle=True, seed=3)
    orders = [read(source, epoch) for epoch in range(4)]
    assert all(sorted(order) == IN_ORDER for order in orders)
    assert len({tuple(flat(order)) for order in orders}) > 1
    assert sequence.ended == 3


def test_class_weights_become_sample_weights() -> None:
    source = make_source(ROWS, LABELS, batch_size=4, class_weight={0: 0.5, 5: 2.0})
    weights = [batch[2].numpy().tolist() for batch in source.pipeline()]
    assert weights == [[0.5, 1, 1, 1], [1, 2, 1, 1], [1, 1]]


def test_lists_of_arrays_stay_apart() -> None:
    source = make_source([ROWS, ROWS + 1], [LABELS, LABELS + 1], batch_size=4)
    x, y = next(iter(source.pipeline()))
    assert [part.numpy()[0, 0] for part in x] == [0, 1]
    assert [part.numpy()[0] for part in y] == [0, 1]


@pytest.mark.parametrize("rows", [1, 2, 5, 10])
@pytest.mark.parametrize("replicas", [1, 2, 3, 4])
def test_parts_of_replicas_make_up_the_batch(rows: int, replicas: int) -> None:
    source = make_source(ROWS[:rows], LABELS[:rows], batch_size=10)
    ((parts, _),) = source.parts(range(replicas), replicas, fingerprint=False)
    own = [part.data[1].numpy().tolist() for part in parts if part.rows > 0]
    assert flat(own) == list(range(rows))
    assert sum(float(part.share) for part in parts) == pytest.approx(1)
    for part in parts:
        assert float(part.share) == pytest.approx(float(part.rows) / rows)
        assert len(part.data[0]) >= 1  # borrowed, where it has none of its own


def test_pipelines_of_rows_are_not_tuned() -> None:
    """Else TensorFlow sometimes needs seconds to end an epoch's iterator."""
    parts = make_source(np.zeros((8, 1)), batch_size=4).parts([0], 1, fingerprint=False)
    assert parts.options().autotune.enabled is False


def test_a_part_without_rows_borrows_one() -> None:
    part = take_part((tf.constant(ROWS[:1]),), 2, 0)
    assert part.data[0].numpy().tolist() == [[0.0]]
    assert (float(part.rows), float(part.share)) == (0.0, 0.0)


def fingerprints(labels: np.ndarray) -> list[float]:
    """Gives the fingerprint of each batch of 4 rows."""
    source = make_source(ROWS, labels, batch_size=4)
    return [float(number) for _, number in source.parts([0], 2, fingerprint=True)]


def test_fingerprints_tell_batches_apart() -> None:
    assert fingerprints(LABELS) == fingerprints(LABELS.copy())
    assert len(set(fingerprints(LABELS))) == 3
    assert fingerprints(LABELS)[0] != fingerprints(LABELS[::-1].copy())[0]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"x": None}, "x is None"),
        ({"x": ROWS, "y": LABELS[:9]}, "same number of rows"),
        ({"x": ROWS, "sample_weight": LABELS}, "without y"),
        ({"x": np.array([{}, {}])}, "Python objects"),
        ({"x": ROWS, "batch_size": 0}, "global_batch_size must be a positive whole number"),
        ({"x": ROWS, "y": LABELS, "class_weight": {"cat": 2.0}}, "must map class indices"),
        ({"x": iter(())}, "ended before its first batch"),
        ({"x": iter([(ROWS, LABELS)]), "batch_size": 4}, "yields whole batches by itself"),
    ],
    ids=str,
)
def test_wrong_data_is_refused(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        make_source(**arguments)


@pytest.mark.parametrize(
    "dataset",
    [
        tf.data.Dataset.from_tensors(tf.ragged.constant([[1.0], [2.0, 3.0]])),
        tf.data.Dataset.from_tensors(tf.sparse.from_dense([[0.0, 1.0]])),
    ],
    ids=["ragged", "sparse"],
)
def test_tensors_that_cannot_be_divided_are_refused(dataset: tf.data.Dataset) -> None:
    with pytest.raises(ConfigError, match="cannot be divided over replicas"):
        make_source(dataset).pipeline()
