"""The engine of the parameter server: the chief hands out blocks of global batches, workers update the
weights on the ps.

                 block of k batches
    chief  ─────────────────────▶  worker: k times {read weights, forward, backward, update}  ⇄  ps: weights
           ◀─────────────────────
             what the metrics counted

At most `closures_in_flight` blocks are out at a time, so an update is computed from weights that are at most
`(closures_in_flight - 1) x k` updates old. Every row of an epoch is in one block. A worker that dies loses
its block, which TensorFlow hands to another one: those updates may be applied twice.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from tfdist.data.batch import Part
from tfdist.data.position import Position, begin_reading
from tfdist.data.source import Source, batch_fingerprint, empty_data
from tfdist.engines.blocks import batch_of_block, make_block_reader, open_rows_signature
from tfdist.engines.engine import Engine, Steps
from tfdist.engines.model_view import as_seen_by_steps
from tfdist.errors import ConfigError, TrainingError
from tfdist.step import keras_private
from tfdist.step.evaluate import evaluate_step, predict_step
from tfdist.step.metrics import MetricStates
from tfdist.step.train import train_step


class ParameterServerEngine(Engine):
    """Runs steps on the workers of a `tf.distribute.ParameterServerStrategy`, from its chief.

    Args:
        strategy: The chief's strategy.
        closures_in_flight: Blocks that workers may hold at a time; None for two per worker.
    """

    num_replicas = 1  # each update is computed by one worker, from a whole global batch
    num_tasks = 1
    counts_in_parallel = True
    is_chief = True  # workers and ps never get this far
    max_steps_per_call = 16  # throughput gains little beyond, and weights would get older

    def __init__(self, strategy: Any, closures_in_flight: int | None = None) -> None:
        self.strategy = strategy
        self.coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        devices = tf.config.list_logical_devices("CPU")  # every task has one
        self._num_workers = sum("/job:worker/" in device.name for device in devices)
        self.closures_in_flight = closures_in_flight or 2 * self._num_workers

    @property
    def description(self) -> str:
        """What computes, in words for the log."""
        return f"{self._num_workers} workers, with {self.closures_in_flight} blocks of work in flight"

    def attach(self, model: keras.Model, accumulate_steps: int) -> None:
        """Gives the engine its model, whose weights are on the ps."""
        super().attach(model, accumulate_steps)
        self._steps_handed_out = 0

    def check_settings(self) -> None:
        """Refuses what cannot be done with weights that are in other tasks, and says that XLA is off."""
        if self.model.run_eagerly:
            raise ConfigError(
                "The model was compiled with run_eagerly=True, but parameter_server sends graphs to its"
                " workers.",
                "leave run_eagerly out, or debug under strategy='one_device'",
            )
        if self.model.jit_compile:
            logging.info("jit_compile is off: XLA cannot compile the reading of weights from the ps tasks.")

    def train(self, source: Source, epoch: int, start: Position | None = None) -> BlockSteps:
        """Starts a pass through the training data, or goes on with one."""
        self.build(source)
        return self._steps("train", source, epoch, start, self._train_replica, self._train_metrics)

    def evaluate(self, source: Source) -> BlockSteps:
        """Starts a pass through evaluation data; each row is counted once, also when a worker dies."""
        self.build(source)
        self._evaluation_metrics.reset()
        return self._steps("test", source, 0, None, self._evaluate_replica, self._evaluation_metrics)

    def predict(self, source: Source, steps: int | None) -> Any:
        """Predicts on the workers, batch by batch, and puts the outputs in order."""
        self.build_layers(source)
        source.begin_epoch(0)
        dataset = source.pipeline()

        def closure(data: Any, number: Any) -> Any:
            part = batch_of_block(data, tf.shape(keras.tree.flatten(data)[0], tf.int64)[:1], 0, 0)

            def replica() -> Any:
                seeds = keras_private.seed_states(self.model, self._shared_seed)
                return predict_step(self.model, part, seeds=seeds, stream=number, sum_over_replicas=list)

            outputs = self.strategy.run(replica)
            return keras.tree.map_structure(
                lambda value: self.strategy.experimental_local_results(value)[0], outputs
            )

        signature = [open_rows_signature(dataset.element_spec), tf.TensorSpec([], tf.int64)]
        function = tf.function(closure, input_signature=signature, autograph=False)
        pending: collections.deque[Any] = collections.deque()
        outputs = []
        for data in itertools.islice(dataset, steps):
            if len(pending) == self.closures_in_flight:
                outputs.append(self._fetch(pending.popleft()))
            number = tf.constant(self.next_steps(1), tf.int64)
            pending.append(self.schedule(function, (data, number)))
        outputs.extend(self._fetch(remote) for remote in pending)
        if not outputs:
            raise empty_data("data to predict")
        return keras.tree.map_structure(lambda *pieces: np.concatenate(pieces), *outputs)

    def sum_over_tasks(self, number: float) -> float:
        """Gives the number back: the chief is the only task that runs the loop."""
        return number

    def schedule(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Hands a closure to the next free worker."""
        with self._errors(), self._as_seen_by_steps():
            return self.coordinator.schedule(function, args=arguments)

    def _fetch(self, remote: Any) -> Any:
        """Waits for a closure's result."""
        with self._errors():
            return remote.fetch()

    @contextlib.contextmanager
    def _as_seen_by_steps(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            stack.enter_context(as_seen_by_steps(self.model))
            if self.model.optimizer is not None:
                stack.enter_context(keras_private.atomic_iterations(self.model.optimizer))
            yield

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Says what an error of the cluster means, and clears it, since TensorFlow would raise it again
        later.
        """
        try:
            yield
        except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
            self._forget_errors()
            raise TrainingError(
                "A task of the cluster cannot be reached any more. TensorFlow says:"
                f" {str(error).splitlines()[0]}",
                "look into the logs of the ps and worker tasks; then start the job again",
            ) from error
        except tf.errors.OpError:
            self._forget_errors()
            raise

    def _forget_errors(self) -> None:
        with contextlib.suppress(tf.errors.OpError):
            self.coordinator.join()

    def _steps(
        self,
        name: str,
        source: Source,
        epoch: int,
        start: Position | None,
        replica: Callable[..., Any],
        metrics: MetricStates,
    ) -> BlockSteps:
        begin_reading(source, epoch, start)
        dataset = source.pipeline("blocks", read_ahead=2 * self.max_steps_per_call)
        spec = dataset.element_spec

        def trace() -> tuple[Callable[..., Any], Callable[..., Any], list[str]]:
            part_spec = Part(spec, tf.TensorSpec([]), tf.TensorSpec([]))

            def step_of_part(part: Any, states: Any) -> Any:
                return replica(part, states, tf.constant(0, tf.int64))

            names = self.names_of_own_logs(step_of_part, metrics, part_spec, f"{name}_step")
            signature = [
                open_rows_signature(spec),
                tf.TensorSpec([None], tf.int64),
                tf.TensorSpec([], tf.int64),
            ]
            closure = self._make_closure(replica, metrics, names)
            function = tf.function(closure, input_signature=signature, autograph=False)
            return function, make_block_reader(spec), names

        function, read_block, names = self.traced(f"{name} {spec}", trace)
        iterator = iter(dataset)
        if start is not None and start.checks(source):
            before = next(iterator, None)
            start.require_fingerprint(None if before is None else float(batch_fingerprint(before)))
        return BlockSteps(self, function, read_block, names, iterator, metrics)

    def _make_closure(
        self, replica_step: Callable[..., Any], metrics: MetricStates, names: list[str]
    ) -> Callable[..., Any]:
        """Makes what a worker runs on a block: one step per batch. It returns what the metrics counted."""

        def closure(rows: Any, sizes: tf.Tensor, first_step: tf.Tensor) -> tf.Tensor:
            def one_step(index: Any, begin: Any, logs: Any, states: Any) -> Any:
                part = batch_of_block(rows, sizes, index, begin)

                def replica() -> Any:
                    new, new_logs = replica_step(part, states, first_step + tf.cast(index, tf.int64))
                    return list(new), [tf.cast(new_logs[name], tf.float64) for name in names]

                # run(): in a closure Keras's optimizers fail outside a replica context.
                new, new_logs = keras.tree.map_structure(
                    lambda value: self.strategy.experimental_local_results(value)[0],
                    self.strategy.run(replica),
                )
                return index + 1, begin + sizes[index], new_logs, new

            count = tf.shape(sizes)[0]
            _, _, logs, states = tf.while_loop(
                lambda index, *_: index < count,
                one_step,
                (
                    tf.constant(0),
                    tf.constant(0, tf.int64),
                    [tf.constant(0.0, tf.float64) for _ in names],
                    metrics.initial(),
                ),
                parallel_iterations=1,
            )
            head = [tf.stack(logs)] if logs else []
            return tf.concat([*head, metrics.counted(states)], axis=0)

        return closure

    def _train_replica(self, part: Any, states: Any, step: Any) -> Any:
        return train_step(
            self.model,
            part,
            self._train_metrics.variables,
            states,
            seeds=keras_private.seed_states(self.model, self._shared_seed),
            stream=step,  # each step draws numbers of its own, whichever worker runs it
            accumulate_steps=self._accumulate_steps,
            sum_over_replicas=list,
        )

    def _evaluate_replica(self, part: Any, states: Any, step: Any) -> Any:
        return evaluate_step(
            self.model,
            part,
            self._evaluation_metrics.variables,
            states,
            seeds=keras_private.seed_states(self.model, self._shared_seed),
            stream=step,
            sum_over_replicas=list,
        )

    def next_steps(self, count: int) -> int:
        """Numbers the next `count` steps of the run and gives the first number."""
        first = self._steps_handed_out
        self._steps_handed_out += count
        return first


class BlockSteps(Steps):
    """Steps over one pass through the data, handed out in blocks."""

    def __init__(
        self,
        engine: ParameterServerEngine,
        function: Callable[..., Any],
        read_block: Callable[..., Any],
        names: list[str],
        iterator: Any,
        metrics: MetricStates,
    ) -> None:
        self._engine, self._function, self._read_block = engine, function, read_block
        self._names, self._iterator, self.metrics = names, iterator, metrics
        leaves = keras.tree.flatten(iterator.element_spec)
        self._shapes_differ = any(None in leaf.shape[1:] for leaf in leaves)
        self._pending: collections.deque[tuple[int, Any]] = collections.deque()
        self._last_completion: float | None = None
        self._last_batch: tuple[Any, ...] | None = None

    @property
    def last_fingerprint(self) -> float:
        """Fingerprint of the batch handed out last."""
        return 0.0 if self._last_batch is None else float(batch_fingerprint(self._last_batch))

    def run(self, steps: int) -> int:
        """Hands out up to `steps` batches as a block, or each by itself where they differ in shape."""
        done = 0
        while done < steps:
            asked = 1 if self._shapes_differ else steps - done
            count = self._hand_out(asked)
            done += count
            if count < asked:
                break
        return done

    def _hand_out(self, steps: int) -> int:
        rows, sizes = self._read_block(self._iterator, tf.constant(steps))
        count = int(sizes.shape[0])
        if count:
            begin = int(tf.reduce_sum(sizes[:-1]))
            self._last_batch = keras.tree.map_structure(lambda tensor: tensor[begin:], rows)
            first = tf.constant(self._engine.next_steps(count), tf.int64)
            self._pending.append((count, self._engine.schedule(self._function, (rows, sizes, first))))
        # Waiting here, not before the next block, lets callbacks between batches act between updates where
        # only one block may be out.
        while len(self._pending) >= self._engine.closures_in_flight:
            self._complete_oldest()
        return count

    def finish(self) -> None:
        """Waits until all blocks are done and counted."""
        while self._pending:
            self._complete_oldest()

    def _complete_oldest(self) -> None:
        count, remote = self._pending.popleft()
        self.metrics.add(self._engine._fetch(remote), self._names)
        now = time.perf_counter()
        if self._last_completion is not None:
            self.seconds_per_step = (now - self._last_completion) / count
        self._last_completion = now
