"""The engine of the synchronous strategies: every replica holds the model and works on its part of each
global batch.

Several steps run in one graph call. All tasks make the same calls in the same order, so their collectives
meet.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from tfdist.data.source import Source, empty_data, ranks_of
from tfdist.engines.engine import Engine, Steps
from tfdist.engines.model_view import as_seen_by_steps
from tfdist.errors import TrainingError
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

    def check_settings(self) -> None:
        """Says that XLA is off where replicas exchange gradients. (Under a strategy Keras's "auto" means
        off.)
        """
        if self.model.jit_compile and self.num_replicas > 1:
            logging.info(
                "jit_compile is off: XLA cannot compile the exchange between %d replicas.", self.num_replicas
            )

    def train(self, source: Source, epoch: int) -> ReplicatedSteps:
        """Starts a pass through the training data."""
        self.build(source)
        metrics = self._train_metrics
        return self._counting_steps("train", source, epoch, self._train_replica, metrics)

    def evaluate(self, source: Source) -> ReplicatedSteps:
        """Starts a pass through evaluation data; each row is counted once."""
        self.build(source)
        metrics = self._evaluation_metrics
        metrics.reset()
        return self._counting_steps("test", source, 0, self._evaluate_replica, metrics)

    def _counting_steps(
        self, name: str, source: Source, epoch: int, step: Callable[..., Any], metrics: MetricStates
    ) -> ReplicatedSteps:
        dataset, iterator = self._iterator(source, epoch)

        def trace() -> tuple[Callable[..., Any], list[str]]:
            part_spec = dataset.element_spec[0][0]
            names = self.names_of_own_logs(step, metrics, part_spec, f"{name}_step")
            compiled = tf.function(step, autograph=False, jit_compile=True) if with_xla else step
            return (
                self._as_graph(self._make_counting_function(compiled, metrics, names, lengths_known)),
                names,
            )

        lengths_known = source.batches is not None
        with_xla = bool(self.model.jit_compile) and self.num_replicas == 1 and not self.model.run_eagerly
        function, names = self.traced((name, lengths_known, ranks_of(dataset.element_spec)), trace)
        return ReplicatedSteps(self, function, names, iterator, metrics)

    def predict(self, source: Source, steps: int | None) -> Any:
        """Predicts on every replica and puts the parts back in order."""
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
            return number if _static_replica_number() == self._replicas[0] else tf.zeros_like(number)

        return self.strategy.reduce("SUM", self.strategy.run(replica), axis=None)

    def _iterator(self, source: Source, epoch: int) -> tuple[tf.data.Dataset, Iterator[Any]]:
        compare = self.num_tasks > 1
        if compare:
            self._require_equal_lengths(source)
        source.begin_epoch(epoch)
        dataset = source.parts(self._replicas, self.num_replicas, compare)
        with tf.device("CPU:0"):
            return dataset, iter(dataset)

    def _require_equal_lengths(self, source: Source) -> None:
        """Refuses data that has more batches in one task than in another, where lengths are known."""
        own = -1 if source.batches is None else source.batches
        total = int(self.sum_over_tasks(own))
        if total != own * self.num_tasks:
            known = "data of unknown length" if own < 0 else f"{own} batches"
            raise TrainingError(
                f"{self._task} has {known}, and the {self.num_tasks} tasks together have {max(total, 0)}: not"
                " all have the same. Every task must pass the same global batches in the same order.",
                "pass the same data in every task; tfdist gives each its part",
            )

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

    def _train_replica(self, part: Any, states: Any) -> Any:
        return train_step(
            self.model,
            part,
            self._train_metrics.variables,
            states,
            seeds=keras_private.seed_states(self.model, self._shared_seed),
            stream=_static_replica_number(),
            accumulate_steps=self._accumulate_steps,
            sum_over_replicas=self._sum_over_replicas,
        )

    def _evaluate_replica(self, part: Any, states: Any) -> Any:
        return evaluate_step(
            self.model,
            part,
            self._evaluation_metrics.variables,
            states,
            seeds=keras_private.seed_states(self.model, self._shared_seed),
            stream=_static_replica_number(),
            sum_over_replicas=self._sum_over_replicas,
        )

    def _sum_over_replicas(self, tensors: list[Any]) -> list[Any]:
        if self.num_replicas == 1 or not tensors:
            return list(tensors)
        if any(isinstance(tensor, tf.IndexedSlices) for tensor in tensors):
            self.exchanges_slices = True
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, list(tensors))

    def _all_have(self, has_batch: Any) -> Any:
        """Tells, inside a step, whether every task has another batch."""
        if self.num_tasks == 1:
            return has_batch
        local = tf.cast(has_batch, tf.float32) / len(self._replicas)
        having = self.strategy.reduce("SUM", self.strategy.run(lambda: local), axis=None)
        return having > self.num_tasks - 0.5

    def _make_counting_function(
        self,
        replica_step: Callable[[Any, Any], Any],
        metrics: MetricStates,
        names: list[str],
        lengths_known: bool,
    ) -> Callable[..., Any]:
        """Makes the function that runs n steps in one graph and sums what they counted over all replicas.

        Its results: steps done; the fingerprint of the rows this task read; and one float64 vector, summed
        over all tasks: `[fingerprint, seconds, counted by each metric …]`.
        """
        strategy, replicas = self.strategy, self._replicas

        def run_steps(iterator: Any, steps: Any, seconds: Any, carried: Any) -> tuple[Any, Any, Any]:
            def one_step(done: Any, going: Any, fingerprint: Any, logs: Any, states: Any) -> Any:
                optional = iterator.get_next_as_optional()
                has_batch = optional.has_value()
                all_have = has_batch if lengths_known else self._all_have(has_batch)

                def step() -> Any:
                    parts, batch_fingerprint = optional.get_value()

                    def replica() -> Any:
                        local = replicas.index(_static_replica_number())
                        new_states, new_logs = replica_step(parts[local], states[local])
                        return list(new_states), [tf.cast(new_logs[name], tf.float32) for name in names]

                    new_states, new_logs = strategy.run(replica)
                    new_states = self._per_replica(new_states)
                    new_logs = [strategy.experimental_local_results(value)[0] for value in new_logs]
                    weight = tf.cast(done + 1, tf.float64)  # so that the order of the batches counts
                    return done + 1, True, fingerprint + weight * batch_fingerprint, new_logs, new_states

                def stop() -> Any:
                    # A task with more batches than the others ends with another fingerprint than theirs.
                    left_over = tf.cast(has_batch, tf.float64) / 2
                    return done, False, fingerprint + left_over, list(logs), list(states)

                return tf.cond(all_have, step, stop)

            initial = [metrics.initial(carried) for _ in replicas]
            done, _, fingerprint, logs, states = tf.while_loop(
                lambda done, going, *_: tf.logical_and(done < steps, going),
                one_step,
                (
                    tf.constant(0, tf.int64),
                    tf.constant(True),
                    tf.constant(0.0, tf.float64),
                    [tf.constant(0.0) for _ in names],
                    initial,
                ),
                parallel_iterations=1,
            )

            def counted() -> tf.Tensor:
                local = replicas.index(_static_replica_number())
                is_local_first = 1.0 if local == 0 else 0.0
                is_first = 1.0 if replicas[local] == 0 else 0.0  # the logs are the same on all replicas
                own = [tf.cast(value, tf.float64) * is_first for value in logs]
                head = tf.stack([fingerprint * is_local_first, seconds * is_local_first, *own])
                return tf.concat([head, metrics.counted(states[local])], axis=0)

            return done, fingerprint, strategy.reduce("SUM", strategy.run(counted), axis=None)

        return run_steps

    def _per_replica(self, values: list[Any]) -> list[list[Any]]:
        """Turns a list of values of all local replicas into one list of values per replica."""
        local = [self.strategy.experimental_local_results(value) for value in values]
        return [[value[index] for value in local] for index in range(len(self._replicas))]

    def _predict_batch(self, parts: Any) -> Any:
        def replica() -> Any:
            part = parts[self._replicas.index(_static_replica_number())]
            predicted = predict_step(
                self.model,
                part,
                seeds=keras_private.seed_states(self.model, self._shared_seed),
                stream=_static_replica_number(),
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
            done, fingerprint, counted = self._function(
                self._iterator,
                tf.constant(steps, tf.int64),
                tf.constant(self._seconds, tf.float64),
                self.metrics.carried(),
            )
        done, counted = int(done), counted.numpy()
        workers = self._engine.num_tasks
        if counted[0] != workers * float(fingerprint):
            raise TrainingError(
                f"{self._engine._task} read other rows than the other tasks in the last {done} steps. Every"
                " task must pass the same global batches in the same order; tfdist gives each its part.",
                "seed the pipeline (keras.utils.set_random_seed(7) before it is built, or shuffle(seed=7)),"
                " and sort file names",
            )
        if done:
            self.metrics.add(counted[2:], self._names)
        # The time of the call before: that of this one is known to nobody before the tasks have exchanged it.
        self.seconds_per_step = counted[1] / workers or None
        self._seconds = (time.perf_counter() - started) / max(done, 1)
        return done

    def finish(self) -> None:
        """Nothing to wait for: `run` returns when its steps are done."""


def _replica_number() -> tf.Tensor:
    return tf.distribute.get_replica_context().replica_id_in_sync_group


def _static_replica_number() -> int:
    number = tf.get_static_value(_replica_number())
    if number is None:
        raise TrainingError(
            "TensorFlow did not give this replica's number while tracing a step.",
            "pip install 'tensorflow==2.21.*', the version that was tested",
        )
    return int(number)
