"""`DistributedOptimizer`: what tfdist does to gradients, for those who keep Keras's own `fit`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tfdist.errors import ConfigError


def DistributedOptimizer(
    optimizer: keras.optimizers.Optimizer, accumulate_steps: int = 1
) -> keras.optimizers.Optimizer:
    """Makes an optimizer act on the gradient of the global batch, inside Keras's own `fit` under
    MirroredStrategy.

    It sums gradients over replicas before it clips, and can add up the gradients of several batches before it
    updates. `iterations`, and so schedules, count updates. Batches have to be even (rows divisible by
    replicas): what Keras's `fit` does to an uneven batch happens before an optimizer sees it; `tfdist.fit`
    has no such limit.

    Args:
        optimizer: An optimizer that was not used yet.
        accumulate_steps: Batches in one update; their gradients are averaged. An update is made after every
            so many batches, across epochs.

    Returns:
        An optimizer of the same kind. It is saved as a plain one, so a saved model loads without tfdist.

    Raises:
        ConfigError: If the optimizer was used already or accumulates by itself.

    Example:
        >>> import keras, tfdist
        >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        >>> model.compile(tfdist.DistributedOptimizer(keras.optimizers.SGD(0.1), accumulate_steps=4), "mse")
    """
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise ConfigError(
            f"DistributedOptimizer takes a keras.optimizers.Optimizer; received {optimizer!r}.",
            "for example DistributedOptimizer(keras.optimizers.Adam())",
        )
    if optimizer.built or hasattr(optimizer, "inner_optimizer"):
        what = "was used already" if optimizer.built else "scales the loss"
        raise ConfigError(
            f"The {type(optimizer).__name__} given to DistributedOptimizer {what}.",
            "wrap a new optimizer, before compile; put LossScaleOptimizer around the result",
        )
    if optimizer.gradient_accumulation_steps:
        raise ConfigError(
            f"The optimizer has gradient_accumulation_steps={optimizer.gradient_accumulation_steps}.",
            "leave it out: DistributedOptimizer(…,"
            f" accumulate_steps={optimizer.gradient_accumulation_steps})",
        )
    if isinstance(accumulate_steps, bool) or not isinstance(accumulate_steps, int) or accumulate_steps < 1:
        raise ConfigError(
            f"accumulate_steps must be a positive whole number; received {accumulate_steps!r}.",
            "for example accumulate_steps=4",
        )
    kind = type(optimizer)
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    distributed: Any = type(kind.__name__, (GlobalGradients, kind), names)
    made = distributed.from_config(optimizer.get_config())
    object.__setattr__(made, "_accumulate_steps", accumulate_steps)
    return made


class GlobalGradients(keras.optimizers.Optimizer):
    """Goes before an optimizer's class: what `apply` gets is summed over batches and replicas first."""

    _accumulate_steps = 1

    def build(self, variables: Sequence[Any]) -> None:
        """Creates the optimizer's variables, and a sum for each weight where gradients are added up."""
        if self.built:
            return
        super().build(variables)
        if self._accumulate_steps > 1:
            self._batches = self.add_variable((), initializer="zeros", dtype="int", name="batches")
            self._sums = [
                keras.Variable(
                    tf.zeros(variable.shape, variable.dtype),
                    trainable=False,
                    synchronization="on_read",  # each replica adds up its own
                    aggregation="sum",
                    name=f"{variable.name}_sum",
                )
                for variable in variables
            ]

    def apply(self, grads: Sequence[Any], trainable_variables: Any = None) -> None:
        """Takes a replica's gradients of a batch; updates when they complete a global batch."""
        weights = list(self._trainable_variables if trainable_variables is None else trainable_variables)
        if not self.built:
            self.build(weights)
        if self._accumulate_steps == 1:
            super().apply(_sum_over_replicas(grads), weights)
            return
        positions = [self._get_variable_index(weight) for weight in weights]
        for position, gradient in zip(positions, grads, strict=True):
            if gradient is not None:
                scaled = tf.convert_to_tensor(gradient) / self._accumulate_steps
                self._sums[position].value.assign_add(tf.cast(scaled, self._sums[position].dtype))
        used = [gradient is not None for gradient in grads]
        self._batches.assign_add(1)
        tf.distribute.get_replica_context().merge_call(self._update_when_due, args=(positions, used, weights))

    def _update_when_due(
        self, strategy: tf.distribute.Strategy, positions: list[int], used: list[bool], weights: list[Any]
    ) -> None:
        def update_replica() -> None:
            sums = [self._sums[position].value for position in positions]
            gradients = [
                total.read_value() if given else None for total, given in zip(sums, used, strict=True)
            ]
            super(GlobalGradients, self).apply(_sum_over_replicas(gradients), weights)
            for total in sums:
                total.assign(tf.zeros_like(total))

        # A condition around an update has to be outside of the replicas' own code; TensorFlow refuses it
        # inside.
        tf.cond(
            self._batches.value % self._accumulate_steps == 0,
            lambda: strategy.extended.call_for_each_replica(update_replica),
            lambda: None,
        )

    def _all_reduce_sum_gradients(self, grads_and_vars: Any) -> list[Any]:
        return list(grads_and_vars)  # they are summed already


def _sum_over_replicas(gradients: Sequence[Any]) -> list[Any]:
    context = tf.distribute.get_replica_context()
    given = [gradient for gradient in gradients if gradient is not None]
    summed = iter(context.all_reduce(tf.distribute.ReduceOp.SUM, given) if given else [])
    return [None if gradient is None else next(summed) for gradient in gradients]
