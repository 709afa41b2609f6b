"""What LARS and LAMB share: which weights they adapt, and how long an update may be beside its weight."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import keras
from absl import logging
from keras import ops

from tfdist.errors import ConfigError
from tfdist.step.keras_optimizer_private import OptimizerWithOwnDecay

# Biases, and the scales and offsets of normalization layers.
BIASES_AND_NORMALIZATION = (r"(^|/)(bias|beta|gamma|scale)$",)


class LayerAdaptiveOptimizer(OptimizerWithOwnDecay):
    """Base of optimizers that scale the update of each weight to the weight's norm.

    Args:
        learning_rate: As in `keras.optimizers.SGD`.
        weight_decay: Factor of the weights in the update; None or 0 for none.
        exclude: Regular expressions; a weight whose `path` one of them is found in is neither adapted nor
            decayed.
        **keras_arguments: `clipnorm`, `clipvalue`, `global_clipnorm`, `use_ema`, `ema_momentum`,
            `ema_overwrite_frequency`, `loss_scale_factor` and `name`, as every Keras optimizer has them.
    """

    def __init__(
        self,
        learning_rate: Any,
        weight_decay: float | None,
        exclude: Sequence[str],
        **keras_arguments: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, weight_decay=weight_decay, **keras_arguments)
        self.exclude = _checked_patterns(exclude)
        if weight_decay is not None and not weight_decay >= 0:
            raise ConfigError(
                f"weight_decay must be at least 0; received {weight_decay!r}.",
                "for example weight_decay=1e-4",
            )

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Finds the weights to leave out. Called once, with all that are trained."""
        if self.built:
            return
        super().build(variables)
        paths = [getattr(variable, "path", variable.name) for variable in variables]
        self._adapts = [not any(re.search(pattern, path) for pattern in self.exclude) for path in paths]
        for pattern in set(self.exclude) - set(BIASES_AND_NORMALIZATION):
            if not any(re.search(pattern, path) for path in paths):
                logging.warning(
                    "%s: exclude has %r, which matches none of the weights %s.",
                    type(self).__name__,
                    pattern,
                    ", ".join(paths),
                )

    def adapts(self, weight: Any) -> bool:
        """Tells whether a weight is adapted and decayed."""
        return self._adapts[self.index_of(weight)]

    def exclude_from_weight_decay(self, var_list: Any = None, var_names: Any = None) -> None:
        """Keras's way to exclude weights is replaced by `exclude`."""
        raise ConfigError(
            f"{type(self).__name__} does not use exclude_from_weight_decay (received var_list={var_list!r},"
            f" var_names={var_names!r}).",
            f"make the optimizer with exclude=[…]; it is {list(self.exclude)} now",
        )

    def get_config(self) -> dict[str, Any]:
        """Gives the arguments to make an equal optimizer with."""
        return {**super().get_config(), "exclude": list(self.exclude)}


def trust_ratio(weight_norm: Any, update_norm: Any) -> Any:
    """Gives `weight_norm / update_norm`; 1 where either is 0, so that weights of zeros can change."""
    usable = ops.logical_and(weight_norm > 0, update_norm > 0)
    return ops.where(usable, weight_norm / ops.where(usable, update_norm, 1.0), 1.0)


def norm(tensor: Any) -> Any:
    """Gives the Euclidean norm of all of a tensor, in float32 at least."""
    tensor = ops.cast(tensor, keras.backend.result_type(tensor.dtype, "float32"))
    return ops.sqrt(ops.sum(ops.square(tensor)))


def _checked_patterns(exclude: Sequence[str]) -> tuple[str, ...]:
    if isinstance(exclude, str):
        raise ConfigError(
            f"exclude must be a list of texts; received {exclude!r}.", f"pass exclude=[{exclude!r}]"
        )
    for pattern in exclude:
        try:
            re.compile(pattern)
        except (re.error, TypeError) as error:
            raise ConfigError(
                f"exclude has {pattern!r}, which is no regular expression: {error}.",
                "for example exclude=['bias$']; re.escape(text) takes a text as it is",
            ) from error
    return tuple(exclude)
