"""`DistributedSampler`: for loops of a user's own, the rows that `fit` gives each replica."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfdist import ConfigError, DistributedSampler
from tfdist.data.indexed import IndexedSource
from tfdist.data.table import ArrayTable

Batches = list[list[int]]


def make(rows: int, batch: int, replicas: int, **more: Any) -> list[DistributedSampler]:
    """Makes the samplers of all replicas."""
    return [
        DistributedSampler(rows, batch, replica=replica, replicas=replicas, **more)
        for replica in range(replicas)
    ]


def epoch_of(samplers: list[DistributedSampler]) -> list[Batches]:
    """Gives the rows of each replica in each batch of the next epoch."""
    return [[rows.tolist() for rows in sampler] for sampler in samplers]


def joined(own: list[Batches]) -> Batches:
    """Gives the global batches."""
    return [[row for rows in parts for row in rows] for parts in zip(*own, strict=True)]


@given(st.integers(0, 200), st.integers(1, 60), st.integers(1, 9), st.booleans(), st.booleans())
def test_every_row_once_and_the_same_batches_for_any_replicas(
    rows: int, batch: int, replicas: int, shuffle: bool, drop_remainder: bool
) -> None:
    more = {"shuffle": shuffle, "seed": 3, "drop_remainder": drop_remainder}
    several, one = make(rows, batch, replicas, **more), make(rows, batch, 1, **more)
    for _ in range(2):
        own = epoch_of(several)
        batches = joined(own)
        assert batches == epoch_of(one)[0]
        assert {len(sampler) for sampler in several} == {len(batches)}
        flat = [row for numbers in batches for row in numbers]
        assert len(set(flat)) == len(flat) == (rows // batch * batch if drop_remainder else rows)
        assert set(flat) <= set(range(rows))
        for parts in zip(*own, strict=True):
            assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert {sampler.epoch for sampler in several} == {2}


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("drop_remainder", [False, True])
@pytest.mark.parametrize(("rows", "replicas"), [(41, 3), (36, 2), (1, 4)])
def test_the_rows_are_those_of_fit(rows: int, replicas: int, shuffle: bool, drop_remainder: bool) -> None:
    more: dict[str, Any] = {"shuffle": shuffle, "seed": 5, "drop_remainder": drop_remainder}
    source = IndexedSource(ArrayTable((np.arange(rows),)), 12, **more)
    samplers = make(rows, 12, replicas, **more)
    for epoch in range(2):
        source.begin_epoch(epoch)
        expected = [
            [source.rows_of(batch, replica, replicas) for batch in range(source.batches or 0)]
            for replica in range(replicas)
        ]
        assert epoch_of(samplers) == expected


def test_each_epoch_has_an_order_of_its_own() -> None:
    (sampler,) = make(50, 10, 1)
    first, second = epoch_of([sampler]), epoch_of([sampler])
    assert first != second
    sampler.set_epoch(0)
    assert epoch_of([sampler]) == first


@pytest.mark.parametrize("done", [0, 1, 3, 4])
@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_a_state_is_gone_on_from_on_any_number_of_replicas(done: int, replicas: int) -> None:
    whole = make(41, 12, 1, seed=2)
    expected = [epoch_of(whole)[0] for _ in range(3)]
    before = make(41, 12, 2, seed=2)
    for sampler in before:
        list(sampler)
        for _, _ in zip(range(done), sampler, strict=False):
            pass
    states = [sampler.state_dict() for sampler in before]
    assert states[0] == states[1]
    after = make(41, 12, replicas, seed=2)
    for sampler in after:
        sampler.load_state_dict(json.loads(json.dumps(states[0])))
        assert sampler.epoch == 1
    assert joined(epoch_of(after)) == expected[1][done:]
    assert joined(epoch_of(after)) == expected[2]


def test_a_loop_left_early_goes_on_where_it_stopped() -> None:
    (sampler,) = make(10, 4, 1, shuffle=False)
    for rows in sampler:
        assert rows.tolist() == [0, 1, 2, 3]
        break
    assert epoch_of([sampler]) == [[[4, 5, 6, 7], [8, 9]]]
    assert epoch_of([sampler])[0][0] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"rows": -1}, "rows must be a whole number of at least 0; received -1"),
        ({"rows": 1.5}, "rows must be a whole number"),
        ({"global_batch_size": 0}, "global_batch_size must be a whole number of at least 1"),
        ({"replicas": True}, "replicas must be a whole number"),
        ({"replica": 2, "replicas": 2}, "replica=2 is not one of 2 replicas"),
        ({"seed": -1}, "seed must be"),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        DistributedSampler(**{"rows": 10, "global_batch_size": 4, **arguments})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"rows": 11}, "rows=11, and this sampler has rows=10"),
        ({"global_batch_size": 5}, "global_batch_size=5"),
        ({"seed": None}, "seed=None, and this sampler has seed=0"),
        ({"epoch": None}, "epoch must be a whole number"),
        ({"next_batch": -1}, "next_batch must be a whole number"),
    ],
    ids=str,
)
def test_a_state_of_other_data_is_refused(change: dict[str, Any], problem: str) -> None:
    sampler = DistributedSampler(10, 4)
    with pytest.raises(ConfigError, match=problem):
        sampler.load_state_dict({**sampler.state_dict(), **change})
    with pytest.raises(ConfigError, match="epoch must be"):
        sampler.set_epoch(-1)
