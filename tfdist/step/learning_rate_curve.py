"""The learning rate of every update of one run, as a formula of the number of updates done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Curve:
    """A learning rate over one run, with every length in updates.

    The rate of update `i` (from 0, as Keras's `iterations` counts) is, with warm-up of `W` updates:

        i <  W:  start + (peak - start) · i / W
        i >= W:  constant     peak
                 step         peak · decay_rate ^ (number of drops at or before i)
                 polynomial   end + (peak - end) · (1 - x) ^ power         x = (i - fall_from) / fall_steps,
                 cosine       end + (peak - end) · (1 + cos(pi · x)) / 2   kept between 0 and 1

    `warmup_stable_decay` is the polynomial with `fall_from` after the end of warm-up.

    Attributes:
        peak: Rate after warm-up.
        start: Rate of the first update, where there is warm-up.
        warmup_steps: Updates before the rate is `peak`.
        shape: `constant`, `step`, `polynomial` or `cosine`.
        end: What the rate falls to.
        power: Power of `polynomial`.
        fall_from: Update at which the rate begins to fall.
        fall_steps: Updates until it is `end`.
        drops: Updates from which on `step` has dropped the rate once more.
        decay_rate: What each drop multiplies the rate by.
    """

    peak: float
    start: float = 0.0
    warmup_steps: int = 0
    shape: str = "constant"
    end: float = 0.0
    power: float = 1.0
    fall_from: int = 0
    fall_steps: int = 1
    drops: tuple[int, ...] = ()
    decay_rate: float = 1.0

    def at(self, step: Any, operations: Any = np) -> Any:
        """Gives the rate of an update.

        Args:
            step: How many updates were done before; a number, array or float tensor.
            operations: What computes: `numpy`, or `keras.ops` for tensors.
        """
        rate = self._after_warmup(step, operations)
        if not self.warmup_steps:
            return rate
        rising = self.start + (self.peak - self.start) * (step / self.warmup_steps)
        return operations.where(step < self.warmup_steps, rising, rate)

    def _after_warmup(self, step: Any, operations: Any) -> Any:
        if self.shape == "constant":
            return self.peak + 0.0 * step
        if self.shape == "step":
            rate = self.peak + 0.0 * step
            for drop in self.drops:
                rate = operations.where(step >= drop, rate * self.decay_rate, rate)
            return rate
        done = operations.clip((step - self.fall_from) / self.fall_steps, 0.0, 1.0)
        if self.shape == "polynomial":
            left = (1.0 - done) ** self.power
        else:
            left = 0.5 * (1.0 + operations.cos(np.pi * done))
        return self.end + (self.peak - self.end) * left

    @property
    def settled_from(self) -> int:
        """The first update from which on the rate does not change any more."""
        if self.shape == "constant":
            return self.warmup_steps
        if self.shape == "step":
            return max(self.warmup_steps, *self.drops)
        return self.fall_from + self.fall_steps
