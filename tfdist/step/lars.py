"""LARS, for batches so large that one learning rate does not fit all layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from tfdist.errors import ConfigError
from tfdist.step.layer_adaptation import BIASES_AND_NORMALIZATION, LayerAdaptiveOptimizer, norm, trust_ratio


@keras.saving.register_keras_serializable(package="tfdist")
class LARS(LayerAdaptiveOptimizer):
    """Momentum SGD whose rate is scaled, for each weight tensor, to the norms of weight and gradient.

    From You, Gitman and Ginsburg 2017, "Large Batch Training of Convolutional Networks" (arXiv 1708.03888),
    section 4 and algorithm 1:

        local rate  = trust_coefficient * |w| / (|gradient| + weight_decay * |w|)
        velocity   <- momentum * velocity + learning_rate * local rate * (gradient + weight_decay * w)
        w          <- w - velocity

    Weights in `exclude`, and those whose own or whose gradient's norm is 0, have local rate 1; those in
    `exclude` are not decayed either.

    Args:
        learning_rate: The global rate: a float, a Keras schedule, or a callable without arguments. With LARS
            it is much larger than with SGD; the paper warms it up and lets it fall polynomially.
        momentum: Between 0 and 1.
        nesterov: Whether to use Nesterov's momentum.
        weight_decay: Factor of the weights in the update; None or 0 for none.
        trust_coefficient: The paper's eta, the "LARS coefficient".
        exclude: Regular expressions; a weight whose `path` one of them is found in is neither adapted nor
            decayed. Biases and the weights of normalization layers when left out; `()` for none.
        **keras_arguments: `clipnorm`, `clipvalue`, `global_clipnorm`, `use_ema`, `ema_momentum`,
            `ema_overwrite_frequency`, `loss_scale_factor` and `name`, as every Keras optimizer has them.

    Raises:
        ConfigError: An argument is out of range.

    Example:
        >>> import tfdist
        >>> optimizer = tfdist.LARS(2.0, momentum=0.9, weight_decay=1e-4)
        >>> optimizer.get_config()["trust_coefficient"]
        0.001
    """

    def __init__(
        self,
        learning_rate: Any = 1.0,
        momentum: float = 0.9,
        nesterov: bool = False,
        weight_decay: float | None = None,
        trust_coefficient: float = 0.001,
        exclude: Sequence[str] = BIASES_AND_NORMALIZATION,
        **keras_arguments: Any,
    ) -> None:
        super().__init__(learning_rate, weight_decay, exclude, **keras_arguments)
        if not 0 <= momentum < 1:
            raise ConfigError(
                f"momentum must be in [0, 1); received {momentum!r}.", "for example momentum=0.9"
            )
        if not trust_coefficient > 0:
            raise ConfigError(
                f"trust_coefficient must be more than 0; received {trust_coefficient!r}.",
                "for example trust_coefficient=0.001",
            )
        if nesterov and not momentum:
            raise ConfigError(
                "nesterov=True has no effect with momentum=0.", "give momentum=0.9, or leave nesterov out"
            )
        self.momentum = momentum
        self.nesterov = nesterov
        self.trust_coefficient = trust_coefficient

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Creates the velocities."""
        if self.built:
            return
        super().build(variables)
        self.momentums = self.add_optimizer_variables(variables, "momentum") if self.momentum else []

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Updates one weight with the gradient of the global batch."""
        gradient = ops.cast(tf.convert_to_tensor(gradient), variable.dtype)  # sparse ones too: norms need all
        step = ops.cast(learning_rate, variable.dtype) * self._direction(gradient, variable)
        if not self.momentum:
            self.assign_sub(variable, step)
            return
        velocity = self.momentums[self.index_of(variable)]
        # Keras's sign: the velocity points to where the weight goes.
        self.assign(velocity, self.momentum * velocity - step)
        self.assign_add(variable, self.momentum * velocity - step if self.nesterov else velocity)

    def _direction(self, gradient: Any, variable: Any) -> Any:
        """Gives the gradient with weight decay, times the local rate."""
        if not self.adapts(variable):
            return gradient
        decay = self.weight_decay or 0.0
        weight_norm, gradient_norm = norm(variable), norm(gradient)
        ratio = trust_ratio(weight_norm, gradient_norm + decay * weight_norm)
        local_rate = ops.where(
            ops.logical_and(weight_norm > 0, gradient_norm > 0), self.trust_coefficient * ratio, 1.0
        )
        return ops.cast(local_rate, variable.dtype) * (gradient + decay * variable)

    def get_config(self) -> dict[str, Any]:
        """Gives the arguments to make an equal optimizer with."""
        return {
            **super().get_config(),
            "momentum": self.momentum,
            "nesterov": self.nesterov,
            "trust_coefficient": self.trust_coefficient,
        }
