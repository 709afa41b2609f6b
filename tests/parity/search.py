"""Looks for rows, batches, replicas, micro-batches and weights with which several devices train otherwise
than one.

    python -m tests.parity.search EXAMPLES [every]

Tries so many examples; with `every`, of any number of replicas with any number of micro-batches, at random,
instead of `PAIRS`, always the same ones. In a process of its own, because it splits the CPU.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from functools import cache
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from keras import layers

import tfdist
from tests.parity import data
from tests.parity.compare import differences
from tfdist.training.trainer import Trainer

REPLICAS = MICRO_BATCHES = range(1, 5)
EVERY_PAIR = tuple((replicas, micro) for replicas in REPLICAS for micro in MICRO_BATCHES)
# Each is traced anew, which is what takes time: each number of replicas and of micro-batches once.
PAIRS = ((1, 4), (2, 1), (3, 2), (4, 3))
SEED = 5
EPOCHS = 2
OUTPUTS = ("number", "class", "token")
SCALES = (0.0, 1e-3, 1.0, 7.5, 1e3)


def build() -> keras.Model:
    """A model with a regression, a classification and a masked output, each with its own weights of rows."""
    number, tokens = keras.Input((data.FEATURES,), name="x"), keras.Input((data.LENGTH, 1), name="tokens")
    hidden = layers.Dense(4, activation="tanh")(number)
    # No embedding: its gradients would let steps run one at a time only, which takes much longer.
    masked = layers.Dense(3, activation="tanh")(layers.Masking()(tokens))
    outputs = {
        "number": layers.Dense(1, name="number")(hidden),
        "class": layers.Dense(data.CLASSES, activation="softmax", name="class")(hidden),
        "token": layers.Dense(1, name="token")(masked),
    }
    model = keras.Model({"x": number, "tokens": tokens}, outputs)
    model.compile(
        keras.optimizers.SGD(0.02, momentum=0.9, global_clipnorm=1.0),
        {"number": "mse", "class": "sparse_categorical_crossentropy", "token": "mse"},
        metrics={"number": ["mae"], "class": ["accuracy"]},
        weighted_metrics={"class": ["accuracy"], "token": ["mae"]},
    )
    return model


def examples(rows: int, weights: dict[str, np.ndarray]) -> dict[str, Any]:
    """Gives the arguments of `fit`."""
    x, number = data.regression(rows)
    _, label = data.classification(rows)
    tokens, values = data.sequences(rows)
    return {
        "x": {"x": x, "tokens": tokens[..., None].astype("float32") / data.TOKENS},
        "y": {"number": number, "class": label, "token": values},
        "sample_weight": {**weights, "token": weights["token"][:, None]},
    }


class Trained:
    """A model that is built and traced once, and starts again from the same weights each time."""

    def __init__(self, strategy: tf.distribute.Strategy, accumulate_steps: int) -> None:
        keras.utils.set_random_seed(SEED)
        self._trainer = Trainer(build, strategy, accumulate_steps=accumulate_steps, seed=SEED)
        model = self._trainer.model
        with strategy.scope():
            model.optimizer.build(model.trainable_variables)
        self._variables = [*model.variables, *model.optimizer.variables]
        self._start = [np.asarray(variable) for variable in self._variables]

    def results(self, arguments: dict[str, Any], batch: int) -> dict[str, Any]:
        """Trains; evaluating is the same code without gradients, and would be traced by itself."""
        model = self._trainer.model
        for variable, value in zip(self._variables, self._start, strict=True):
            variable.assign(value)
        fitted = self._trainer.fit(
            **arguments, global_batch_size=batch, epochs=EPOCHS, shuffle=False, verbose=0
        )
        return {
            "iterations": int(model.optimizer.iterations.numpy()),
            "weights": [np.asarray(weight).tolist() for weight in model.weights],
            "logs": fitted.history,
        }


@cache
def strategy_of(replicas: int) -> tf.distribute.Strategy:
    """Gives a strategy with so many replicas."""
    return tfdist.make_strategy("mirrored", devices=[f"CPU:{index}" for index in range(replicas)])


@cache
def several(replicas: int, accumulate_steps: int) -> Trained:
    """Gives what trains with so many replicas and micro-batches."""
    return Trained(strategy_of(replicas), accumulate_steps)


@cache
def one() -> Trained:
    """Gives the reference."""
    return Trained(tfdist.make_strategy("one_device"), 1)


@st.composite
def row_weights(draw: Any, rows: int) -> np.ndarray:
    """Draws a weight for each row: all of one scale, or of very different ones, many of them 0."""
    scales = draw(st.lists(st.sampled_from(SCALES), min_size=1, max_size=4))
    random = np.random.default_rng(draw(st.integers(0, 1000)))
    return (random.uniform(0.5, 1.5, rows) * random.choice(scales, rows)).astype("float32")


def main(count: int, every: bool) -> None:
    """Searches; ends with an error and the smallest example where there is one."""
    tfdist.make_strategy("mirrored", logical_cpus=max(REPLICAS))
    tried: Counter[tuple[int, int]] = Counter()
    begun = time.monotonic()

    @settings(
        max_examples=count,
        derandomize=not every,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def same_as_one(drawn: Any) -> None:
        rows = drawn.draw(st.integers(1, 70), "rows")
        batch = drawn.draw(st.integers(1, 24), "global batch size")
        pair = drawn.draw(st.sampled_from(EVERY_PAIR if every else PAIRS), "replicas, micro-batches")
        weights = {name: drawn.draw(row_weights(rows), f"weights of {name}") for name in OUTPUTS}
        tried[pair] += 1
        arguments = examples(rows, weights)
        found = differences(several(*pair).results(arguments, batch), one().results(arguments, batch))
        note("\n".join(found))
        assert not found

    same_as_one()
    print(
        f"TRIED {sum(tried.values())} examples with {len(tried)} pairs of replicas and micro-batches in"
        f" {time.monotonic() - begun:.0f} s"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), "every" in sys.argv[2:])
