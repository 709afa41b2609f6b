"""Gives a model's optimizer the learning rate of a run, once the run's batch and length are known."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence

import keras
import tensorflow as tf
from absl import logging

from tfdist.data.source import Source
from tfdist.errors import ConfigError
from tfdist.step import keras_private
from tfdist.step.keras_optimizer_private import rate_source
from tfdist.step.learning_rate import LearningRate
from tfdist.step.learning_rate_curve import Curve
from tfdist.step.momentum import require_correctable, rescale_momentum
from tfdist.step.schedule import as_schedule, is_ours, settled
from tfdist.training.loop import EpochPlan

_SET_BY_CALLBACK = (keras.callbacks.LearningRateScheduler, keras.callbacks.ReduceLROnPlateau)


class PlannedLearningRate:
    """A `LearningRate` and the optimizer that follows it, over all the runs of a `Trainer`.

    Args:
        plan: The plan.
        model: The model, compiled.
        strategy: The strategy it was made under.

    Raises:
        ConfigError: The plan is no plan, or the optimizer cannot follow it.
    """

    def __init__(self, plan: LearningRate, model: keras.Model, strategy: tf.distribute.Strategy) -> None:
        if not isinstance(plan, LearningRate):
            raise ConfigError(
                f"learning_rate must be a tfdist.LearningRate; received {plan!r}.",
                "pass learning_rate=tfdist.LearningRate(0.1, …); a number or a Keras schedule belongs to the"
                " optimizer, as in keras.optimizers.SGD(0.1)",
            )
        self._plan, self._model, self._strategy = plan, model, strategy
        self._take_optimizer()

    def _take_optimizer(self) -> None:
        """Makes the model's optimizer follow schedules; for now, one that keeps the rate it has."""
        plan, optimizer = self._plan, self._model.optimizer
        if optimizer is None:
            raise ConfigError(
                f"learning_rate={plan!r} was given, but the model is compiled without an optimizer.",
                "call model.compile(optimizer=…, loss=…)",
            )
        optimizers = keras_private.optimizers_of(self._model)
        if len(optimizers) > 1:
            raise ConfigError(
                f"learning_rate={plan!r} acts on the optimizer given to compile, but"
                f" {type(self._model).__name__} has {len(optimizers)} optimizers.",
                "give each of them a schedule, as in"
                " keras.optimizers.SGD(plan.resolve(global_batch_size, steps_per_epoch, epochs))",
            )
        own = rate_source(optimizer)
        if isinstance(own, keras.Variable):
            _log_if_replaced(optimizer, float(own.numpy()), plan)
            own = as_schedule(Curve(float(own.numpy())))
        elif not is_ours(own):
            raise ConfigError(
                f"learning_rate={plan!r} was given, but the optimizer has a schedule of its own, a"
                f" {type(own).__name__}.",
                "leave one of the two out",
            )
        if plan.momentum_correction:
            require_correctable(optimizer, self._strategy)
        self._optimizer, self._schedule = optimizer, own
        self._curve: Curve | None = None
        # Already here, because an optimizer with a schedule has one variable less than one with a number.
        optimizer.learning_rate = own

    def begin(
        self,
        source: Source,
        run: EpochPlan,
        callbacks: Sequence[keras.callbacks.Callback],
    ) -> None:
        """Sets the rate of a run.

        Args:
            source: The data.
            run: Its epochs.
            callbacks: All its callbacks.

        Raises:
            ConfigError: The plan needs a number that the data does not tell, or cannot work for this run.
        """
        if self._model.optimizer is not self._optimizer:  # compiled again
            self._take_optimizer()
        for callback in callbacks:
            if isinstance(callback, _SET_BY_CALLBACK):
                raise ConfigError(
                    f"{type(callback).__name__} sets the learning rate, and so does"
                    f" learning_rate={self._plan!r}.",
                    "leave one of the two out",
                )
        batch = _rows_of_a_batch(source) if self._plan.section.scales else None
        curve = self._plan.curve(batch, run.steps_per_epoch or source.batches, run.epochs)
        done = self._updates_done()
        if run.epochs > run.initial_epoch:
            _require_time_left(curve, done, run.initial_epoch)
        if curve != self._curve:
            schedule = as_schedule(curve, self._plan.momentum_correction)
            if self._plan.momentum_correction and done:
                last = done - 1
                rescale_momentum(self._optimizer, float(self._schedule(last)), float(schedule(last)))
            self._curve, self._schedule = curve, schedule
        self._optimizer.learning_rate = self._schedule

    def end(self) -> None:
        """After a run: a rate that does not change any more becomes a schedule of Keras's own, so that the
        trained model can be saved and loaded without tfdist.
        """
        rest = settled(self._schedule, self._updates_done())
        if rest is not None:
            self._optimizer.learning_rate = rest

    def _updates_done(self) -> int:
        return int(keras_private.innermost_optimizer(self._optimizer).iterations.numpy())


def _rows_of_a_batch(source: Source) -> int:
    if source.rows_per_batch is not None:
        return source.rows_per_batch
    rows = keras.tree.flatten(source.pipeline().element_spec)[0].shape[0]
    if rows is None:  # the rows of a full batch, unless the data has fewer
        rows = keras.tree.flatten(source.first_batch())[0].shape[0]
    return int(rows)


def _require_time_left(curve: Curve, done: int, initial_epoch: int) -> None:
    """Refuses to train with a rate of 0 only, which is what a second run from epoch 0 would come to."""
    if done < curve.settled_from:
        if done and not initial_epoch:
            logging.info("The learning rate goes on after the %d updates done before.", done)
        return
    if float(curve.at(done)) == 0.0:
        raise ConfigError(
            f"The optimizer has done {done} updates already, and the learning rate is 0 from update"
            f" {curve.settled_from} on, so this run would change nothing.",
            "to train on, pass initial_epoch=<epochs done> and a larger epochs; to begin again, call"
            " trainer.model.optimizer.iterations.assign(0)",
        )


def _log_if_replaced(optimizer: keras.optimizers.Optimizer, rate: float, plan: LearningRate) -> None:
    """Says that the optimizer's own rate does not count, where somebody may have chosen it."""
    inner = keras_private.innermost_optimizer(optimizer)
    default = inspect.signature(type(inner)).parameters["learning_rate"].default
    if not any(math.isclose(rate, other, rel_tol=1e-6) for other in (default, plan.base)):
        logging.info("%r replaces the optimizer's learning_rate of %g.", plan, rate)
