"""The options of a learning rate over a run, and which of them go together.

`tfdist.LearningRate` takes the same options, so a YAML file and a program are held to the same rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field

from tfdist.config.section import Positive, Section

Scaling = Literal["linear", "square_root", "none"]
WarmUp = Literal["gradual", "linear"]
Decay = Literal["constant", "step", "polynomial", "cosine", "warmup_stable_decay"]

Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Length = Annotated[float, Field(gt=0, allow_inf_nan=False)]

# Which options each way of falling has, beside those that all of them have.
_OF_DECAY: dict[str, tuple[str, ...]] = {
    "constant": (),
    "step": ("decay_at_epochs", "decay_at_steps", "decay_rate"),
    "polynomial": ("end", "power", "total_epochs", "total_steps"),
    "cosine": ("end", "total_epochs", "total_steps"),
    "warmup_stable_decay": ("end", "power", "decay_epochs", "decay_steps", "total_epochs", "total_steps"),
}
# Options that say the same in epochs and in updates.
_EITHER = (
    ("warmup_epochs", "warmup_steps"),
    ("total_epochs", "total_steps"),
    ("decay_epochs", "decay_steps"),
    ("decay_at_epochs", "decay_at_steps"),
)


class LearningRateSection(Section):
    """The learning rate over the run: scaled to the batch, warmed up, then falling."""

    base: float = Field(
        gt=0,
        allow_inf_nan=False,
        description="The rate; with `base_batch_size`, the rate that is right for batches of that size.",
        examples=[0.1],
    )
    base_batch_size: Positive | None = Field(
        None,
        description="Rows of the batch that `base` was found with. The rate is scaled from it to "
        "`train.global_batch_size`.",
        examples=[256],
    )
    scaling: Scaling | None = Field(
        None,
        description="How the rate grows with the batch: in proportion (`linear`, right for SGD), with its "
        "square root (often used with Adam and LAMB), or not. Left out: linear with `base_batch_size`, "
        "else none.",
        examples=["linear"],
    )
    warmup_epochs: Rate | None = Field(
        None, description="How long the rate warms up, in epochs. Left out: not at all.", examples=[5]
    )
    warmup_steps: int | None = Field(None, ge=0, description="The same in optimizer updates.", examples=[500])
    warmup: WarmUp | None = Field(
        None,
        description="Where warm-up begins: `gradual` at `base`, rising to the scaled rate; `linear` at "
        "`warmup_start`. Left out: gradual where the rate is scaled, else linear.",
        examples=["gradual"],
    )
    warmup_start: Rate | None = Field(
        None, description="Rate of the first update in linear warm-up. Left out: 0.", examples=[0.001]
    )
    decay: Decay = Field(
        "constant",
        description="How the rate goes on after warm-up: it stays; drops in steps; falls with a power of the "
        "time that is left; falls as a cosine; or stays and falls at the end.",
        examples=["cosine"],
    )
    end: Rate | None = Field(
        None,
        description="What polynomial, cosine or warmup_stable_decay falls to. Left out: 0.",
        examples=[0.0001],
    )
    power: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="Power of polynomial and of the fall of warmup_stable_decay. Left out: 1, a straight "
        "line.",
        examples=[2],
    )
    total_epochs: Length | None = Field(
        None,
        description="When polynomial, cosine or warmup_stable_decay has fallen to `end`, in epochs from the "
        "start of training. Left out: at the end of the run, `train.epochs`.",
        examples=[90],
    )
    total_steps: Positive | None = Field(None, description="The same in optimizer updates.", examples=[10000])
    decay_epochs: Length | None = Field(
        None, description="How long the fall of warmup_stable_decay takes, in epochs.", examples=[2]
    )
    decay_steps: Positive | None = Field(None, description="The same in optimizer updates.", examples=[1000])
    decay_at_epochs: list[Length] | None = Field(
        None,
        min_length=1,
        description="When step drops the rate, in epochs from the start of training.",
        examples=[[30, 60, 80]],
    )
    decay_at_steps: list[Positive] | None = Field(
        None, min_length=1, description="The same in optimizer updates.", examples=[[3000, 6000]]
    )
    decay_rate: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="What each drop of step multiplies the rate by. Left out: 0.1.",
        examples=[0.1],
    )
    momentum_correction: bool = Field(
        False,
        description="Whether to rescale the momentum of SGD or LARS when the rate changes, so that it goes "
        "on holding past gradients times the rate of now.",
        examples=[True],
    )

    @property
    def scales(self) -> bool:
        """Whether the rate depends on the size of the batch."""
        return self.scaling != "none" and (self.scaling or self.base_batch_size) is not None

    @property
    def warms_up(self) -> bool:
        """Whether there is any warm-up."""
        return bool(self.warmup_epochs or self.warmup_steps)

    @property
    def warmup_kind(self) -> WarmUp:
        """How warm-up begins, when that is left out too."""
        return self.warmup or ("gradual" if self.scales else "linear")

    def mistakes(self, epochs: int | None = None) -> Iterator[tuple[str, str, str]]:
        """Finds what cannot work although each option by itself is right.

        Args:
            epochs: Epochs of the run, where they are known.

        Yields:
            The option, what is wrong with it, and the fix.
        """
        yield from self._pairs_that_say_the_same()
        yield from self._options_without_effect()
        yield from self._missing()
        yield from self._too_long(epochs)
        for name in ("decay_at_epochs", "decay_at_steps"):
            given = getattr(self, name)
            if given and not all(earlier < later for earlier, later in pairwise(given)):
                yield name, f"{given!r} is not in rising order.", f"write it as {sorted(set(given))!r}"
        from_zero = self.warms_up and self.warmup_kind == "linear" and not self.warmup_start
        if self.momentum_correction and from_zero:
            yield (
                "momentum_correction",
                "the first update has rate 0, and what it adds to the momentum cannot be told from nothing"
                " afterwards.",
                f"add warmup_start, for example {self.base / 10:g}",
            )

    def _pairs_that_say_the_same(self) -> Iterator[tuple[str, str, str]]:
        for in_epochs, in_steps in _EITHER:
            if getattr(self, in_epochs) is not None and getattr(self, in_steps) is not None:
                yield (
                    in_steps,
                    f"{in_epochs} was given too, which says the same thing in epochs instead of updates.",
                    f"leave {in_steps} out",
                )

    def _options_without_effect(self) -> Iterator[tuple[str, str, str]]:
        for name in dict.fromkeys(option for options in _OF_DECAY.values() for option in options):
            if getattr(self, name) is not None and name not in _OF_DECAY[self.decay]:
                owners = " or ".join(decay for decay, options in _OF_DECAY.items() if name in options)
                yield (
                    name,
                    f"{getattr(self, name)!r} has no effect with decay {self.decay}; it is for {owners}.",
                    f"leave {name} out, or set decay to {owners}",
                )
        if self.base_batch_size is not None and self.scaling == "none":
            what = f"{self.base_batch_size} has no effect with scaling none."
            yield "base_batch_size", what, "leave base_batch_size out, or set scaling to linear"
        for name in ("warmup", "warmup_start"):
            if getattr(self, name) is not None and self.warmup_epochs is None and self.warmup_steps is None:
                what = f"{getattr(self, name)!r} has no effect: nothing says how long to warm up."
                yield name, what, f"add warmup_epochs, for example 5, or leave {name} out"
                return
        if self.warmup == "gradual" and not self.scales:
            what = "gradual warm-up rises from the base rate to the scaled rate, and nothing is scaled."
            yield "warmup", what, "set warmup to linear, or add base_batch_size"
        if self.warmup_start is not None and self.warmup_kind == "gradual":
            what = f"{self.warmup_start!r} has no effect: gradual warm-up begins at base, {self.base!r}."
            yield "warmup_start", what, "set warmup to linear, or leave warmup_start out"

    def _missing(self) -> Iterator[tuple[str, str, str]]:
        if self.scaling not in (None, "none") and self.base_batch_size is None:
            what = f"{self.scaling} needs to know the batch that base={self.base!r} is right for."
            yield "scaling", what, "add base_batch_size, for example 256, or set scaling to none"
        if self.decay == "step" and self.decay_at_epochs is None and self.decay_at_steps is None:
            yield (
                "decay",
                "step needs to know when the rate drops.",
                "add decay_at_epochs, for example [30, 60, 80], or decay_at_steps",
            )
        if self.decay == "warmup_stable_decay" and self.decay_epochs is None and self.decay_steps is None:
            yield (
                "decay",
                "warmup_stable_decay needs to know how long the fall at the end takes.",
                "add decay_epochs, for example 1, or decay_steps",
            )

    def _too_long(self, epochs: int | None) -> Iterator[tuple[str, str, str]]:
        """Compares what is given in epochs; the rest shows when the steps of an epoch are known."""
        total = self.total_epochs or (None if self.total_steps else epochs)
        if "total_epochs" not in _OF_DECAY[self.decay] or total is None:
            return
        needed = (self.warmup_epochs or 0) + (self.decay_epochs or 0)
        if needed > total or (needed == total and self.decay != "warmup_stable_decay"):
            what = f"{self.warmup_epochs!r} leaves no time to fall in {total:g} epochs."
            name = "warmup_epochs"
            if self.decay_epochs:
                name = "decay_epochs"
                before = f" after {self.warmup_epochs:g} of warm-up" if self.warmup_epochs else ""
                what = f"{self.decay_epochs!r}{before} is more than the {total:g} epochs of the run."
            yield name, what, f"shorten {name}, or train for more than {needed:g} epochs"
