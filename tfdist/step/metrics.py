"""Metrics that are exact over replicas, workers and millions of steps.

While steps run, the state of every metric is a plain tensor on each replica, starting from zero in each call.
After a call the states are summed over replicas, and the host adds them up in float64. No replica waits for
another during a step, and nothing is read back until a log is due.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.errors import TrainingError


class MetricStates:
    """The metric variables of a model and the totals of what they counted.

    Args:
        model: A built and compiled model.
    """

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        unique = {id(variable): variable for metric in model.metrics for variable in metric.variables}
        self.variables: list[keras.Variable] = list(unique.values())
        self._starts = self._start_values()
        self._sizes = [int(np.prod(variable.shape)) for variable in self.variables]
        self.size = sum(self._sizes)
        self.reset()

    def _start_values(self) -> list[np.ndarray]:
        """Gives the value of each variable after a reset, which a custom metric may not have at zero."""
        with keras.StatelessScope() as scope:
            for metric in self._model.metrics:
                metric.reset_state()
            values = [scope.get_current_value(variable) for variable in self.variables]
        return [
            np.zeros(variable.shape, variable.dtype) if value is None else keras.ops.convert_to_numpy(value)
            for variable, value in zip(self.variables, values, strict=True)
        ]

    def reset(self) -> None:
        """Forgets everything counted so far."""
        self._empty = True
        self._totals = [start.astype(np.float64) for start in self._starts]

    def initial(self) -> list[tf.Tensor]:
        """Gives the states a replica starts a call with, as tensors."""
        return [tf.constant(start) for start in self._starts]

    def counted(self, states: Sequence[tf.Tensor]) -> tf.Tensor:
        """Gives what one replica counted during a call as one float64 vector, to be summed over replicas."""
        pieces = [
            tf.reshape(tf.cast(state, tf.float64) - start.astype(np.float64), [-1])
            for state, start in zip(states, self._starts, strict=True)
        ]
        return tf.concat(pieces, axis=0) if pieces else tf.zeros([0], tf.float64)

    def add(self, counted: np.ndarray) -> None:
        """Adds what all replicas counted, the sum of their `counted` vectors."""
        self._empty = False
        begin = 0
        for index, size in enumerate(self._sizes):
            piece = counted[begin : begin + size].reshape(self._totals[index].shape)
            self._totals[index] = self._totals[index] + piece
            begin += size

    def results(self) -> dict[str, float]:
        """Gives the logs: each metric's result over everything counted since the last reset; {} before
        anything was.
        """
        if self._empty:
            return {}
        with tf.device("CPU:0"):
            mapping = [
                (variable, tf.constant(total.astype(variable.dtype)))
                for variable, total in zip(self.variables, self._totals, strict=True)
            ]
            with keras.StatelessScope(mapping):
                results = self._model.get_metrics_result()
        return {name: _as_number(value) for name, value in results.items()}

    def check_additive(self, replicas: int) -> None:
        """Refuses metrics whose variables cannot be summed over replicas.

        Raises:
            TrainingError: Where a variable asks for another aggregation than a sum.
        """
        if replicas == 1:
            return
        for metric in self._model.metrics:
            for variable in metric.variables:
                if variable.aggregation not in ("sum", "none"):
                    raise TrainingError(
                        f"Metric {metric.name!r} keeps {variable.name!r} with"
                        f" aggregation={variable.aggregation!r}; only sums can be put together from"
                        f" {replicas} replicas.",
                        "create the variable with aggregation='sum', or compute this metric in a callback",
                    )


def _as_number(value: Any) -> Any:
    array = keras.ops.convert_to_numpy(value)
    return float(array) if array.ndim == 0 else array
