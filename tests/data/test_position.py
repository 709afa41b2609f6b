"""A run does not go on in other data than it stopped in, and says so at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdist
from tfdist.data.table import ArrayTable, split

ROWS = np.arange(20, dtype="float32")[:, None]
BATCH = 4


def build() -> keras.Model:
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(1e-4), "mse")
    return model


class Batches(keras.utils.PyDataset):
    def __init__(self, rows: np.ndarray) -> None:
        super().__init__()
        self._rows = rows

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        rows = self._rows[index * BATCH :][:BATCH]
        return rows, rows


def arrays(rows: np.ndarray, **arguments: Any) -> dict[str, Any]:
    return {"x": rows, "y": rows, "global_batch_size": BATCH, **arguments}


def dataset(rows: np.ndarray, seed: int | None = 5) -> dict[str, Any]:
    data = tf.data.Dataset.from_tensor_slices((rows, rows)).shuffle(20, seed=seed)
    return {"x": data.batch(BATCH)}


def unknown(rows: np.ndarray) -> dict[str, Any]:
    data = tf.data.Dataset.from_tensor_slices((rows, rows)).filter(lambda x, y: True)
    return {"x": data.batch(BATCH)}


def dataset_fn(rows: np.ndarray) -> dict[str, Any]:
    def make(context: tfdist.DataContext) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices((rows, rows)).batch(context.batch_size)

    return {"x": make, "global_batch_size": BATCH}


class StopsAfter(keras.callbacks.Callback):
    def __init__(self, trainer: tfdist.Trainer, batches: int) -> None:
        super().__init__()
        self._trainer, self._batches = trainer, batches
        self.position: dict[str, Any] = {}

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch + 1 == self._batches:
            self.position = json.loads(json.dumps(self._trainer.position.to_dict()))
            self.model.stop_training = True


@pytest.fixture(scope="module")
def trainer() -> tfdist.Trainer:
    return tfdist.Trainer(build, "one_device", seed=3)


def stopped(trainer: tfdist.Trainer, arguments: dict[str, Any], batches: int = 2) -> dict[str, Any]:
    """Trains some batches, and gives the position after them."""
    stops = StopsAfter(trainer, batches)
    trainer.fit(**arguments, initial_epoch=0, epochs=1, verbose=0, callbacks=[stops])
    return stops.position


SAME: dict[str, Callable[[], dict[str, Any]]] = {
    "arrays": lambda: arrays(ROWS),
    "sequence": lambda: {"x": Batches(ROWS)},
    "dataset": lambda: dataset(ROWS),
    "dataset_fn": lambda: dataset_fn(ROWS),
}


@pytest.mark.parametrize("kind", SAME)
def test_a_run_goes_on_in_the_same_data(trainer: tfdist.Trainer, kind: str) -> None:
    position = stopped(trainer, SAME[kind]())
    before = int(trainer.model.optimizer.iterations.numpy())
    history = trainer.fit(**SAME[kind](), epochs=1, verbose=0, start_at=position)
    assert int(trainer.model.optimizer.iterations.numpy()) - before == 3
    assert history.epoch == [0]


@pytest.mark.parametrize("kind", SAME)
def test_after_the_last_batch_only_the_end_of_the_epoch_is_left(trainer: tfdist.Trainer, kind: str) -> None:
    position = stopped(trainer, SAME[kind](), batches=5)
    before = int(trainer.model.optimizer.iterations.numpy())
    trainer.fit(**SAME[kind](), epochs=2, verbose=0, start_at=position)
    assert int(trainer.model.optimizer.iterations.numpy()) - before == 5


@pytest.mark.parametrize("kind", SAME)
def test_between_epochs_the_next_one_is_left(trainer: tfdist.Trainer, kind: str) -> None:
    trainer.fit(**SAME[kind](), initial_epoch=0, epochs=1, verbose=0)
    position = trainer.position
    before = int(trainer.model.optimizer.iterations.numpy())
    history = trainer.fit(**SAME[kind](), epochs=2, verbose=0, start_at=position)
    assert history.epoch == [1]
    assert int(trainer.model.optimizer.iterations.numpy()) - before == 5


OTHER: dict[str, tuple[Callable[[], dict[str, Any]], Callable[[], dict[str, Any]], str]] = {
    "rows of arrays": (lambda: arrays(ROWS), lambda: arrays(ROWS[::-1].copy()), "contents="),
    "number of rows": (lambda: arrays(ROWS), lambda: arrays(ROWS[:19]), "rows=20, not 19"),
    "batch size": (
        lambda: arrays(ROWS),
        lambda: arrays(ROWS, global_batch_size=5),
        "global_batch_size=4, not 5",
    ),
    "order": (lambda: arrays(ROWS), lambda: arrays(ROWS, shuffle=False), "seed=3, not None"),
    "rows of batches": (
        lambda: {"x": Batches(ROWS)},
        lambda: {"x": Batches(ROWS + 1)},
        "has other rows there",
    ),
    "seed of a dataset": (lambda: dataset(ROWS), lambda: dataset(ROWS, seed=6), "has other rows there"),
    "no seed": (lambda: dataset(ROWS, None), lambda: dataset(ROWS, None), "has other rows there"),
    "inputs of equal labels": (
        lambda: {"x": tf.data.Dataset.from_tensor_slices((ROWS, ROWS * 0)).batch(BATCH)},
        lambda: {"x": tf.data.Dataset.from_tensor_slices((ROWS[::-1], ROWS * 0)).batch(BATCH)},
        "has other rows there",
    ),
    "shorter data": (lambda: dataset_fn(ROWS), lambda: dataset_fn(ROWS[:4]), "batch 2, and the data has 1"),
    "shorter data of unknown length": (lambda: unknown(ROWS), lambda: unknown(ROWS[:4]), "ends before it"),
}


@pytest.mark.parametrize("what", OTHER)
def test_other_data_is_refused(trainer: tfdist.Trainer, what: str) -> None:
    first, second, words = OTHER[what]
    position = stopped(trainer, first())
    with pytest.raises(tfdist.ConfigError, match=words):
        trainer.fit(**second(), epochs=1, verbose=0, start_at=position)


def generator() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for begin in range(0, 20, BATCH):
        yield ROWS[begin : begin + BATCH], ROWS[begin : begin + BATCH]


def test_a_generator_tells_no_position(trainer: tfdist.Trainer) -> None:
    with pytest.raises(tfdist.ConfigError, match="a generator is read once"):
        stopped(trainer, {"x": generator()})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"start_at": {"epoch": 1}}, "no position in the data"),
        ({"start_at": {"epoch": "1"}}, "no position in the data"),
        ({"start_at": {"epoch": 0, "batch": 99}}, "after batch 99, and the data has 5"),
        ({"start_at": {"epoch": 0, "step": 9}, "steps_per_epoch": 3}, "after 9 steps of an epoch"),
        ({"start_at": {"epoch": 3}, "epochs": 3}, "epochs=3 ends before"),
        ({"start_at": {"epoch": 0}, "epochs": 3, "initial_epoch": 2}, "initial_epoch=2 was given"),
    ],
)
def test_arguments_that_do_not_go_together(
    trainer: tfdist.Trainer, arguments: dict[str, Any], words: str
) -> None:
    if arguments["start_at"] != {"epoch": 1}:
        whole = stopped(trainer, arrays(ROWS))
        given = {name: value for name, value in arguments["start_at"].items() if value is not None}
        arguments = {"epochs": 1, **arguments, "start_at": {**whole, **given}}
    with pytest.raises(tfdist.ConfigError, match=words):
        trainer.fit(**arrays(ROWS), verbose=0, **arguments)


def test_a_shuffle_that_repeats_in_one_pass_is_noticed_between_epochs(trainer: tfdist.Trainer) -> None:
    def repeated() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices((ROWS, ROWS)).shuffle(20, seed=3).repeat(2).batch(BATCH)

    trainer.fit(repeated(), epochs=2, verbose=0)
    with pytest.raises(tfdist.ConfigError, match="raise epochs instead of repeat"):
        trainer.fit(repeated(), epochs=5, verbose=0, start_at=trainer.position)


def test_there_is_none_before_the_first_fit() -> None:
    with pytest.raises(tfdist.ConfigError, match="before the first fit"):
        tfdist.Trainer(build, "one_device").position  # noqa: B018


def test_tables_that_differ_say_so() -> None:
    one, other = ArrayTable((ROWS,)), ArrayTable((np.where(ROWS == 19, 0, ROWS),))
    assert one.identity() == ArrayTable((ROWS.copy(),)).identity() != other.identity()
    numbers = tf.constant([17, 18, 19], tf.int64)
    assert float(one.fingerprint(numbers)) != float(other.fingerprint(numbers))
    half, other_half = split(one, 0.5)[0], split(other, 0.25)[0]
    assert half.identity() != other_half.identity()
