"""Epochs: run steps, call callbacks, validate. The same for every engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
from absl import logging

from tfdist.data.position import Position
from tfdist.data.source import Source, empty_data
from tfdist.engines.engine import Engine, Steps
from tfdist.errors import ConfigError
from tfdist.training.callbacks import (
    TEST_HOOKS,
    TRAIN_HOOKS,
    ProgressDisplay,
    must_see_every_batch,
    share_learning_rate,
)
from tfdist.training.pace import Pace


@dataclass
class EpochPlan:
    """What to do in a run.

    Attributes:
        epochs: Number of the last epoch plus one.
        initial_epoch: Number of the first epoch.
        steps_per_epoch: Updates in an epoch; None for one pass through the data.
        first_pass: Number of the first pass through the data, which settles the order of its rows.
        validate: Gives the validation logs; None for no validation.
        validates_after: Tells whether to validate after an epoch, by its number from 0.
        start: Where to go on; None for the beginning of the first epoch.
    """

    epochs: int
    initial_epoch: int
    steps_per_epoch: int | None
    first_pass: int
    validate: Callable[[], dict[str, Any]] | None
    validates_after: Callable[[int], bool]
    start: Position | None = None


def run_epochs(
    engine: Engine,
    source: Source,
    plan: EpochPlan,
    callbacks: keras.callbacks.CallbackList,
    steps_per_call: int | None,
    passes: Passes,
) -> None:
    """Trains.

    Args:
        engine: Runs the steps.
        source: The training data.
        plan: Epochs and validation.
        callbacks: All callbacks of this task.
        steps_per_call: Updates to run in one call; None to choose.
        passes: Of the engine through the source; tells the position meanwhile.
    """
    model = engine.model
    engine.build(source)  # callbacks may look at the optimizer's variables from the start
    every_batch = engine.any_task(must_see_every_batch(callbacks.callbacks, TRAIN_HOOKS))
    if steps_per_call is None and every_batch:
        steps_per_call = 1
    passes.pace = Pace(steps_per_call, engine.max_steps_per_call)
    model.stop_training = False
    callbacks.on_train_begin()
    logs: dict[str, Any] = {}
    for epoch in range(plan.initial_epoch, plan.epochs):
        callbacks.on_epoch_begin(epoch)
        share_learning_rate(model, engine)
        done = _run_epoch(engine, passes, plan.steps_per_epoch, callbacks, every_batch, epoch)
        if not model.stop_training:  # else it may have stopped in the middle
            passes.end_epoch()
        logs = passes.steps.metrics.results()
        if done and plan.validate is not None and plan.validates_after(epoch):
            logs.update({f"val_{name}": value for name, value in plan.validate().items()})
        callbacks.on_epoch_end(epoch, logs)
        share_learning_rate(model, engine)
        if engine.any_task(model.stop_training):
            model.stop_training = True
            break
        if passes.exhausted:
            if epoch + 1 < plan.epochs and plan.steps_per_epoch in (None, done):
                logging.warning(
                    "The generator was read to its end in epoch %d of %d and cannot be read again: training"
                    " ends.",
                    epoch + 1,
                    plan.epochs,
                )
            break
    if model.optimizer is not None and plan.epochs > plan.initial_epoch:
        model.optimizer.finalize_variable_values(model.trainable_variables)
    callbacks.on_train_end(logs)


def run_evaluation(
    engine: Engine, source: Source, limit: int | None, callbacks: keras.callbacks.CallbackList
) -> dict[str, Any]:
    """Evaluates over the first `limit` batches, or all of them, and gives loss and metrics."""
    callbacks.on_test_begin()
    steps = engine.evaluate(source)
    every_batch = engine.any_task(must_see_every_batch(callbacks.callbacks, TEST_HOOKS))
    pace = Pace(1 if every_batch else None, engine.max_steps_per_call)
    shows = ProgressDisplay(callbacks)
    if limit is None:
        limit = source.batches
    done = 0
    while limit is None or done < limit:
        asked = pace.next(None if limit is None else limit - done, steps.seconds_per_step)
        callbacks.on_test_batch_begin(done)
        count = steps.run(asked)
        done += count
        if count:
            callbacks.on_test_batch_end(
                done - 1, steps.metrics.results() if every_batch or shows.is_due() else {}
            )
        if count < asked:
            break
    steps.finish()
    if not done:
        raise empty_data("evaluation data")
    logs = steps.metrics.results()
    callbacks.on_test_end(logs)
    return logs


def _run_epoch(
    engine: Engine,
    passes: Passes,
    steps_per_epoch: int | None,
    callbacks: keras.callbacks.CallbackList,
    every_batch: bool,
    epoch: int,
) -> int:
    """Runs the steps of one epoch and gives their number."""
    model = engine.model
    done = passes.begin_epoch(epoch)
    shows = ProgressDisplay(callbacks)
    while steps_per_epoch is None or done < steps_per_epoch:
        asked = passes.steps_of_next_call(None if steps_per_epoch is None else steps_per_epoch - done)
        for batch in range(done, done + (asked if every_batch else min(asked, 1))):
            callbacks.on_train_batch_begin(batch)
        count = passes.run(asked)
        if count:
            logs = passes.steps.metrics.results() if every_batch or shows.is_due() else {}
            last = done + count - 1
            for batch in range(done if every_batch else last, last + 1):
                callbacks.on_train_batch_end(batch, logs)
        done += count
        if every_batch:
            share_learning_rate(model, engine)
        if every_batch and engine.any_task(model.stop_training):
            model.stop_training = True
            break
        if passes.is_over(count, asked) and (steps_per_epoch is None or not passes.start_next()):
            break
    passes.steps.finish()
    if steps_per_epoch is not None and done < steps_per_epoch and not model.stop_training:
        logging.warning(
            "The data ended after %d of the %d steps of epoch %d, and a generator cannot be read again:"
            " training ends.",
            done,
            steps_per_epoch,
            epoch + 1,
        )
    return done


class Passes:
    """Passes through the data, one after the other; an epoch is one pass, or a number of steps.

    Args:
        engine: Runs the steps.
        source: The data.
        offset: From the number of an epoch to that of its pass.
        one_pass: Whether an epoch is one pass.
        seed: Seed of the run.
        start: Where to go on; None for the beginning of an epoch.
    """

    steps: Steps

    def __init__(
        self,
        engine: Engine,
        source: Source,
        offset: int,
        one_pass: bool,
        seed: int,
        start: Position | None = None,
    ) -> None:
        self.pace = Pace()
        self.exhausted = False
        self._engine, self._source = engine, source
        self._offset, self._one_pass = offset, one_pass
        self._seed = seed
        self._start_at = start
        self._begun = False
        self._epoch, self._step = (0, 0) if start is None else (start.epoch, start.step)
        self._pass, self._done = (offset, 0) if start is None else (start.reading, start.batch)
        self._seconds: float | None = None

    def position(self) -> Position:
        """Gives where the run stands: after the last step, which is done when this returns."""
        if self._source.position_unknown:
            raise ConfigError(
                f"The position in this data is not known: {self._source.position_unknown}.",
                "pass arrays, a tf.data.Dataset, a PyDataset or a dataset_fn",
            )
        if self._start_at is not None:  # nothing is read yet
            return self._start_at
        fingerprint = None
        if self._begun:
            self.steps.finish()
            if self._done and not self._source.order_is_known:
                fingerprint = self.steps.last_fingerprint
        return Position(
            epoch=self._epoch,
            step=self._step,
            reading=self._pass,
            batch=self._done,
            seed=self._seed,
            data=self._source.describe(),
            state=self._source.state(),
            fingerprint=fingerprint,
        )

    def begin_epoch(self, epoch: int) -> int:
        """Gets ready for an epoch: with a new pass, or where the epoch before stopped.

        Returns:
            The steps of it that are done already.
        """
        start, self._start_at = self._start_at, None
        if start is not None:
            self._begin(start.reading, start)
            if self._one_pass and start.is_between_epochs:
                self._begin(epoch + self._offset)
        elif self._one_pass or not self._begun:
            self._begin(epoch + self._offset)
        self.steps.metrics.reset()
        self._epoch, self._step = epoch, 0 if start is None else start.step
        return self._step

    def end_epoch(self) -> None:
        """Goes to the beginning of the next epoch."""
        self._epoch, self._step = self._epoch + 1, 0

    def steps_of_next_call(self, remaining: int | None) -> int:
        """Gives the steps to ask for, at most those that are left of the epoch and of the pass."""
        if self._source.batches is not None:
            left = self._source.batches - self._done
            remaining = left if remaining is None else min(left, remaining)
        if self.steps.seconds_per_step is not None:
            self._seconds = self.steps.seconds_per_step
        return self.pace.next(remaining, self._seconds)

    def run(self, steps: int) -> int:
        """Runs up to so many steps and gives how many."""
        count = self.steps.run(steps)
        self._done += count
        self._step += count
        return count

    def is_over(self, count: int, asked: int) -> bool:
        """Tells whether the pass is over, after a call that ran `count` of the `asked` steps."""
        over = count < asked or self._done == self._source.batches
        if over and self._done == 0:
            raise empty_data("training data")
        self.exhausted = over and not self._source.replayable
        return over

    def start_next(self) -> bool:
        """Starts another pass within the same epoch; False if the data cannot be read again."""
        if self.exhausted:
            return False
        self.steps.finish()
        self._begin(self._pass + 1)
        return True

    def _begin(self, number: int, start: Position | None = None) -> None:
        self.steps = self._engine.train(self._source, number, start)
        self._pass, self._done = number, 0 if start is None else start.batch
        self._begun = True
