"""The engine of the synchronous strategies: every replica holds the model and works on its part of each
global batch.

Several steps run in one graph call. All tasks make the same calls in the same order, so their collectives
meet.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from tfdist.data.dataset_fn import DataContext
from tfdist.data.position import Position, begin_reading
from tfdist.data.source import Source, empty_data, ranks_of
from tfdist.engines.engine import Engine, Steps
from tfdist.engines.model_view import as_seen_by_steps
from tfdist.engines.replicated_loop import Ends, ReplicatedLoop, Result, Sums, static_replica_number
from tfdist.errors import ConfigError, TrainingError
from tfdist.step import keras_private
from tfdist.step.evaluate import evaluate_step, predict_step
from tfdist.step.metrics import MetricStates
from tfdist.step.train import train_step

GONE = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.DeadlineExceededError)


class ReplicatedEngine(Engine):
    """Runs steps under any strategy whose replicas update together, such as `mirrored`."""

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self.strategy = strategy
        self.num_replicas = strategy.num_replicas_in_sync
        self.counts_in_parallel = self.num_replicas > 1
        self.exchanges_slices = False  # known once a step is traced
        self._replicas = self._local_replicas()
        self.num_tasks = self.num_replicas // len(self._replicas)
        self._sum_function = tf.function(self._sum_over_tasks, autograph=False)
        resolver = strategy.cluster_resolver
        self.is_chief = self._replicas[0] == 0
        self._task = "this task" if resolver is None else f"{resolver.task_type}:{resolver.task_id}"

    def _local_replicas(self) -> list[int]:
        """Gives the global numbers of the replicas in this task."""
        numbers = self.strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(context.replica_id_in_sync_group)
        )
        return sorted(int(number) for number in self.strategy.experimental_local_results(numbers))

    def data_context(self) -> DataContext:
        """Tells which of the tasks this one is; each reads data."""
        return DataContext(
            rank=self._replicas[0] // len(self._replicas),
            world_size=self.num_tasks,
            total_replicas=self.num_replicas,
        )

    @property
    def replicas(self) -> Sequence[int]:
        """Global numbers of this task's replicas."""
        return self._replicas

    def check_settings(self) -> None:
        """Says that XLA is off where replicas exchange gradients (Keras's "auto" is off there anyway)."""
        if self.model.jit_compile and self.num_replicas > 1 and self.is_chief:
            logging.info(
                "jit_compile is off: XLA cannot compile the exchange between %d replicas.", self.num_replicas
            )

    def train(self, source: Source, epoch: int, start: Position | None = None) -> ReplicatedSteps:
        """Starts a pass through the training data, or goes on with one."""
        self.build(source)
        metrics = self._train_metrics
        step = functools.partial(self._train_replica, may_stand_in=source.per_task)
        return self._counting_steps("train", source, epoch, start, step, metrics)

    def evaluate(self, source: Source) -> ReplicatedSteps:
        """Starts a pass through evaluation data; each row is counted once."""
        self.build(source)
        metrics = self._evaluation_metrics
        metrics.reset()
        return self._counting_steps("test", source, 0, None, self._evaluate_replica, metrics)

    def _counting_steps(
        self,
        name: str,
        source: Source,
        epoch: int,
        start: Position | None,
        step: Callable[..., Any],
        metrics: MetricStates,
    ) -> ReplicatedSteps:
        dataset, iterator = self._iterator(source, epoch, start)

        def trace() -> tuple[Callable[..., Any], list[str]]:
            part_spec = dataset.element_spec[0][0]
            names = self.names_of_own_logs(step, metrics, part_spec, f"{name}_step")
            compiled = tf.function(step, autograph=False, jit_compile=True) if with_xla else step
            loop = ReplicatedLoop(self.strategy, self._replicas, compiled, metrics, names, ends)
            return self._as_graph(loop.run), names

        ends: Ends = "where_all_do" if source.batches is not None else "when_one_does"
        if source.per_task:
            ends = "when_all_have"
        with_xla = bool(self.model.jit_compile) and self.num_replicas == 1 and not self.model.run_eagerly
        function, names = self.traced((name, ends, ranks_of(dataset.element_spec)), trace)
        return ReplicatedSteps(self, function, names, iterator, metrics)

    def predict(self, source: Source, steps: int | None) -> Any:
        """Predicts on every replica and puts the parts back in order."""
        if source.per_task:
            raise ConfigError(
                "predict was given a dataset_fn. Each task reads its rows by itself, so no order is known.",
                "pass arrays or a tf.data.Dataset of global batches, the same in every task",
            )
        self.build_layers(source)
        dataset, iterator = self._iterator(source, 0)
        name = ("predict", ranks_of(dataset.element_spec))
        function = self.traced(name, lambda: self._as_graph(self._predict_batch))
        outputs: list[Any] = []
        for parts, _ in iterator if steps is None else itertools.islice(iterator, steps):
            gathered, rows = function(parts)
            rows = rows.numpy()
            own = np.repeat(rows > 0, np.maximum(rows, 1).astype(np.int64))  # leaves borrowed rows out
            outputs.append(keras.tree.map_structure(lambda array, own=own: array.numpy()[own], gathered))
        if not outputs:
            raise empty_data("data to predict")
        return keras.tree.map_structure(lambda *pieces: np.concatenate(pieces), *outputs)

    def sum_over_tasks(self, number: float) -> float:
        """Gives the sum of every task's number."""
        if self.num_tasks == 1:
            return number
        with self.explaining():
            return float(self._sum_function(tf.constant(number, tf.float64)))

    def _sum_over_tasks(self, number: tf.Tensor) -> tf.Tensor:
        def replica() -> tf.Tensor:
            return number if static_replica_number() == self._replicas[0] else tf.zeros_like(number)

        return self.strategy.reduce("SUM", self.strategy.run(replica), axis=None)

    def _iterator(
        self, source: Source, epoch: int, start: Position | None = None
    ) -> tuple[tf.data.Dataset, Iterator[Any]]:
        compare = self.num_tasks > 1 and not source.per_task
        if compare:
            self._require_equal_data(source)
        begin_reading(source, epoch, start)
        fingerprint = compare or not source.order_is_known
        dataset = source.parts(self._replicas, self.num_replicas, fingerprint)
        with tf.device("CPU:0"):
            iterator = iter(dataset)
        if start is not None and start.checks(source):
            _, found = next(iterator, (None, None))
            if self.is_chief or not source.per_task:  # the position holds what the chief read
                start.require_fingerprint(None if found is None else float(found))
        return dataset, iterator

    def _require_equal_data(self, source: Source) -> None:
        """Refuses data that has more batches, or other rows, in one task than in another."""
        own = -1 if source.batches is None else source.batches
        total = int(self.sum_over_tasks(own))
        if total != own * self.num_tasks:
            known = "data of unknown length" if own < 0 else f"{own} batches"
            raise TrainingError(
                f"{self._task} has {known}, and the {self.num_tasks} tasks together have {max(total, 0)}: not"
                " all have the same. Every task must pass the same global batches in the same order.",
                "pass the same data in every task; tfdist gives each its part",
            )
        if source.order_is_known and not source.is_compared:
            contents = int(source.describe()["contents"], 16) % 2**40  # sums of which are exact
            if int(self.sum_over_tasks(contents)) != contents * self.num_tasks:
                raise TrainingError(
                    f"{self._task} has other rows than the other tasks, as many as they are.",
                    "pass the same data in every task: seed what is drawn, and sort file names",
                )
            source.is_compared = True

    @contextlib.contextmanager
    def explaining(self) -> Iterator[None]:
        """Says what an error means when it comes from the exchange between tasks; lets others pass."""
        try:
            yield
        except tf.errors.OpError as error:
            text = str(error)
            if self.num_tasks == 1:
                raise
            says = f"TensorFlow says: {text.splitlines()[0]}"
            if "expected type" in text or "mismatch in the collective" in text:
                raise TrainingError(
                    f"{self._task} does not exchange the same things as the other tasks: most likely its data"
                    f" ended earlier or later than theirs. {says}",
                    "pass the same data in every task; where its length is not known, pass steps_per_epoch",
                ) from error
            if isinstance(error, GONE) or "Socket closed" in text or "Connection re" in text:
                raise TrainingError(
                    f"{self._task} cannot go on: another task has ended or cannot be reached. {says}",
                    "look into the logs of the other tasks for the first error; then start the job again",
                ) from error
            raise

    def _as_graph(self, body: Callable[..., Any]) -> Callable[..., Any]:
        if self.model.run_eagerly:
            return body
        return tf.function(body, autograph=False, reduce_retracing=True)

    def _train_replica(self, part: Any, states: Any, may_stand_in: bool) -> Any:
        return train_step(
            self.model,
            part,
            self._train_metrics.variables,
            states,
            seeds=keras_private.seed_states(self.model, self._shared_seed),
            stream=static_replica_number(),
            accumulate_steps=self._accumulate_steps,
            sum_over_replicas=self._sum_over_replicas,
            may_stand_in=may_stand_in,
        )

    def _evaluate_replica(self, part: Any, states: Any) -> Any:
        return evaluate_step(
            self.model,
            part,
            self._evaluation_metrics.variables,
            states,
            seeds=keras_private.seed_states(self.model, self._shared_seed),
            stream=static_replica_number(),
            sum_over_replicas=self._sum_over_replicas,
        )

    def _sum_over_replicas(self, tensors: list[Any]) -> list[Any]:
        if self.num_replicas == 1 or not tensors:
            return list(tensors)
        if any(isinstance(tensor, tf.IndexedSlices) for tensor in tensors):
            self.exchanges_slices = True
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, list(tensors))

    def _predict_batch(self, parts: Any) -> Any:
        def replica() -> Any:
            part = parts[self._replicas.index(static_replica_number())]
            predicted = predict_step(
                self.model,
                part,
                seeds=keras_private.seed_states(self.model, self._shared_seed),
                stream=static_replica_number(),
                sum_over_replicas=self._sum_over_replicas,
            )
            output = predicted, part.rows[None]
            if self.num_replicas == 1:
                return output
            return tf.distribute.get_replica_context().all_gather(output, axis=0)

        return keras.tree.map_structure(
            lambda value: self.strategy.experimental_local_results(value)[0], self.strategy.run(replica)
        )


class ReplicatedSteps(Steps):
    """Steps of a replicated engine over one pass through the data."""

    def __init__(
        self,
        engine: ReplicatedEngine,
        function: Callable[..., Any],
        names: list[str],
        iterator: Any,
        metrics: MetricStates,
    ) -> None:
        self._engine, self._function, self._names = engine, function, names
        self._iterator, self.metrics = iterator, metrics
        self._seconds = 0.0
        self._last_fingerprint = 0.0

    @property
    def last_fingerprint(self) -> float:
        """Fingerprint of the batch of the last step."""
        return self._last_fingerprint

    def run(self, steps: int) -> int:
        """Runs up to `steps` steps, in one graph call where possible."""
        done = 0
        while done < steps:
            asked = min(steps - done, self._most_at_once())
            count = self._run(asked)
            done += count
            if count < asked:
                break
        return done

    def _most_at_once(self) -> int:
        """Gives the most steps that one call can run.

        TensorFlow wants an exchange to have one shape as long as a call lasts, and the gradient of an
        embedding has as many rows as the batch has tokens.
        """
        is_traced = getattr(self._function, "experimental_get_tracing_count", lambda: 1)() > 0
        may_exchange_slices = self._engine.exchanges_slices or not is_traced
        return 1 if self._engine.num_replicas > 1 and may_exchange_slices else self._engine.max_steps_per_call

    def _run(self, steps: int) -> int:
        started = time.perf_counter()
        with self._engine.explaining(), as_seen_by_steps(self._engine.model):
            result: Result = self._function(
                self._iterator,
                tf.constant(steps, tf.int64),
                tf.constant(self._seconds, tf.float64),
                self.metrics.carried(),
            )
        done, sums = int(result.done), Sums.unpack(result.sums)
        workers = self._engine.num_tasks
        if sums.fingerprint != workers * float(result.fingerprint):
            raise TrainingError(
                f"{self._engine._task} read other rows than the other tasks in the last {done} steps. Every"
                " task must pass the same global batches in the same order; tfdist gives each its part.",
                "seed the pipeline (keras.utils.set_random_seed(7) before it is built, or shuffle(seed=7)),"
                " and sort file names",
            )
        if done:
            self.metrics.add(sums.counted, self._names)
            self._last_fingerprint = float(result.last_fingerprint)
        # The time of the call before: that of this one is known to nobody before the tasks have exchanged it.
        self.seconds_per_step = sums.seconds / workers or None
        self._seconds = (time.perf_counter() - started) / max(done, 1)
        return done

    def finish(self) -> None:
        """Nothing to wait for: `run` returns when its steps are done."""
