"""The plan of a learning rate: its values against closed forms, and every wrong argument."""

import dataclasses
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tfdist
from tfdist.errors import ConfigError
from tfdist.step.learning_rate import LearningRate

STEPS, EPOCHS = 10, 6
RUN = {"global_batch_size": 512, "steps_per_epoch": STEPS, "epochs": EPOCHS}


def values(*arguments, **options):
    return LearningRate(*arguments, **options).values(**RUN)


def test_one_rate_for_each_update():
    assert values(0.1).tolist() == [0.1] * (STEPS * EPOCHS)


@pytest.mark.parametrize(
    ("scaling", "factor"), [(None, 4), ("linear", 4), ("square_root", 2)], ids=["left out", "linear", "root"]
)
def test_scaling_follows_its_rule(scaling, factor):
    assert values(0.1, 128, scaling=scaling)[0] == pytest.approx(0.1 * factor)


def test_gradual_warmup_rises_from_the_base_rate_by_the_same_amount_in_each_update():
    rates = values(0.1, 128, warmup_epochs=2)
    assert rates[0] == pytest.approx(0.1)
    assert rates[20:] == pytest.approx(0.4)
    assert np.diff(rates[:21]) == pytest.approx(0.3 / 20)


def test_gradual_warmup_has_nothing_to_do_for_a_smaller_batch():
    plan = LearningRate(0.1, 1024, warmup_epochs=2)
    assert plan.values(**RUN) == pytest.approx(0.05)


@pytest.mark.parametrize("start", [None, 0.02])
def test_linear_warmup_rises_from_its_start(start):
    rates = values(0.1, warmup_steps=5, warmup_start=start)
    first = start or 0.0
    assert rates[:7] == pytest.approx([first + (0.1 - first) * min(step / 5, 1) for step in range(7)])


def test_step_drops_at_its_epochs():
    rates = values(0.4, decay="step", decay_at_epochs=[2, 4.5], decay_rate=0.5)
    assert rates == pytest.approx([0.4] * 20 + [0.2] * 25 + [0.1] * 15)
    assert values(0.4, decay="step", decay_at_steps=[59])[-2:] == pytest.approx([0.4, 0.04])


def test_polynomial_falls_to_its_end_at_the_end_of_the_run():
    rates = values(0.5, warmup_steps=10, decay="polynomial", power=2, end=0.1)
    expected = [0.1 + 0.4 * (1 - (step - 10) / 50) ** 2 for step in range(10, 60)]
    assert rates[10:] == pytest.approx(expected)


def test_cosine_falls_to_its_end_at_the_end_of_the_run():
    rates = values(0.5, warmup_epochs=1, decay="cosine", end=0.1)
    expected = [0.1 + 0.4 * (1 + math.cos(math.pi * (step - 10) / 50)) / 2 for step in range(10, 60)]
    assert rates[10:] == pytest.approx(expected)
    assert rates[10 + 25] == pytest.approx(0.3)


def test_warmup_stable_decay_stays_and_falls_at_the_end():
    rates = values(0.5, warmup_epochs=1, decay="warmup_stable_decay", decay_epochs=2)
    assert rates[10:41] == pytest.approx(0.5)
    assert rates[40:] == pytest.approx([0.5 * (1 - step / 20) for step in range(20)])


def test_lengths_in_epochs_and_in_updates_say_the_same():
    in_epochs = values(0.5, warmup_epochs=1.5, decay="cosine", total_epochs=4)
    in_updates = values(0.5, warmup_steps=15, decay="cosine", total_steps=40)
    assert in_epochs.tolist() == in_updates.tolist()
    assert in_epochs[40:].tolist() == [0.0] * 20


def test_a_fixed_length_does_not_depend_on_the_epochs_of_the_run():
    plan = LearningRate(0.5, decay="polynomial", total_epochs=EPOCHS)
    short = plan.values(**{**RUN, "epochs": 2})
    assert short.tolist() == plan.values(**RUN)[: 2 * STEPS].tolist()


PLANS = st.fixed_dictionaries(
    {"base": st.floats(1e-4, 10)},
    optional={
        "warmup_epochs": st.floats(0, 2),
        "base_batch_size": st.integers(1, 4096),
    },
)
DECAYS = st.sampled_from(
    [
        {},
        {"decay": "step", "decay_at_epochs": [2.5, 4], "decay_rate": 0.3},
        {"decay": "polynomial", "power": 0.5},
        {"decay": "polynomial", "power": 3},
        {"decay": "cosine"},
        {"decay": "warmup_stable_decay", "decay_epochs": 1.5},
        {"decay": "warmup_stable_decay", "decay_steps": 7, "power": 2},
    ]
)


@settings(deadline=None)
@given(options=PLANS, decay=DECAYS, steps=st.integers(4, 40), batch=st.integers(1, 4096))
def test_rates_rise_then_fall_and_stay_between_zero_and_the_peak(options, decay, steps, batch):
    plan = LearningRate(**options, **decay)
    rates = plan.values(global_batch_size=batch, steps_per_epoch=steps, epochs=5)
    peak = options["base"] * (batch / options["base_batch_size"] if "base_batch_size" in options else 1)
    assert len(rates) == 5 * steps
    assert rates.min() >= 0
    assert rates.max() <= peak * (1 + 1e-9)
    top = int(np.argmax(rates))
    assert np.all(np.diff(rates[: top + 1]) >= -1e-9 * peak)
    assert np.all(np.diff(rates[top:]) <= 1e-9 * peak)


@settings(deadline=None)
@given(decay=DECAYS, steps=st.integers(4, 40), factor=st.integers(2, 16))
def test_linear_scaling_multiplies_every_rate_after_warmup(decay, steps, factor):
    plan = LearningRate(0.1, 32, warmup_epochs=1, **decay)
    small = plan.values(global_batch_size=32, steps_per_epoch=steps, epochs=5)
    large = plan.values(global_batch_size=32 * factor, steps_per_epoch=steps, epochs=5)
    assert large[steps:] == pytest.approx(small[steps:] * factor)
    assert large[0] == pytest.approx(small[0])


REFUSED = {
    "no rate": ({"base": 0}, "base: 0 is out of range; it has to be more than 0", "pass base=0.1"),
    "text": ({"base": "0.1"}, "base: '0.1' is text, not a number", "base"),
    "infinite": ({"base": math.inf}, "inf is not a finite number", "pass base=0.1"),
    "typing error": ({"decay": "cosin"}, "'cosin' is not one of constant, step", "did you mean cosine?"),
    "batch of no rows": ({"base_batch_size": 0}, "base_batch_size: 0 is out of range", "base_batch_size=256"),
    "fraction of a row": ({"base_batch_size": 2.5}, "2.5 is not a whole number", "base_batch_size=256"),
    "scaling from nothing": (
        {"scaling": "linear"},
        "scaling: linear needs to know the batch",
        "base_batch_size",
    ),
    "scaling by nothing": (
        {"scaling": "none", "base_batch_size": 8},
        "base_batch_size: 8 has no effect with scaling none",
        "leave base_batch_size out",
    ),
    "two lengths of warm-up": (
        {"warmup_epochs": 1, "warmup_steps": 1},
        "warmup_steps: warmup_epochs was given too",
        "leave warmup_steps out",
    ),
    "warm-up without a length": ({"warmup": "linear"}, "warmup: 'linear' has no effect", "add warmup_epochs"),
    "start without a length": ({"warmup_start": 0.1}, "warmup_start: 0.1 has no effect", "add warmup_epochs"),
    "gradual to the same rate": (
        {"warmup_epochs": 1, "warmup": "gradual"},
        "nothing is scaled",
        "set warmup to linear",
    ),
    "start of gradual": (
        {"warmup_epochs": 1, "base_batch_size": 8, "warmup_start": 0.01},
        "warmup_start: 0.01 has no effect: gradual warm-up begins at base",
        "set warmup to linear",
    ),
    "negative warm-up": ({"warmup_steps": -1}, "warmup_steps: -1 is out of range", "warmup_steps=500"),
    "decay_rate of cosine": (
        {"decay": "cosine", "decay_rate": 0.1},
        "decay_rate: 0.1 has no effect with decay cosine; it is for step",
        "leave decay_rate out",
    ),
    "power of cosine": ({"decay": "cosine", "power": 2}, "power: 2.0 has no effect", "leave power out"),
    "end of constant": ({"end": 0.01}, "end: 0.01 has no effect with decay constant", "leave end out"),
    "length of constant": ({"total_steps": 9}, "total_steps: 9 has no effect", "leave total_steps out"),
    "fall of cosine": (
        {"decay": "cosine", "decay_epochs": 2},
        "decay_epochs: 2.0 has no effect with decay cosine; it is for warmup_stable_decay",
        "leave decay_epochs out",
    ),
    "step without a time": ({"decay": "step"}, "decay: step needs to know when", "add decay_at_epochs"),
    "no drops": ({"decay": "step", "decay_at_steps": []}, "decay_at_steps", "decay_at_steps"),
    "drops out of order": (
        {"decay": "step", "decay_at_epochs": [4, 2]},
        "decay_at_epochs: [4.0, 2.0] is not in rising order",
        "[2.0, 4.0]",
    ),
    "fall without a length": (
        {"decay": "warmup_stable_decay"},
        "warmup_stable_decay needs to know how long",
        "add decay_epochs",
    ),
    "longer than itself": (
        {"decay": "cosine", "total_epochs": 3, "warmup_epochs": 3},
        "warmup_epochs: 3.0 leaves no time to fall in 3 epochs",
        "shorten warmup_epochs",
    ),
    "correction from zero": (
        {"warmup_epochs": 1, "momentum_correction": True},
        "momentum_correction: the first update has rate 0",
        "add warmup_start, for example 0.01",
    ),
    "no truth value": ({"momentum_correction": 1}, "momentum_correction: 1 is not true or false", ""),
}


@pytest.mark.parametrize(("options", "what", "fix"), REFUSED.values(), ids=REFUSED)
def test_wrong_options_are_refused(options, what, fix):
    with pytest.raises(ConfigError) as caught:
        LearningRate(**{"base": 0.1, **options})
    problem, _, how = str(caught.value).partition("\nFix: ")
    assert problem.startswith("LearningRate: ")
    assert what in problem
    assert fix in how


WRONG_RUNS = {
    "batch unknown": ({"base_batch_size": 8}, {"steps_per_epoch": 5, "epochs": 2}, "global_batch_size"),
    "length of an epoch unknown": ({"warmup_epochs": 1}, {}, "pass steps_per_epoch"),
    "epochs unknown": ({"decay": "cosine"}, {"steps_per_epoch": 5}, "pass epochs"),
    "no room to fall": (
        {"decay": "cosine", "warmup_steps": 10},
        {"steps_per_epoch": 5, "epochs": 2},
        "10 updates of warm-up do not leave room to fall in the 10 updates",
    ),
    "fall too long": (
        {"decay": "warmup_stable_decay", "warmup_steps": 3, "decay_steps": 8},
        {"steps_per_epoch": 5, "epochs": 2},
        "3 updates of warm-up and 8 of decay do not leave room",
    ),
    "end above the rate": (
        {"decay": "cosine", "end": 0.2},
        {"steps_per_epoch": 5, "epochs": 2},
        "end=0.2 is above",
    ),
    "start above the rate": ({"warmup_steps": 2, "warmup_start": 0.2}, {}, "warmup_start=0.2 is above"),
    "drop in warm-up": (
        {"warmup_steps": 9, "decay": "step", "decay_at_steps": [5]},
        {},
        "drop at update 5, before warm-up ends at update 9",
    ),
    "no whole number": (
        {"decay": "cosine"},
        {"steps_per_epoch": 5, "epochs": 1.5},
        "epochs must be a positive",
    ),
}


@pytest.mark.parametrize(("options", "run", "text"), WRONG_RUNS.values(), ids=WRONG_RUNS)
def test_a_run_that_does_not_fit_is_refused(options, run, text):
    with pytest.raises(ConfigError, match=r"\nFix: ") as caught:
        LearningRate(0.1, **options).curve(**run)
    assert text in str(caught.value)


def test_a_schedule_alone_cannot_correct_momentum():
    plan = LearningRate(0.1, 32, warmup_epochs=1, momentum_correction=True)
    with pytest.raises(ConfigError, match="a schedule alone cannot"):
        plan.resolve(64, 5, 2)


def test_a_plan_is_frozen_plain_data():
    plan = LearningRate(np.float32(0.5), np.int64(64), decay="step", decay_at_epochs=np.array([1, 2]))
    assert plan == LearningRate(0.5, 64, decay="step", decay_at_epochs=(1, 2))
    assert hash(plan) == hash(dataclasses.replace(plan))
    assert (
        repr(plan) == "LearningRate(base=0.5, base_batch_size=64, decay='step', decay_at_epochs=(1.0, 2.0))"
    )
    assert eval(repr(plan)) == plan
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.base = 1.0


def test_nothing_heavy_is_loaded_for_a_plan():
    program = (
        "import sys, tfdist\n"
        "tfdist.LearningRate(0.1, decay='cosine').values(steps_per_epoch=3, epochs=2)\n"
        "assert not {'tensorflow', 'keras', 'matplotlib'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_plot_draws_the_values():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    plan = LearningRate(0.1, 128, warmup_epochs=1, decay="cosine")
    axes = plan.plot(**RUN)
    (line,) = axes.lines
    assert line.get_ydata().tolist() == plan.values(**RUN).tolist()
    assert line.get_xdata()[STEPS] == 1.0
    assert axes.get_xlabel() == "epoch"
    assert plan.plot(**RUN, axes=axes) is axes
    matplotlib.pyplot.close(axes.figure)


def test_plot_without_matplotlib_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match="Fix: pip install matplotlib"):
        LearningRate(0.1).plot(**RUN)


def test_the_package_shows_it():
    assert tfdist.LearningRate is LearningRate
    assert {"LearningRate", "LARS", "LAMB"} <= set(dir(tfdist))
