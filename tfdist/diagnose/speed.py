"""How fast the input is read, and how fast the model could use it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfdist.data.source import Source, as_it_is
from tfdist.diagnose.reading import Reader
from tfdist.training.trainer import Trainer


def input_speed(
    make: Callable[[Reader], Source],
    reader: Reader,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> float | None:
    """Reads a task's parts as training would, without training.

    Args:
        make: Makes the source of a task.
        reader: The task.
        seconds: How long to read.
        clock: Gives the time in seconds.

    Returns:
        Rows per second; None where there is not one row.
    """
    source = make(reader)
    source.begin_epoch(0)
    dataset = source.parts(reader.replicas, reader.context.total_replicas, fingerprint=False).repeat()

    def read(batches: int) -> int:
        def count(so_far: tf.Tensor, element: Any) -> tf.Tensor:
            parts, _ = element
            return so_far + tf.add_n([part.rows for part in parts])

        return int(dataset.take(batches).reduce(0.0, as_it_is(count)))

    return _rate(read, seconds, clock)


def step_speed(
    make_trainer: Callable[[Any], Trainer],
    make: Callable[[Reader], Source],
    reader: Reader,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> float:
    """Trains one replica again and again on its first batch, which is in memory.

    Args:
        make_trainer: Makes the trainer, under a strategy.
        make: Makes the source of a task.
        reader: The task whose first replica is meant.
        seconds: About how long to train.
        clock: Gives the time in seconds.

    Returns:
        Rows per second of one replica.
    """
    source = make(reader)
    parts, _ = next(iter(source.parts(reader.replicas, reader.context.total_replicas, fingerprint=False)))
    data, rows = parts[0].data, max(int(parts[0].rows), 1)
    batches = tf.data.Dataset.from_tensors(data).repeat()
    trainer = make_trainer("one_device")

    def train(steps: int) -> int:
        trainer.fit(batches, epochs=1, steps_per_epoch=steps, verbose=0)
        return rows * steps

    train(3)  # traces
    return _rate(train, seconds, clock) or 0.0


def _rate(work: Callable[[int], int], seconds: float, clock: Callable[[], float]) -> float | None:
    """Gives how much is done in a second, leaving out what each call takes by itself.

    Args:
        work: Does so many units of work, and gives how much that was.
        seconds: About how long the longest call may take.
        clock: Gives the time in seconds.
    """
    units, before = 4, (0, 0.0)
    while True:
        started = clock()
        done = work(units)
        taken = clock() - started
        if not done:
            return None
        more, longer = done - before[0], taken - before[1]
        if taken >= seconds / 2 and longer > 0 and before[0]:
            return more / longer
        before = (done, taken)
        units *= 2 if taken > seconds / 4 else 4
