"""What the training loop asks of an engine."""

from __future__ import annotations

import importlib
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfdist.data.dataset_fn import DataContext
from tfdist.data.position import Position
from tfdist.data.source import Source
from tfdist.engines.model_view import as_seen_by_steps
from tfdist.errors import ConfigError
from tfdist.step import keras_private
from tfdist.step.custom import build_own_optimizers
from tfdist.step.keras_optimizer_private import schedule_of
from tfdist.step.metrics import MetricStates, has_own_metrics
from tfdist.strategies.registry import how_made


class Steps(ABC):
    """Steps of training or evaluation over one pass through the data.

    Attributes:
        metrics: What the steps counted.
        seconds_per_step: What the last steps took, the same number in every task; `None` before it is known.
    """

    metrics: MetricStates
    seconds_per_step: float | None = None

    @abstractmethod
    def run(self, steps: int) -> int:
        """Runs up to `steps` steps, or hands them out to workers.

        Returns:
            How many; fewer than asked for when the pass is over.
        """

    @abstractmethod
    def finish(self) -> None:
        """Waits until every step that was handed out is done and counted in the metrics."""

    @property
    @abstractmethod
    def last_fingerprint(self) -> float:
        """Fingerprint of the batch of the last step, where the order of the data is its own."""


class Engine(ABC):
    """Runs a model's steps on the devices of a strategy.

    Attributes:
        strategy: The strategy.
        num_replicas: Copies of the model that work on one global batch.
        num_tasks: Tasks that run the training loop.
        is_chief: Whether this task writes files and shows progress.
        counts_in_parallel: Whether a metric is counted in several places at a time.
        model: The model; set by `attach`.
        max_steps_per_call: Most steps that the loop should ask for at a time.
    """

    strategy: Any
    num_replicas: int
    num_tasks: int
    is_chief: bool
    counts_in_parallel: bool
    model: keras.Model
    max_steps_per_call: int = 256

    @property
    def description(self) -> str:
        """What computes, in words for the log."""
        tasks = f" in {self.num_tasks} tasks" if self.num_tasks > 1 else ""
        return f"{self.num_replicas} replica{'s' if self.num_replicas > 1 else ''}{tasks}"

    def data_context(self) -> DataContext:
        """Tells which of the tasks that read data this one is."""
        return DataContext(total_replicas=self.num_replicas)

    @property
    def replicas(self) -> Sequence[int]:
        """Global numbers of the replicas for which this task reads data."""
        return range(self.num_replicas)

    def attach(self, model: keras.Model, accumulate_steps: int) -> None:
        """Gives the engine its model, made in the scope of its strategy.

        Raises:
            ConfigError: The model is compiled in a way that the engine cannot run.
        """
        self.model = model
        self.check_settings()
        self._accumulate_steps = accumulate_steps
        self._built_for: list[Any] = []
        with self.strategy.scope():
            self._shared_seed = keras_private.global_seed()
        self._traced: dict[Any, Any] = {}

    def build(self, source: Source) -> None:
        """Creates all variables of the model, from the shapes of the data, and its metrics.

        Does nothing the next time, unless the model was compiled again.
        """
        model = self.model
        parts = [model.optimizer, keras_private.compiled_loss(model), keras_private.compiled_metrics(model)]
        if len(self._built_for) == len(parts) and all(map(operator.is_, self._built_for, parts)):
            return
        self.check_settings()  # it may have been compiled again
        with self.strategy.scope():
            if keras_private.overrides(model, "train_step"):
                self.build_layers(source)
                build_own_optimizers(model, source.pipeline().element_spec)
            keras_private.build_everything(model, source.batch_spec())
        self._train_metrics = MetricStates(model)
        self._evaluation_metrics = MetricStates(model)
        if has_own_metrics(model) and keras_private.can_be_called(model):
            batch = source.first_batch()
            with as_seen_by_steps(model):
                for metrics in (self._train_metrics, self._evaluation_metrics):
                    metrics.settle_sums(batch, self.counts_in_parallel)
        self._traced = {}
        self._built_for = parts

    def traced(self, name: Any, trace: Callable[[], Any]) -> Any:
        """Gives what `trace` makes, made once for each set of weights that are trained (layers can be
        frozen) and each schedule of the learning rate.
        """
        trained = self.model.trainable_variables
        key = (name, schedule_of(self.model.optimizer), *map(id, trained))
        if key not in self._traced:
            self._traced[key] = (trained, trace())  # holds the weights, so that their ids stay theirs
        return self._traced[key][1]

    def names_of_own_logs(
        self, step: Callable[[Any, Any], Any], metrics: MetricStates, part_spec: Any, method: str
    ) -> list[str]:
        """Gives the names of what the model's own `train_step` or `test_step` returns, by tracing it once."""
        if not keras_private.overrides(self.model, method):
            return []
        names: list[str] = []

        def trace(part: Any) -> None:
            def replica() -> None:
                names[:] = step(part, metrics.initial(metrics.carried()))[1]

            self.strategy.run(replica)

        with as_seen_by_steps(self.model):
            tf.function(trace, autograph=False).get_concrete_function(part_spec)
        metrics.own_logs = dict.fromkeys(names, float("nan"))
        return names

    def check_settings(self) -> None:  # noqa: B027 - most engines run all there is
        """Refuses what the model was compiled with and this engine cannot do."""

    def build_layers(self, source: Source) -> None:
        """Creates the weights of the model, which is all that predicting needs."""
        with self.strategy.scope():
            x, _, _ = keras.utils.unpack_x_y_sample_weight(source.batch_spec())
            keras_private.build_layers(self.model, x)

    @abstractmethod
    def train(self, source: Source, epoch: int, start: Position | None = None) -> Steps:
        """Starts a pass through the training data.

        Args:
            source: The data.
            epoch: Number of the pass.
            start: Where in it to begin; left out: at its first batch.
        """

    @abstractmethod
    def evaluate(self, source: Source) -> Steps:
        """Starts a pass through evaluation data, with metrics that have counted nothing."""

    @abstractmethod
    def predict(self, source: Source, steps: int | None) -> Any:
        """Gives the model's outputs for every row, in order, as arrays; the same in every task."""

    @abstractmethod
    def sum_over_tasks(self, number: float) -> float:
        """Gives the sum of every training task's `number`, to each of them, in double precision."""

    def agree(self, number: float) -> float:
        """Gives the chief's `number` to every task."""
        return self.sum_over_tasks(number if self.is_chief else 0.0)

    def any_task(self, flag: bool) -> bool:
        """Tells every task whether any of them passed True."""
        return self.sum_over_tasks(float(flag)) > 0


def engine_for(strategy: Any) -> Engine:
    """Makes the engine that runs steps under a strategy.

    Args:
        strategy: What `make_strategy` returned, or any `tf.distribute.Strategy`.

    Raises:
        ConfigError: If `strategy` is not a strategy that any engine knows.
    """
    made = how_made(strategy)
    if made is not None:
        return _load(made.kind.engine)(strategy, **made.kind.engine_options(made.options))
    if isinstance(strategy, tf.distribute.ParameterServerStrategy):
        return _load("tfdist.engines.parameter_server:ParameterServerEngine")(strategy)
    if isinstance(strategy, tf.distribute.Strategy):
        return _load("tfdist.engines.replicated:ReplicatedEngine")(strategy)
    raise ConfigError(
        f"strategy must be a kind's name or a tf.distribute.Strategy; received {strategy!r}.",
        "pass strategy='mirrored', or what tfdist.make_strategy returns",
    )


def _load(path: str) -> Any:
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)
