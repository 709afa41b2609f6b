"""`LearningRate`: how the learning rate goes over a run, before the run's batch and length are known."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import ValidationError

from tfdist.config.learning_rate import Decay, LearningRateSection, Scaling, WarmUp
from tfdist.config.validation import problems_of
from tfdist.errors import ConfigError
from tfdist.problems import Problem, config_error, is_whole
from tfdist.step.learning_rate_curve import Curve

if TYPE_CHECKING:
    import keras


@dataclass(frozen=True)
class LearningRate:
    """A learning rate that is scaled to the batch, warmed up, and then falls; one value for each update.

    Plain data: nothing of TensorFlow is loaded to make one. `tfdist.fit` and `Trainer` resolve it when the
    global batch size and the number of updates are known. The rate is a function of the optimizer's
    `iterations` alone, so training goes on with it after a restart; with `accumulate_steps` an update is
    still one of them.

    **Scaling** from `base_batch_size` to a batch `k` times as large: `linear` gives `base * k` (Goyal et al.
    2017, arXiv 1706.02677, section 2.1); `square_root` gives `base * sqrt(k)` (Krizhevsky 2014, arXiv
    1404.5997), often used with Adam and LAMB (You et al. 2019, arXiv 1904.00962).

    **Warm-up** over `W` updates: update `i` has `start + (scaled - start) * i / W`. `gradual` starts at
    `base` (Goyal et al., section 2.2; where the batch is smaller than `base_batch_size` there is nothing to
    rise to, and the rate is the scaled one at once). `linear` starts at `warmup_start`.

    **Decay**, after warm-up, with `x` going from 0 to 1 until `total_epochs` or the end of the run:
    `constant`; `step`, times `decay_rate` at each of `decay_at_epochs` (Goyal et al., section 5.1: 0.1 at
    epochs 30, 60 and 80); `polynomial`, `end + (scaled - end) * (1 - x) ** power` (power 2 in You et al.
    2017, arXiv 1708.03888); `cosine`, `end + (scaled - end) * (1 + cos(pi * x)) / 2` (Loshchilov
    and Hutter 2016, arXiv 1608.03983, equation 5, without restarts); `warmup_stable_decay`, which stays at
    the scaled rate and falls only in the last `decay_epochs`, as polynomial does (the stages of Hu et al.
    2024, arXiv 2404.06395, section 4).

    Args:
        base: The rate; with `base_batch_size`, the rate that is right for batches of that size.
        base_batch_size: Rows of the batch that `base` was found with.
        scaling: `linear`, `square_root` or `none`. Left out: linear with `base_batch_size`, else none.
        warmup_epochs: How long the rate warms up, in epochs; fractions are fine.
        warmup_steps: The same in updates.
        warmup: `gradual` or `linear`. Left out: gradual where the rate is scaled, else linear.
        warmup_start: Rate of the first update in linear warm-up; 0 when left out.
        decay: `constant`, `step`, `polynomial`, `cosine` or `warmup_stable_decay`.
        end: What polynomial, cosine or warmup_stable_decay falls to; 0 when left out. Not scaled.
        power: Power of polynomial and of the fall of warmup_stable_decay; 1 when left out.
        total_epochs: When the rate is to have reached `end`, in epochs from the start of training. Left out:
            at the last epoch given to `fit`. Give it where a run is to be continued by a later `fit`.
        total_steps: The same in updates.
        decay_epochs: How long the fall of warmup_stable_decay takes, in epochs.
        decay_steps: The same in updates.
        decay_at_epochs: When step drops the rate, in epochs from the start of training.
        decay_at_steps: The same in updates.
        decay_rate: What each drop multiplies the rate by; 0.1 when left out.
        momentum_correction: Whether to rescale the momentum of `keras.optimizers.SGD` or `tfdist.LARS` in
            each update in which the rate changes (Goyal et al., section 3, remark 2): these keep past
            gradients times the rates they had, and the correction makes it the rate of now.

    Raises:
        ConfigError: An option is wrong, does not go with another, or would have no effect.

    Example:
        >>> import tfdist
        >>> plan = tfdist.LearningRate(0.1, base_batch_size=256, warmup_epochs=1, decay="cosine")
        >>> plan.values(global_batch_size=1024, steps_per_epoch=2, epochs=3).round(3)
        array([0.1  , 0.25 , 0.4  , 0.341, 0.2  , 0.059])
    """

    base: float
    base_batch_size: int | None = None
    _: KW_ONLY
    scaling: Scaling | None = None
    warmup_epochs: float | None = None
    warmup_steps: int | None = None
    warmup: WarmUp | None = None
    warmup_start: float | None = None
    decay: Decay = "constant"
    end: float | None = None
    power: float | None = None
    total_epochs: float | None = None
    total_steps: int | None = None
    decay_epochs: float | None = None
    decay_steps: int | None = None
    decay_at_epochs: Sequence[float] | None = None
    decay_at_steps: Sequence[int] | None = None
    decay_rate: float | None = None
    momentum_correction: bool = False

    @classmethod
    def from_section(cls, section: LearningRateSection) -> LearningRate:
        """Makes the plan that a YAML file describes."""
        return cls(**section.model_dump())

    def __post_init__(self) -> None:
        section = _checked({field.name: getattr(self, field.name) for field in fields(self)})
        for field in fields(self):
            value = getattr(section, field.name)
            object.__setattr__(self, field.name, tuple(value) if isinstance(value, list) else value)
        object.__setattr__(self, "_section", section)

    def resolve(
        self,
        global_batch_size: int | None = None,
        steps_per_epoch: int | None = None,
        epochs: int | None = None,
    ) -> keras.optimizers.schedules.LearningRateSchedule:
        """Gives the rate of a run as a Keras schedule, for use without `tfdist.fit`.

        Args:
            global_batch_size: Rows in one update; needed where the rate is scaled.
            steps_per_epoch: Updates in one epoch; needed where a length is given in epochs, or the run's own
                length counts.
            epochs: Epochs of the run; needed where the rate falls to the end of the run.

        Returns:
            A schedule for the `learning_rate` of any Keras optimizer. It is of a class of Keras's own
            wherever one gives these rates, so that a model saved with it can be loaded without tfdist.

        Raises:
            ConfigError: A number is missing, or they do not go together.
        """
        from tfdist.step.schedule import as_schedule

        if self.momentum_correction:
            raise ConfigError(
                "momentum_correction=True is carried out by the steps of tfdist; a schedule alone cannot"
                " do it.",
                "pass the LearningRate itself to tfdist.fit(learning_rate=…), or leave"
                " momentum_correction out",
            )
        return as_schedule(self.curve(global_batch_size, steps_per_epoch, epochs))

    def values(
        self, *, global_batch_size: int | None = None, steps_per_epoch: int, epochs: int
    ) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Gives the rate of each update of a run. Arguments are those of `resolve`.

        Returns:
            Float64 array of `steps_per_epoch * epochs` rates.
        """
        updates = _whole("steps_per_epoch", steps_per_epoch) * _whole("epochs", epochs)
        curve = self.curve(global_batch_size, steps_per_epoch, epochs)
        return np.asarray(curve.at(np.arange(updates)), np.float64)

    def plot(
        self,
        *,
        global_batch_size: int | None = None,
        steps_per_epoch: int,
        epochs: int,
        axes: Any = None,
    ) -> Any:
        """Draws the rate over the epochs of a run. Arguments are those of `resolve`.

        Args:
            global_batch_size: See `resolve`.
            steps_per_epoch: See `resolve`.
            epochs: See `resolve`.
            axes: Matplotlib axes to draw into; new ones when left out.

        Returns:
            The axes.

        Raises:
            ConfigError: matplotlib is not installed.
        """
        values = self.values(
            global_batch_size=global_batch_size, steps_per_epoch=steps_per_epoch, epochs=epochs
        )
        try:
            from matplotlib import pyplot
        except ImportError as error:
            raise ConfigError(
                f"plot() draws with matplotlib, which cannot be loaded: {error}.", "pip install matplotlib"
            ) from error
        if axes is None:
            axes = pyplot.subplots()[1]
        axes.plot(np.arange(len(values)) / steps_per_epoch, values, drawstyle="steps-post")
        axes.set(xlabel="epoch", ylabel="learning rate")
        return axes

    def curve(
        self,
        global_batch_size: int | None = None,
        steps_per_epoch: int | None = None,
        epochs: int | None = None,
    ) -> Curve:
        """Gives the rate of a run with every length in updates.

        Arguments and errors are those of `resolve`.
        """
        run = _Run(self, global_batch_size, steps_per_epoch, epochs)
        peak = run.scaled()
        warmup = run.updates("warmup") or 0
        start = run.start(peak) if warmup else peak
        flat = Curve(peak, start, warmup)
        if self.decay == "constant":
            return flat
        if self.decay == "step":
            drops = run.drops()
            _require(
                drops[0] >= warmup,
                f"the rate is to drop at update {drops[0]}, before warm-up ends at update {warmup}.",
                "drop it later, or warm up for a shorter time",
            )
            rate = 0.1 if self.decay_rate is None else self.decay_rate
            return replace(flat, shape="step", drops=drops, decay_rate=rate)
        end = self.end or 0.0
        _require(end <= peak, f"end={end:g} is above the rate to fall from, which is {peak:g}.", "lower end")
        total = run.total()
        fall = total - warmup if self.decay != "warmup_stable_decay" else run.updates("decay") or 0
        _require(
            0 < fall <= total - warmup,
            f"{warmup} updates of warm-up"
            + (f" and {fall} of decay" if self.decay == "warmup_stable_decay" else "")
            + f" do not leave room to fall in the {total} updates of the run.",
            "train for more epochs, or shorten warm-up" + (" or decay" if fall > 0 else ""),
        )
        return replace(
            flat,
            shape="cosine" if self.decay == "cosine" else "polynomial",
            end=end,
            power=1.0 if self.power is None else self.power,
            fall_from=total - fall,
            fall_steps=fall,
        )

    @property
    def section(self) -> LearningRateSection:
        """The options as the YAML file has them."""
        section: LearningRateSection = self._section  # type: ignore[attr-defined]
        return section

    def __repr__(self) -> str:
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        defaults = {field.name: field.default for field in fields(self)}
        texts = (f"{name}={value!r}" for name, value in given.items() if value != defaults[name])
        return f"LearningRate({', '.join(texts)})"


@dataclass(frozen=True)
class _Run:
    """A plan together with what is known of a run."""

    plan: LearningRate
    global_batch_size: int | None
    steps_per_epoch: int | None
    epochs: int | None

    def scaled(self) -> float:
        """Gives the rate after warm-up."""
        section = self.plan.section
        if not section.scales:
            return self.plan.base
        _require(
            self.global_batch_size is not None,
            "the rate is scaled to the global batch, whose size is not known.",
            "pass global_batch_size",
        )
        factor = _whole("global_batch_size", self.global_batch_size) / float(self.plan.base_batch_size or 1)
        return self.plan.base * (factor if section.scaling != "square_root" else factor**0.5)

    def start(self, peak: float) -> float:
        """Gives the rate that warm-up begins with."""
        if self.plan.section.warmup_kind == "gradual":
            return min(self.plan.base, peak)
        start = self.plan.warmup_start or 0.0
        _require(
            start <= peak,
            f"warmup_start={start:g} is above the rate to warm up to, which is {peak:g}.",
            "lower warmup_start",
        )
        return start

    def updates(self, length: str) -> int | None:
        """Gives a length in updates: `warmup`, `total` or `decay`."""
        steps: int | None = getattr(self.plan, f"{length}_steps")
        epochs: float | None = getattr(self.plan, f"{length}_epochs")
        if epochs is None:
            return steps
        return max(1, self._in_updates(epochs, f"{length}_epochs={epochs:g}")) if epochs else 0

    def total(self) -> int:
        """Gives the update at which the rate has fallen."""
        given = self.updates("total")
        if given is not None:
            return given
        _require(
            self.epochs is not None,
            f"decay {self.plan.decay} falls to the end of the run, whose length is not known.",
            "pass epochs, or set total_steps",
        )
        return self._in_updates(_whole("epochs", self.epochs), f"decay {self.plan.decay}")

    def drops(self) -> tuple[int, ...]:
        """Gives the updates from which on the rate is lower."""
        if self.plan.decay_at_steps is not None:
            return tuple(self.plan.decay_at_steps)
        epochs = self.plan.decay_at_epochs or ()
        return tuple(max(1, self._in_updates(epoch, "decay_at_epochs")) for epoch in epochs)

    def _in_updates(self, epochs: float, what_for: str) -> int:
        _require(
            self.steps_per_epoch is not None,
            f"{what_for} needs the number of updates in an epoch, which is not known.",
            "pass steps_per_epoch, or give every length in updates (…_steps)",
        )
        return round(epochs * _whole("steps_per_epoch", self.steps_per_epoch))


def _checked(given: Mapping[str, Any]) -> LearningRateSection:
    """Holds the options to the rules that the YAML file has for them."""
    plain = {name: _plain(value) for name, value in given.items()}
    try:
        section = LearningRateSection.model_validate(plain)
    except ValidationError as error:
        problems = problems_of(error, plain, LearningRateSection, {})
    else:
        problems = [Problem((name,), what, fix) for name, what, fix in section.mistakes()]
    if problems:
        python = [Problem(each.path, each.what, _in_python(each.fix)) for each in problems]
        raise config_error(python, lambda path: "LearningRate")
    return section


def _plain(value: Any) -> Any:
    """Gives NumPy's numbers and any sequence as Python has them."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, tuple | list | range):
        return [_plain(each) for each in value]
    return value


def _in_python(fix: str) -> str:
    """Turns a fix that writes YAML into one that passes an argument."""
    return re.sub(r"^write (\w+): (.+)$", r"pass \1=\2", fix)


def _whole(name: str, value: Any) -> int:
    if not is_whole(value, 1):
        raise ConfigError(
            f"{name} must be a positive whole number; received {value!r}.", f"for example {name}=100"
        )
    return int(value)


def _require(condition: bool, problem: str, fix: str) -> None:
    if not condition:
        raise ConfigError(f"LearningRate: {problem}", fix)
