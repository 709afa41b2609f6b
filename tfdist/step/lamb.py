"""LAMB, Adam for very large batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from tfdist.errors import ConfigError
from tfdist.step.layer_adaptation import BIASES_AND_NORMALIZATION, LayerAdaptiveOptimizer, norm, trust_ratio


@keras.saving.register_keras_serializable(package="tfdist")
class LAMB(LayerAdaptiveOptimizer):
    """Adam whose update is scaled, for each weight tensor, to the norm of the weight.

    From You et al. 2019, "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes" (arXiv
    1904.00962), algorithm 2, with phi(z) = z:

        m <- beta_1 m + (1 - beta_1) gradient          m' = m / (1 - beta_1 ^ t)
        v <- beta_2 v + (1 - beta_2) gradient ^ 2      v' = v / (1 - beta_2 ^ t)
        u  = m' / (sqrt(v') + epsilon) + weight_decay * w
        w <- w - learning_rate * |w| / |u| * u

    `keras.optimizers.Lamb` is the same without weight decay. With it, Keras subtracts
    `learning_rate * weight_decay * w` beforehand, outside of the ratio, and has no way to leave weights out
    of it. Weights in `exclude`, and those for which |w| or |u| is 0, have ratio 1; those in `exclude` are not
    decayed either.

    Args:
        learning_rate: A float, a Keras schedule, or a callable without arguments.
        beta_1: Decay of the mean of gradients.
        beta_2: Decay of the mean of their squares.
        epsilon: Keeps the division finite.
        weight_decay: Factor of the weights in the update; None or 0 for none.
        exclude: Regular expressions; a weight whose `path` one of them is found in is neither adapted nor
            decayed. Biases and the weights of normalization layers when left out; `()` for none.
        **keras_arguments: `clipnorm`, `clipvalue`, `global_clipnorm`, `use_ema`, `ema_momentum`,
            `ema_overwrite_frequency`, `loss_scale_factor` and `name`, as every Keras optimizer has them.

    Raises:
        ConfigError: An argument is out of range.

    Example:
        >>> import tfdist
        >>> tfdist.LAMB(0.002, weight_decay=0.01).get_config()["beta_2"]
        0.999
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        weight_decay: float | None = None,
        exclude: Sequence[str] = BIASES_AND_NORMALIZATION,
        **keras_arguments: Any,
    ) -> None:
        super().__init__(learning_rate, weight_decay, exclude, **keras_arguments)
        for name, value in (("beta_1", beta_1), ("beta_2", beta_2)):
            if not 0 <= value < 1:
                raise ConfigError(f"{name} must be in [0, 1); received {value!r}.", f"for example {name}=0.9")
        if not epsilon > 0:
            raise ConfigError(
                f"epsilon must be more than 0; received {epsilon!r}.", "for example epsilon=1e-6"
            )
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Creates the means of the gradients and of their squares."""
        if self.built:
            return
        super().build(variables)
        self._means, self._squares = self.add_optimizer_variables(variables, ["momentum", "velocity"])

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Updates one weight with the gradient of the global batch."""
        gradient = ops.cast(tf.convert_to_tensor(gradient), variable.dtype)  # sparse ones too: norms need all
        rate = ops.cast(learning_rate, variable.dtype)
        number = ops.cast(self.iterations + 1, variable.dtype)
        index = self.index_of(variable)
        mean, square = self._means[index], self._squares[index]
        self.assign_add(mean, (gradient - mean) * (1 - self.beta_1))
        self.assign_add(square, (ops.square(gradient) - square) * (1 - self.beta_2))
        unbiased_mean = mean / (1 - ops.power(ops.cast(self.beta_1, variable.dtype), number))
        unbiased_square = square / (1 - ops.power(ops.cast(self.beta_2, variable.dtype), number))
        update = unbiased_mean / (ops.sqrt(unbiased_square) + self.epsilon)
        if self.adapts(variable):
            update = update + (self.weight_decay or 0.0) * variable
            rate = rate * ops.cast(trust_ratio(norm(variable), norm(update)), variable.dtype)
        self.assign_sub(variable, rate * update)

    def get_config(self) -> dict[str, Any]:
        """Gives the arguments to make an equal optimizer with."""
        return {
            **super().get_config(),
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
        }
