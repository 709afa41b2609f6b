"""Learning rates as Keras schedules: Keras's own where one of them says the same, else one of ours.

A model is saved with its optimizer's schedule. Keras reads a file with a class that is not its own only in a
process that has loaded that class, so Keras's own classes are used wherever they give the same rates. Keras
has none for a warm-up that is followed by a step, polynomial or warmup_stable_decay: those are a
`PlannedSchedule` until they have settled at their last rate.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import keras

from tfdist.step.learning_rate_curve import Curve

# The name of every schedule made here; saved with it, so that it is known again.
NAME = "tfdist_learning_rate"


@keras.saving.register_keras_serializable(package="tfdist")
class PlannedSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """A `Curve` as a Keras schedule. A function of the number of updates alone.

    Args:
        momentum_correction: Whether tfdist's steps rescale the optimizer's momentum as the rate changes; see
            `tfdist.step.momentum`. Keras's own `fit` knows nothing of it.
        name: Its name.
        **curve: The attributes of the `Curve`.
    """

    def __init__(self, momentum_correction: bool = False, name: str = NAME, **curve: Any) -> None:
        super().__init__()
        self.curve = Curve(**{**curve, "drops": tuple(curve.get("drops", ()))})
        self.momentum_correction = momentum_correction
        self.name = name

    def __call__(self, step: Any) -> Any:
        """Gives the rate of an update.

        Args:
            step: Updates done before, an integer or a scalar tensor.

        Returns:
            A float32 scalar tensor.
        """
        return self.curve.at(keras.ops.cast(step, "float32"), keras.ops)

    def get_config(self) -> dict[str, Any]:
        """Gives the arguments to make an equal schedule with."""
        curve = {**asdict(self.curve), "drops": list(self.curve.drops)}
        return {**curve, "momentum_correction": self.momentum_correction, "name": self.name}


def as_schedule(
    curve: Curve, momentum_correction: bool = False
) -> keras.optimizers.schedules.LearningRateSchedule:
    """Gives a curve as a Keras schedule, of a class of Keras where there is one that can say the same."""
    native = None if momentum_correction else _native(curve)
    return native or PlannedSchedule(momentum_correction=momentum_correction, **asdict(curve))


def _native(curve: Curve) -> keras.optimizers.schedules.LearningRateSchedule | None:
    """Gives a curve as one of Keras's own schedules, where one of them gives the same rates."""
    schedules = keras.optimizers.schedules
    if curve.shape in ("constant", "cosine"):  # a constant is a cosine that falls to where it is
        first, warmup = curve.peak, {}
        if curve.warmup_steps:
            first, warmup = curve.start, {"warmup_target": curve.peak, "warmup_steps": curve.warmup_steps}
        end = 1.0 if curve.shape == "constant" else curve.end / curve.peak
        return schedules.CosineDecay(first, curve.fall_steps, alpha=end, name=NAME, **warmup)
    if curve.shape == "polynomial" and curve.fall_from == 0:
        return schedules.PolynomialDecay(
            curve.peak, curve.fall_steps, curve.end, power=curve.power, name=NAME
        )
    if curve.shape == "step" and not curve.warmup_steps:
        drops = sorted(set(curve.drops))
        values = [float(curve.at(drop)) for drop in (0, *drops)]
        # Keras's boundary is the last update before the drop.
        return schedules.PiecewiseConstantDecay([drop - 1 for drop in drops], values, name=NAME)
    return None


def settled(schedule: Any, step: int) -> keras.optimizers.schedules.LearningRateSchedule | None:
    """Gives what is left of a schedule, after `step` updates, if it is one constant rate and no class of
    Keras's own says so already; else None.
    """
    if not isinstance(schedule, PlannedSchedule) or step < schedule.curve.settled_from:
        return None
    return as_schedule(Curve(float(schedule.curve.at(step))))


def is_ours(schedule: Any) -> bool:
    """Tells whether a schedule was made here, also one that was saved and loaded."""
    return getattr(schedule, "name", None) == NAME
