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

from tfdist.data.batch import take_part
from tfdist.errors import ConfigError
from tfdist.step import keras_private
from tfdist.step.forward import forward_pass


class MetricStates:
    """The metric variables of a model and the totals of what they counted.

    Args:
        model: A built and compiled model.

    Attributes:
        variables: The variables of the metrics.
        own_logs: What the last step of the model's own returned; None where the model has no own step.
    """

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        unique = {id(variable): variable for metric in model.metrics for variable in metric.variables}
        self.variables: list[keras.Variable] = list(unique.values())
        self._starts = self._start_values()
        self._carried: list[int] = []
        self._sizes = [int(np.prod(variable.shape)) for variable in self.variables]
        self.own_logs: dict[str, float] | None = None
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

    def initial(self, carried: Sequence[tf.Tensor] = ()) -> list[tf.Tensor]:
        """Gives the states a replica starts a call with, as tensors.

        Args:
            carried: What `carried` gave before the call.
        """
        given = iter(carried)
        return [
            next(given) if index in self._carried else tf.constant(start)
            for index, start in enumerate(self._starts)
        ]

    def carried(self) -> list[tf.Tensor]:
        """Gives the totals of the variables that must see them, because they are no sums."""
        return [
            tf.constant(self._totals[index].astype(self.variables[index].dtype)) for index in self._carried
        ]

    def counted(self, states: Sequence[tf.Tensor]) -> tf.Tensor:
        """Gives what one replica counted during a call as one float64 vector, to be summed over replicas."""
        pieces = [
            tf.reshape(tf.cast(state, tf.float64) - start.astype(np.float64), [-1])
            for state, start in zip(states, self._starts, strict=True)
        ]
        return tf.concat(pieces, axis=0) if pieces else tf.zeros([0], tf.float64)

    def add(self, counted: np.ndarray, log_names: Sequence[str] = ()) -> None:
        """Adds what all replicas counted.

        Args:
            counted: The sum of their `counted` vectors, behind the last values of the own logs.
            log_names: The names of the own logs.
        """
        self._empty = False
        begin = len(log_names)
        if log_names:
            self.own_logs = dict(zip(log_names, map(float, counted[:begin]), strict=True))
        for index, size in enumerate(self._sizes):
            piece = counted[begin : begin + size].reshape(self._totals[index].shape)
            before = self._starts[index] if index in self._carried else self._totals[index]
            self._totals[index] = before + piece
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
            with keras.StatelessScope(
                mapping
            ):  # a result may be a variable, whose value is known in here only
                results = self._model.get_metrics_result()
                numbers = {name: _as_number(value) for name, value in results.items()}
        if self.own_logs is not None:  # Keras shows what such a step returns, and of metrics their results
            return {name: numbers.get(name, value) for name, value in self.own_logs.items()}
        return numbers

    def settle_sums(self, data: tuple[Any, ...], parallel: bool) -> None:
        """Finds out which variables of the user's own metrics are no sums, such as a running maximum.

        Keras's metrics are all sums. Another is tried out: what a batch adds to a sum does not depend on what
        was there before. On one replica such a variable sees its total; parts from several replicas could not
        be put together.

        Args:
            data: A batch to try with.
            parallel: Whether parts of the counting run side by side.

        Raises:
            ConfigError: If some are no sums and `parallel` is true.
        """
        rows = keras.tree.map_structure(lambda tensor: tensor[:4], data)
        part = take_part(rows, 1, 0)
        moves = []
        for shift in (0, 1000, -1000):
            states = [tf.constant(start + np.array(shift).astype(start.dtype)) for start in self._starts]
            after = forward_pass(
                self._model, part, self.variables, states, training=False, size_of_whole=lambda size: size
            ).metric_states
            moves.append(
                [new.numpy().astype(float) - old.numpy() for new, old in zip(after, states, strict=True)]
            )
        self._carried = [
            index
            for index, (first, *others) in enumerate(zip(*moves, strict=True))
            if not all(np.allclose(first, other, rtol=1e-2, atol=1e-2) for other in others)
        ]
        if self._carried and parallel:
            names = ", ".join(repr(self.variables[index].path) for index in self._carried)
            raise ConfigError(
                f"Metric state {names} is not a sum: what a batch changes in it depends on what was there"
                " before. Parts counted on several replicas or workers cannot be put together.",
                "write the metric so that update_state only adds to its variables, or compute it in a"
                " callback",
            )
        if parallel:
            self._require_row_sums(rows, moves[0])

    def _require_row_sums(self, rows: tuple[Any, ...], whole: Sequence[np.ndarray]) -> None:
        """Refuses state that two halves of a batch change otherwise than the whole batch does."""
        halves = []
        for index in range(2):
            states = [tf.constant(start) for start in self._starts]
            after = forward_pass(
                self._model,
                take_part(rows, 2, index),
                self.variables,
                states,
                training=False,
                size_of_whole=lambda size: size,
            ).metric_states
            halves.append(
                [new.numpy().astype(float) - old for new, old in zip(after, self._starts, strict=True)]
            )
        for index, (all_rows, first, second) in enumerate(zip(whole, *halves, strict=True)):
            of_keras = self.variables[index].path.startswith(
                f"{keras_private.loss_tracker(self._model).name}/"
            )
            if not of_keras and not np.allclose(first + second, all_rows, rtol=1e-2, atol=1e-2):
                raise ConfigError(
                    f"Metric state {self.variables[index].path!r} counts batches, not rows: two halves of a"
                    " batch change it otherwise than the whole does, so it would depend on the number of"
                    " replicas.",
                    "add what each row contributes and count rows, as keras.metrics.Mean does",
                )


def has_own_metrics(model: keras.Model) -> bool:
    """Tells whether the model has metrics that do not come with Keras."""
    own = [
        metric
        for metric in keras_private.flat_metrics(model)
        if not type(metric).__module__.startswith("keras.")
    ]
    if own:
        return True
    return keras_private.overrides(model, "compute_metrics")


def _as_number(value: Any) -> Any:
    array = keras.ops.convert_to_numpy(value)
    return float(array) if array.ndim == 0 else array
