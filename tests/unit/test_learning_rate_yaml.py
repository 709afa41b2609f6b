"""The section train.learning_rate of the YAML file."""

import dataclasses

import pytest
from example_yaml import SMALL
from tfdist.strategies.registry import kinds

from tfdist.config import load
from tfdist.config.learning_rate import LearningRateSection
from tfdist.errors import ConfigError
from tfdist.step.learning_rate import LearningRate


def yaml(options, epochs=10, optimizer="{name: sgd}"):
    return f"{SMALL}train:\n  epochs: {epochs}\n  optimizer: {optimizer}\n  learning_rate:\n    {options}\n"


def test_it_makes_the_same_plan_as_python(write):
    options = "{base: 1e-3, base_batch_size: 64, warmup_epochs: 1, decay: step, decay_at_epochs: [3, 6]}"
    config = load(write(yaml(options)), kinds=kinds())
    plan = LearningRate.from_section(config.train.learning_rate)
    assert plan == LearningRate(0.001, 64, warmup_epochs=1, decay="step", decay_at_epochs=[3, 6])


def test_it_has_the_options_and_defaults_of_python():
    python = {field.name: field.default for field in dataclasses.fields(LearningRate)}
    section = {name: field.default for name, field in LearningRateSection.model_fields.items()}
    assert list(python) == list(section)
    assert {name: default for name, default in python.items() if name != "base"} == {
        name: default for name, default in section.items() if name != "base"
    }


REFUSED = {
    "no effect": (
        yaml("{base: 0.1, decay: cosine, decay_rate: 0.5}"),
        "train.learning_rate.decay_rate: 0.5 has no effect with decay cosine",
    ),
    "unknown key": (yaml("{base: 0.1, warm_up: linear}"), "train.learning_rate.warm_up: unknown key"),
    "no base": (yaml("{decay: cosine}"), "train.learning_rate.base: the key is missing"),
    "longer than the run": (
        yaml("{base: 0.1, decay: cosine, warmup_epochs: 3}", epochs=3),
        "train.learning_rate.warmup_epochs: 3.0 leaves no time to fall in 3 epochs",
    ),
    "two rates": (
        yaml("{base: 0.1}", optimizer="{name: sgd, learning_rate: 0.5}"),
        "train.optimizer.learning_rate: 0.5 has no effect: train.learning_rate replaces it",
    ),
}


@pytest.mark.parametrize(("text", "what"), REFUSED.values(), ids=REFUSED)
def test_mistakes_are_found_before_tensorflow_loads(write, text, what):
    with pytest.raises(ConfigError) as caught:
        load(write(text), kinds=kinds())
    assert what in str(caught.value)
    assert str(caught.value).startswith("run.yaml:")
