"""What single processes say of features beside the parity problems: run once with one device, once with two.

    python cases.py REPLICAS

Prints one JSON object: the name of each case and what came out of it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfdist

X = np.random.RandomState(0).randn(64, 4).astype("float32")
Y = np.random.RandomState(1).randn(64, 1).astype("float32")


def weights_of(model: keras.Model) -> list[float]:
    return [float(value) for weight in model.get_weights() for value in np.ravel(weight)]


def network(optimizer: Any, **settings: Any) -> keras.Model:
    keras.utils.set_random_seed(1)
    layers = [keras.Input((4,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model.compile(optimizer, "mse", **settings)
    return model


def distributed_optimizer(strategy: Any, accumulate_steps: int, wrapped: bool = True) -> dict[str, Any]:
    """Trains with Keras's own `fit`, 16 rows in an update however they come."""
    with strategy.scope():
        optimizer: Any = keras.optimizers.SGD(
            keras.optimizers.schedules.ExponentialDecay(0.1, 4, 0.5), momentum=0.9, global_clipnorm=0.3
        )
        if wrapped:
            optimizer = tfdist.DistributedOptimizer(optimizer, accumulate_steps)
        model = network(optimizer)
    model.fit(X, Y, batch_size=16 // accumulate_steps, epochs=2, shuffle=False, verbose=0)
    model.save("distributed.keras")
    return {
        "weights": weights_of(model),
        "iterations": int(model.optimizer.iterations.numpy()),
        "saved as": type(keras.models.load_model("distributed.keras").optimizer).__module__,
    }


def trained(strategy: Any, build: Callable[[], keras.Model], **arguments: Any) -> dict[str, Any]:
    history = tfdist.fit(
        build,
        X[:57],
        Y[:57],
        strategy=strategy,
        epochs=3,
        global_batch_size=16,
        seed=3,
        verbose=0,
        **arguments,
    )
    return {"weights": weights_of(history.model), "loss": history.history["loss"]}


def averaged() -> keras.Model:
    settings = {"use_ema": True, "ema_momentum": 0.8, "ema_overwrite_frequency": 3}
    return network(keras.optimizers.SGD(0.05, momentum=0.9, **settings))


def compiled_by_xla() -> keras.Model:
    return network(keras.optimizers.Adam(0.01), jit_compile=True)


def eager() -> keras.Model:
    return network(keras.optimizers.Adam(0.01), run_eagerly=True)


def graph() -> keras.Model:
    return network(keras.optimizers.Adam(0.01))


class TwoPlayers(keras.Model):
    """A model with two optimizers and a `train_step` of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.judge, self.maker = keras.layers.Dense(1), keras.layers.Dense(4)
        self.players = {
            "judge": [("optimizer", keras.optimizers.Adam(0.01, global_clipnorm=0.5))],
            "maker": [("optimizer", keras.optimizers.SGD(0.05, momentum=0.9))],
        }
        self.judged = keras.metrics.Mean(name="judged")

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        return [self.judged]

    def call(self, x: Any) -> Any:
        return self.judge(self.maker(x))

    def train_step(self, x: Any) -> dict[str, Any]:
        with tf.GradientTape() as tape:
            judged = tf.reduce_mean(tf.nn.softplus(-self.judge(x))) + tf.reduce_mean(
                tf.nn.softplus(self.judge(self.maker(x)))
            )
        weights = self.judge.trainable_variables
        self.players["judge"][0][1].apply_gradients(zip(tape.gradient(judged, weights), weights, strict=True))
        with tf.GradientTape() as tape:
            made = tf.reduce_mean(tf.nn.softplus(-self.judge(self.maker(x))))
        weights = self.maker.trainable_variables
        self.players["maker"][0][1].apply_gradients(zip(tape.gradient(made, weights), weights, strict=True))
        self.judged.update_state(judged)
        return {"judged": self.judged.result(), "made": made}


def two_players(strategy: Any) -> dict[str, Any]:
    def build() -> keras.Model:
        keras.utils.set_random_seed(1)
        model = TwoPlayers()
        model.compile()
        return model

    history = tfdist.fit(
        build, X[:57], strategy=strategy, epochs=3, global_batch_size=16, seed=3, shuffle=False, verbose=0
    )
    return {"weights": weights_of(history.model), **history.history}


def normalized_spectrum() -> keras.Model:
    """A layer that assigns to its own trained weight."""
    keras.utils.set_random_seed(1)
    layers = [
        keras.Input((4,)),
        keras.layers.SpectralNormalization(keras.layers.Dense(3)),
        keras.layers.Dense(1),
    ]
    model = keras.Sequential(layers)
    model.compile("sgd", "mse")
    return model


def kernels_without_decay(strategy: Any) -> dict[str, Any]:
    """An optimizer that was set up further after it was made."""
    optimizer = keras.optimizers.AdamW(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_names=["kernel", "bias"])

    def build() -> keras.Model:
        return keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, kernel_initializer="ones")])

    return trained(strategy, build, optimizer=optimizer, loss="mse", shuffle=False)


def without_decay() -> keras.Model:
    layers = [keras.Input((4,)), keras.layers.Dense(1, kernel_initializer="ones")]
    model = keras.Sequential(layers)
    model.compile(keras.optimizers.AdamW(0.1, weight_decay=0.0), "mse")
    return model


def mean_error(y_true: Any, y_pred: Any) -> Any:
    return keras.ops.mean(keras.ops.abs(y_true - y_pred))


def one_number_per_batch(strategy: Any) -> dict[str, Any]:
    trainer = tfdist.Trainer(lambda: network("sgd", metrics=[mean_error]), strategy)
    return trainer.evaluate(X[:17], Y[:17], global_batch_size=8, verbose=0)


def drawn_while_predicting(strategy: Any) -> dict[str, Any]:
    class Uncertain(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dropout = keras.layers.Dropout(0.5, seed=3)

        def call(self, x: Any) -> Any:
            return self.dropout(x, training=True)

    def build() -> keras.Model:
        model = Uncertain()
        model.compile("sgd", "mse")
        return model

    trainer = tfdist.Trainer(build, strategy)
    first, second = (trainer.predict(np.ones((4, 64), "float32"), global_batch_size=4) for _ in range(2))
    return {
        "calls differ": bool((first != second).any()),
        "halves differ": bool((first[:2] != first[2:]).any()),
    }


def fits_in_a_row(strategy: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = {"global_batch_size": 16, "verbose": 0}
    at_once = tfdist.Trainer(graph, strategy, seed=3)
    at_once.fit(X, Y, epochs=3, **arguments)
    in_a_row = tfdist.Trainer(graph, strategy, seed=3)
    for _ in range(3):
        in_a_row.fit(X, Y, epochs=1, **arguments)
    return {"at once": weights_of(at_once.model), "in a row": weights_of(in_a_row.model)}


def one_dropout_mask_each(strategy: Any) -> dict[str, Any]:
    """Reads which entries dropout kept, from the gradient of a sum."""

    def build() -> keras.Model:
        keras.utils.set_random_seed(1)
        inputs = keras.Input((256,))
        kept = keras.layers.Dropout(0.5)(inputs)
        outputs = keras.layers.Dense(1, kernel_initializer="zeros", use_bias=False)(kept)
        model = keras.Model(inputs, outputs)
        model.compile(keras.optimizers.SGD(1.0), "mse")
        return model

    ones = np.ones((2, 256), "float32")
    history = tfdist.fit(
        build, ones, -np.ones((2, 1)), strategy=strategy, global_batch_size=2, seed=3, verbose=0
    )
    steps = np.ravel(history.model.get_weights()[0])
    return {"levels": len(np.unique(np.round(steps, 5)))}


def refusals(strategy: Any) -> dict[str, str]:
    """What no strategy does. `tests/parity/problems/refusals.py` has what some do."""
    cases: dict[str, Callable[[], Any]] = {
        "distributed twice": lambda: tfdist.fit(
            lambda: network(tfdist.DistributedOptimizer(keras.optimizers.SGD(0.1))), X, Y, strategy=strategy
        ),
        "endless": (
            lambda: tfdist.Trainer(graph, strategy).evaluate(
                tf.data.Dataset.from_tensors((X, Y)).repeat(), verbose=0
            )
        ),
        "unknown loss": lambda: tfdist.fit(
            graph_without_loss, X, Y, strategy=strategy, optimizer="sgd", loss="msee"
        ),
        "backup": lambda: tfdist.fit(
            graph, X, Y, strategy=strategy, verbose=0, callbacks=[keras.callbacks.BackupAndRestore("backup")]
        ),
    }
    said = {}
    for name, case in cases.items():
        try:
            case()
            said[name] = "done"
        except tfdist.ConfigError as error:
            said[name] = str(error)
    return said


def graph_without_loss() -> keras.Model:
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])


def main(replicas: int) -> None:
    name, options = ("mirrored", {"logical_cpus": replicas}) if replicas > 1 else ("one_device", {})
    strategy = tfdist.make_strategy(name, **options)
    results: dict[str, Any] = {
        "keras alone": distributed_optimizer(strategy, 1, wrapped=False),
        **{f"distributed optimizer, {k} batches": distributed_optimizer(strategy, k) for k in (1, 2, 4)},
        "averages overwrite": trained(strategy, averaged),
        "averages overwrite, accumulated": trained(strategy, averaged, accumulate_steps=2),
        "graph": trained(strategy, graph),
        "eager": trained(strategy, eager),
        "xla": trained(strategy, compiled_by_xla),
        "two players": two_players(strategy),
        "normalized spectrum": trained(strategy, normalized_spectrum),
        "kernels without decay": kernels_without_decay(strategy),
        "without decay": trained(strategy, without_decay, shuffle=False),
        "one number per batch": one_number_per_batch(strategy),
        "drawn while predicting": drawn_while_predicting(strategy),
        "fits in a row": fits_in_a_row(strategy),
        "dropout": one_dropout_mask_each(strategy),
        "refusals": refusals(strategy),
    }
    print("RESULTS " + json.dumps(results))


if __name__ == "__main__":
    main(int(sys.argv[1]))
