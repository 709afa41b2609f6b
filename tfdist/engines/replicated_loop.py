"""Several steps of every replica in one graph, and what they counted.

while steps are left:
    the task's next parts       parts of global batches that all tasks read, or batches of its own
    is there a step to do?      asked of the other tasks only where the lengths of their data may differ
    each replica                one step; metrics stay local
once: fingerprint, seconds, logs and what the metrics counted, summed over all replicas in one exchange
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfdist.data.batch import Part
from tfdist.data.dataset_fn import zero_row
from tfdist.errors import TrainingError
from tfdist.step.metrics import MetricStates

# When the loop ends: where the batches do, which all tasks have the same number of; when a task says that it
# has none left, which is an error if another has; or when no task has any.
Ends = Literal["where_all_do", "when_one_does", "when_all_have"]


class Result(NamedTuple):
    """What a call of the loop gives.

    Attributes:
        done: Steps done, int64.
        fingerprint: Of the rows that this task read, float64; 0 where tasks read rows of their own.
        last_fingerprint: Of the batch read last, float64.
        sums: The vector of `Sums`.
    """

    done: tf.Tensor
    fingerprint: tf.Tensor
    last_fingerprint: tf.Tensor
    sums: tf.Tensor


@dataclass(frozen=True)
class Sums:
    """What a call counted, summed over all tasks.

    Attributes:
        fingerprint: Of the rows that all tasks read.
        seconds: That a step took, in all tasks together.
        counted: Logs of the model's own step, then what the metrics counted.
    """

    fingerprint: float
    seconds: float
    counted: np.ndarray

    @classmethod
    def unpack(cls, vector: tf.Tensor) -> Sums:
        """Reads the vector that the loop gives."""
        values = vector.numpy()
        return cls(float(values[0]), float(values[1]), values[2:])


class ReplicatedLoop:
    """The loop of one kind of step.

    Args:
        strategy: The strategy.
        replicas: Global numbers of this task's replicas.
        replica_step: One step of one replica: `(part, metric states) -> (metric states, logs)`.
        metrics: What the steps count in.
        names: Names of the logs.
        ends: When the loop ends.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        replicas: Sequence[int],
        replica_step: Callable[[Any, Any], Any],
        metrics: MetricStates,
        names: Sequence[str],
        ends: Ends,
    ) -> None:
        self._strategy, self._replicas = strategy, replicas
        self._num_tasks = strategy.num_replicas_in_sync // len(replicas)
        self._replica_step, self._metrics, self._names = replica_step, metrics, names
        self._ends = ends

    def run(self, iterator: Any, steps: Any, seconds: Any, carried: Any) -> Result:
        """Runs up to `steps` steps.

        Args:
            iterator: Of this task's parts.
            steps: How many steps, int64.
            seconds: What a step of the call before took, float64.
            carried: What `MetricStates.carried` gave.
        """
        zero = tf.constant(0.0, tf.float64)

        def one_step(done: Any, going: Any, fingerprint: Any, last: Any, logs: Any, states: Any) -> Any:
            optional = iterator.get_next_as_optional()
            has_batch = optional.has_value()
            if self._ends == "when_all_have":
                stand_ins = (_stand_ins(iterator.element_spec[0]), last)
                parts, batch_fingerprint = tf.cond(has_batch, optional.get_value, lambda: stand_ins)
                rows = self._rows_of_all(parts)
                parts = tuple(part._replace(share=tf.math.divide_no_nan(part.rows, rows)) for part in parts)

                def join() -> Any:
                    return done + 1, True, zero, batch_fingerprint, *self._step(parts, states)

                return tf.cond(rows > 0, join, lambda: (done, False, zero, last, list(logs), list(states)))

            def step() -> Any:
                parts, batch_fingerprint = optional.get_value()
                weight = tf.cast(done + 1, tf.float64)  # so that the order of the batches counts
                total = fingerprint + weight * batch_fingerprint
                return done + 1, True, total, batch_fingerprint, *self._step(parts, states)

            def stop() -> Any:
                # A task with more batches than the others ends with another fingerprint than theirs.
                left_over = tf.cast(has_batch, tf.float64) / 2
                return done, False, fingerprint + left_over, last, list(logs), list(states)

            goes_on = has_batch if self._ends == "where_all_do" else self._all_have(has_batch)
            return tf.cond(goes_on, step, stop)

        done, _, fingerprint, last, logs, states = tf.while_loop(
            lambda done, going, *_: tf.logical_and(done < steps, going),
            one_step,
            (
                tf.constant(0, tf.int64),
                tf.constant(True),
                zero,
                zero,
                [tf.constant(0.0) for _ in self._names],
                [self._metrics.initial(carried) for _ in self._replicas],
            ),
            parallel_iterations=1,
        )
        return Result(done, fingerprint, last, self._sum(fingerprint, seconds, logs, states))

    def _step(self, parts: Sequence[Part], states: Sequence[Any]) -> tuple[list[Any], list[list[Any]]]:
        """Runs one step on each replica; gives the logs, and the metric states of each replica."""

        def replica() -> Any:
            local = self._local_number()
            new_states, new_logs = self._replica_step(parts[local], states[local])
            return list(new_states), [tf.cast(new_logs[name], tf.float32) for name in self._names]

        new_states, new_logs = self._strategy.run(replica)
        local_states = [self._strategy.experimental_local_results(value) for value in new_states]
        by_replica = [[value[index] for value in local_states] for index in range(len(self._replicas))]
        return [self._strategy.experimental_local_results(value)[0] for value in new_logs], by_replica

    def _sum(self, fingerprint: Any, seconds: Any, logs: Any, states: Any) -> tf.Tensor:
        """Makes the vector of `Sums`."""

        def counted() -> tf.Tensor:
            local = self._local_number()
            is_local_first = 1.0 if local == 0 else 0.0
            is_first = 1.0 if self._replicas[local] == 0 else 0.0  # the logs are the same on all replicas
            own = [tf.cast(value, tf.float64) * is_first for value in logs]
            head = tf.stack([fingerprint * is_local_first, seconds * is_local_first, *own])
            return tf.concat([head, self._metrics.counted(states[local])], axis=0)

        return self._strategy.reduce("SUM", self._strategy.run(counted), axis=None)

    def _all_have(self, has_batch: Any) -> Any:
        """Tells whether every task has another batch."""
        if self._num_tasks == 1:
            return has_batch
        local = tf.cast(has_batch, tf.float32) / len(self._replicas)
        having = self._strategy.reduce("SUM", self._strategy.run(lambda: local), axis=None)
        return having > self._num_tasks - 0.5

    def _rows_of_all(self, parts: Sequence[Part]) -> tf.Tensor:
        """Gives the rows of all parts of all tasks."""
        return self._strategy.reduce(
            "SUM", self._strategy.run(lambda: parts[self._local_number()].rows), axis=None
        )

    def _local_number(self) -> int:
        return self._replicas.index(static_replica_number())


def static_replica_number() -> int:
    """Gives the global number of the replica whose step is being traced."""
    number = tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group)
    if number is None:
        raise TrainingError(
            "TensorFlow did not give this replica's number while tracing a step.",
            "pip install 'tensorflow==2.21.*', the version that was tested",
        )
    return int(number)


def _stand_ins(specs: Sequence[Part]) -> tuple[Part, ...]:
    """Gives parts for a task that has no rows left: a row of zeros each, which does not count."""
    return tuple(
        Part(keras.tree.map_structure(zero_row, spec.data), tf.constant(0.0), tf.constant(0.0))
        for spec in specs
    )
