"""The same training, three ways: `tfdist.fit`, Keras `fit`, and a loop written by hand.

Each is run by `turns.take_turns` in a process of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from turns import MANY_TURNS, Turns
from workloads import WORKLOADS, make_data


@dataclass(frozen=True)
class Training:
    """What to train, the same in every variant."""

    workload: str
    rows: int
    batch_size: int
    accumulate_steps: int
    clip_global_norm: float | None
    shuffle: bool
    validation_rows: int
    epochs_per_turn: int


@dataclass(frozen=True)
class Outcome:
    """What came of it, to see that every variant did the same.

    Attributes:
        updates: Optimizer updates.
        losses: Loss of each epoch.
        accuracy: Accuracy of the last epoch.
        weights: Every weight of the trained model, in one vector.
    """

    updates: int
    losses: list[float]
    accuracy: float
    weights: np.ndarray


def run_tfdist(turns: Turns, training: Training) -> Outcome:
    """Trains with `tfdist.fit` on one device."""
    import keras

    import tfdist

    images, labels, validation = _prepare(training)
    history = tfdist.fit(
        WORKLOADS[training.workload].build,
        images,
        labels,
        strategy="one_device",
        optimizer=keras.optimizers.SGD(0.01, momentum=0.9),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        global_batch_size=training.batch_size,
        epochs=MANY_TURNS,
        accumulate_steps=training.accumulate_steps,
        clip_global_norm=training.clip_global_norm,
        validation_data=validation,
        shuffle=training.shuffle,
        callbacks=[_turns_of_epochs(turns, training.epochs_per_turn)],
        verbose=0,
    )
    return _outcome_of_history(history)


def run_keras(turns: Turns, training: Training, compile_arguments: dict[str, Any]) -> Outcome:
    """Trains with Keras `fit`. For its `gradient_accumulation_steps`, a batch is a micro-batch."""
    import keras

    images, labels, validation = _prepare(training)
    model = WORKLOADS[training.workload].build()
    model.compile(
        optimizer=keras.optimizers.SGD(
            0.01,
            momentum=0.9,
            global_clipnorm=training.clip_global_norm,
            gradient_accumulation_steps=training.accumulate_steps if training.accumulate_steps > 1 else None,
        ),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        **compile_arguments,
    )
    history = model.fit(
        images,
        labels,
        batch_size=training.batch_size // training.accumulate_steps,
        epochs=MANY_TURNS,
        validation_data=validation,
        shuffle=training.shuffle,
        callbacks=[_turns_of_epochs(turns, training.epochs_per_turn)],
        verbose=0,
    )
    return _outcome_of_history(history)


def run_by_hand(turns: Turns, training: Training) -> Outcome:
    """Trains with the loop that one would write for this model alone: many steps in one graph, nothing
    general.
    """
    import keras
    import tensorflow as tf

    images, labels, validation = _prepare(training)
    model = WORKLOADS[training.workload].build()
    weights = model.trainable_variables
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    optimizer.build(weights)
    loss_of_batch = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    loss_metric = keras.metrics.Mean()
    accuracy_metric = keras.metrics.SparseCategoricalAccuracy()
    accumulate_steps, clip = training.accumulate_steps, training.clip_global_norm
    micro_batch = training.batch_size // accumulate_steps

    def gradients_of(x: Any, y: Any) -> list[Any]:
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = loss_of_batch(y, logits)
        loss_metric.update_state(loss)
        accuracy_metric.update_state(y, logits)
        return tape.gradient(loss, [weight.value for weight in weights])

    def gradients_of_micro_batches(x: Any, y: Any) -> list[Any]:
        totals = [tf.zeros(weight.shape) for weight in weights]
        for index in tf.range(accumulate_steps):
            begin = index * micro_batch
            new = gradients_of(x[begin : begin + micro_batch], y[begin : begin + micro_batch])
            totals = [total + gradient for total, gradient in zip(totals, new, strict=True)]
        return [total / accumulate_steps for total in totals]

    @tf.function
    def train(iterator: Any, steps: Any) -> None:
        for _ in tf.range(steps):
            x, y = next(iterator)
            gradients = gradients_of(x, y) if accumulate_steps == 1 else gradients_of_micro_batches(x, y)
            if clip is not None:
                gradients, _ = tf.clip_by_global_norm(gradients, clip)
            optimizer.apply(gradients, weights)

    @tf.function
    def evaluate(iterator: Any, steps: Any) -> None:
        for _ in tf.range(steps):
            x, y = next(iterator)
            logits = model(x, training=False)
            loss_metric.update_state(loss_of_batch(y, logits))
            accuracy_metric.update_state(y, logits)

    def results() -> tuple[float, float]:
        read = float(loss_metric.result()), float(accuracy_metric.result())
        loss_metric.reset_state()
        accuracy_metric.reset_state()
        return read

    def batches_of(dataset: tf.data.Dataset) -> Any:
        return iter(dataset.batch(training.batch_size, drop_remainder=True).repeat().prefetch(4))

    dataset = tf.data.Dataset.from_tensor_slices((images, labels))
    if training.shuffle:
        dataset = dataset.shuffle(training.rows)
    iterator, steps = batches_of(dataset), tf.constant(training.rows // training.batch_size)
    if validation is not None:
        validation_iterator = batches_of(tf.data.Dataset.from_tensor_slices(validation))
        validation_steps = tf.constant(training.validation_rows // training.batch_size)
    losses = []
    more = True
    while more:
        turns.begin()
        for _ in range(training.epochs_per_turn):
            train(iterator, steps)
            loss, accuracy = results()
            losses.append(loss)
            if validation is not None:
                evaluate(validation_iterator, validation_steps)
                results()
        more = turns.end()
    return Outcome(int(optimizer.iterations), losses, accuracy, _joined_weights(model))


def _prepare(training: Training) -> tuple[np.ndarray, np.ndarray, Any]:
    """Gives images, labels and, if there is to be validation, a pair of both for it."""
    import keras

    keras.utils.set_random_seed(1)
    rows = training.rows
    images, labels = make_data(WORKLOADS[training.workload], rows + training.validation_rows)
    validation = (images[rows:], labels[rows:]) if training.validation_rows else None
    return images[:rows], labels[:rows], validation


def _turns_of_epochs(turns: Turns, epochs: int) -> Any:
    import keras

    class TurnsOfEpochs(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if epoch % epochs == 0:
                turns.begin()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if (epoch + 1) % epochs == 0:
                self.model.stop_training = not turns.end()

    return TurnsOfEpochs()


def _outcome_of_history(history: Any) -> Outcome:
    model = history.model
    return Outcome(
        int(model.optimizer.iterations),
        history.history["loss"],
        history.history["accuracy"][-1],
        _joined_weights(model),
    )


def _joined_weights(model: Any) -> np.ndarray:
    return np.concatenate([weight.ravel() for weight in model.get_weights()])
