"""Small models for the problems."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import layers

from tests.parity.data import CLASSES, FEATURES, LENGTH, TOKENS, WORDS


def dense(outputs: int = 1, activation: str | None = None, **arguments: Any) -> keras.Model:
    """Two dense layers; `arguments` are those of the first."""
    return keras.Sequential(
        [
            keras.Input((FEATURES,)),
            layers.Dense(5, activation="tanh", **arguments),
            layers.Dense(outputs, activation=activation),
        ]
    )


def deep() -> keras.Model:
    """A network of nine layers, in which small differences grow."""
    hidden = [layers.Dense(128, activation="relu", kernel_initializer="he_normal") for _ in range(8)]
    return keras.Sequential([keras.Input((FEATURES,)), *hidden, layers.Dense(1)])


def classifier(**arguments: Any) -> keras.Model:
    """Probabilities of three classes."""
    return dense(CLASSES, "softmax", **arguments)


def recurrent(layer: str) -> keras.Model:
    """A number for each token, with padding masked."""
    return keras.Sequential(
        [
            keras.Input((LENGTH,), dtype="int32"),
            layers.Embedding(TOKENS, 3, mask_zero=True),
            getattr(layers, layer)(4, return_sequences=True),
            layers.Dense(1),
        ]
    )


def masked_values() -> keras.Model:
    """A number for each token, looked up, with padding masked."""
    return keras.Sequential(
        [keras.Input((LENGTH,), dtype="int32"), layers.Embedding(TOKENS, 3, mask_zero=True), layers.Dense(1)]
    )


def two_in_two_out() -> keras.Model:
    """Inputs `left` and `right`, outputs `number` and `class`."""
    left, right = keras.Input((FEATURES,), name="left"), keras.Input((FEATURES,), name="right")
    joined = layers.Concatenate()(
        [layers.Dense(3, activation="tanh")(left), layers.Dense(3, activation="tanh")(right)]
    )
    outputs = {
        "number": layers.Dense(1, name="number")(joined),
        "class": layers.Dense(CLASSES, activation="softmax", name="class")(joined),
    }
    return keras.Model({"left": left, "right": right}, outputs)


def pair_in_pair_out() -> keras.Model:
    """The same with lists instead of dicts."""
    left, right = keras.Input((FEATURES,)), keras.Input((FEATURES,))
    joined = layers.Concatenate()([layers.Dense(3, activation="tanh")(left), layers.Dense(2)(right)])
    return keras.Model([left, right], [layers.Dense(1)(joined), layers.Dense(1)(joined)])


def frozen_first() -> keras.Model:
    """A dense network whose first layer is not trained."""
    model = dense()
    model.layers[0].trainable = False
    return model


def shared_layer() -> keras.Model:
    """One layer used twice, so that its gradients add up."""
    given = keras.Input((FEATURES,))
    shared = layers.Dense(FEATURES, activation="tanh")
    return keras.Model(given, layers.Dense(1)(shared(shared(given))))


def nested() -> keras.Model:
    """A model inside a model."""
    given = keras.Input((FEATURES,))
    return keras.Model(given, layers.Dense(1)(dense(3, "tanh")(given)))


def convolution() -> keras.Model:
    """A small convolutional network on images of one row."""
    return keras.Sequential(
        [
            keras.Input((FEATURES,)),
            layers.Reshape((2, 2, 1)),
            layers.Conv2D(3, 2, padding="same", activation="relu"),
            layers.LayerNormalization(),
            layers.GlobalAveragePooling2D(),
            layers.Dense(1),
        ]
    )


def attention() -> keras.Model:
    """A token model with self-attention."""
    given = keras.Input((LENGTH,), dtype="int32")
    vectors = layers.Embedding(TOKENS, 4)(given)
    mixed = layers.MultiHeadAttention(2, 2)(vectors, vectors)
    return keras.Model(given, layers.Dense(1)(layers.Add()([vectors, mixed])))


def open_length() -> keras.Model:
    """A number for each token of sequences of any length, with padding masked."""
    return keras.Sequential(
        [keras.Input((None,), dtype="int32"), layers.Embedding(TOKENS, 4, mask_zero=True), layers.Dense(1)]
    )


def token_values() -> keras.Model:
    """A number for each token, looked up."""
    return keras.Sequential(
        [keras.Input((LENGTH,), dtype="int32"), layers.Embedding(TOKENS, 4), layers.Dense(1)]
    )


def words() -> keras.Model:
    """A model of words, with the vocabulary inside."""
    return keras.Sequential(
        [
            keras.Input((2,), dtype="string"),
            layers.StringLookup(vocabulary=WORDS.tolist()),
            layers.Embedding(len(WORDS) + 1, 3),
            layers.Flatten(),
            layers.Dense(1),
        ]
    )


def normalized(synchronized: bool) -> keras.Model:
    """A dense network with batch normalization."""
    return keras.Sequential(
        [
            keras.Input((FEATURES,)),
            layers.Dense(5),
            layers.BatchNormalization(momentum=0.5, synchronized=synchronized),
            layers.Dense(1),
        ]
    )


class Lazy(keras.Model):
    """Has no variables until it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.out = layers.Dense(5, activation="tanh"), layers.Dense(1)

    def call(self, x: Any) -> Any:
        return self.out(self.hidden(x))


class OwnLoss(Lazy):
    """Computes the loss itself, without `compile`."""

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        return keras.ops.mean(keras.ops.square(y - y_pred)) + 0.1 * keras.ops.mean(keras.ops.abs(y_pred))


class AddsLoss(layers.Layer):
    """Adds the mean size of what passes through to the loss."""

    def call(self, x: Any) -> Any:
        self.add_loss(0.1 * keras.ops.mean(keras.ops.square(x)))
        return x


def adds_loss() -> keras.Model:
    """A network with a loss inside."""
    return keras.Sequential(
        [keras.Input((FEATURES,)), layers.Dense(5, activation="tanh"), AddsLoss(), layers.Dense(1)]
    )


class CountsCalls(layers.Layer):
    """Counts how often it was called in training, in an integer, and averages what passes through."""

    def build(self, shape: Any) -> None:
        self.calls = self.add_weight((), "zeros", "int32", trainable=False, name="calls")
        self.average = self.add_weight((shape[-1],), "zeros", trainable=False, name="average")

    def call(self, x: Any, training: bool = False) -> Any:
        if training:
            self.calls.assign(self.calls + 1)
            self.average.assign(0.5 * self.average + 0.5 * keras.ops.mean(x, axis=0))
        return x


def counts_calls() -> keras.Model:
    """A network with states that layers assign."""
    return keras.Sequential([keras.Input((FEATURES,)), CountsCalls(), layers.Dense(1)])


class HalfUnused(Lazy):
    """Has a layer that is built and never used, so that its gradients are None."""

    def __init__(self) -> None:
        super().__init__()
        self.unused = layers.Dense(2)

    def build(self, shape: Any) -> None:
        self.unused.build(shape)
        super().build(shape)


class MaskOfEachRow(keras.Model):
    """Shows the random numbers that each row met.

    `x` holds the number of the row. After one step of SGD(1) on the sum of the outputs, a row's weights are
    minus its mask.
    """

    def __init__(self, rows: int, own_generator: bool) -> None:
        super().__init__()
        self.table = self.add_weight((rows, 16), "zeros", name="table")
        self.seed = keras.random.SeedGenerator() if own_generator else None

    def call(self, x: Any, training: bool = False) -> Any:
        of_row = keras.ops.take(self.table, keras.ops.cast(x[:, 0], "int32"), axis=0)
        if training:
            # Without a seed, from the generator that all such calls share.
            drawn = keras.random.uniform((keras.ops.shape(of_row)[0], 16), seed=self.seed)
            of_row = of_row * keras.ops.cast(drawn < 0.5, "float32")
        return keras.ops.sum(of_row, axis=-1, keepdims=True)


class OwnStep(Lazy):
    """Trains and tests by steps of its own, as in Keras's guide."""

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(x=x, y=y, y_pred=y_pred)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return self._logs(loss, y, y_pred)

    def test_step(self, data: Any) -> Any:
        x, y = data
        y_pred = self(x, training=False)
        return self._logs(self.compute_loss(x=x, y=y, y_pred=y_pred), y, y_pred)

    def _logs(self, loss: Any, y: Any, y_pred: Any) -> Any:
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, y_pred)
        return {metric.name: metric.result() for metric in self.metrics}


class TwoOptimizers(Lazy):
    """Trains each of its layers with an optimizer of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.second_optimizer = keras.optimizers.Adam(0.02)

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape(persistent=True) as tape:
            loss = keras.ops.mean(keras.ops.square(y - self(x, training=True)))
        for layer, optimizer in ((self.hidden, self.optimizer), (self.out, self.second_optimizer)):
            weights = layer.trainable_variables
            optimizer.apply(tape.gradient(loss, weights), weights)
        return {"loss": loss}
