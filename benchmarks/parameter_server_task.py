"""One task of a cluster that trains the digits; `parameter_server.py` starts it once per task.

    python parameter_server_task.py VARIANT SETTINGS ADDRESS

The chief trains and takes its turns through the socket at ADDRESS; SETTINGS is JSON.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from multiprocessing.connection import Client
from typing import Any

import numpy as np
from turns import MANY_TURNS, Turns

LEARNING_RATE = 0.002
WEIGHT_DECAY = 0.01


def main() -> None:
    """Trains in the chief; serves it in every other task."""
    variant, settings, address = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
    run = {"tfdist": run_tfdist, "keras2": run_keras2}[variant]
    if json.loads(os.environ["TF_CONFIG"])["task"]["type"] != "chief":
        run(None, settings)
        return
    with Client(address) as connection:
        try:
            connection.send(("result", run(Turns(connection), settings)))
        except Exception:
            connection.send(("failed", traceback.format_exc()))
            raise


def run_tfdist(turns: Turns | None, settings: dict[str, Any]) -> dict[str, Any]:
    """Trains with `tfdist.fit`."""
    import keras

    import tfdist
    from tfdist.examples import digits

    strategy = tfdist.make_strategy("parameter_server", tfdist.Cluster.discover())  # workers and ps stay here
    keras.utils.set_random_seed(1)
    images, labels = _digits(settings)
    history = tfdist.fit(
        digits.build_model,
        images,
        labels,
        strategy=strategy,
        optimizer=keras.optimizers.AdamW(LEARNING_RATE, weight_decay=WEIGHT_DECAY),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
        global_batch_size=settings["batch_size"],
        epochs=MANY_TURNS,
        callbacks=[_turn_per_epoch(keras, turns)],
        verbose=0,
    )
    return _outcome(history.history, history.model)


def run_keras2(turns: Turns | None, settings: dict[str, Any]) -> dict[str, Any]:
    """Trains with the `fit` of Keras 2 as its guide for parameter servers does."""
    import tensorflow as tf
    import tf_keras

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if turns is None:
        server = tf.distribute.Server(
            resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
        )
        server.join()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    tf_keras.utils.set_random_seed(1)
    images, labels = _digits(settings)

    def make_dataset(context: tf.distribute.InputContext) -> tf.data.Dataset:
        dataset = tf.data.Dataset.from_tensor_slices((images, labels))
        # Without a seed of its own each worker would shuffle in the same order.
        dataset = dataset.shuffle(len(images), seed=context.input_pipeline_id).repeat()
        return dataset.batch(context.get_per_replica_batch_size(settings["batch_size"])).prefetch(4)

    with strategy.scope():
        model = tf_keras.Sequential(
            [
                tf_keras.Input((64,)),
                tf_keras.layers.Dense(128, activation="relu"),
                tf_keras.layers.Dense(128, activation="relu"),
                tf_keras.layers.Dense(10, activation="softmax"),
            ]
        )
        model.compile(
            tf_keras.optimizers.AdamW(LEARNING_RATE, weight_decay=WEIGHT_DECAY),
            "sparse_categorical_crossentropy",
            metrics=["accuracy"],
            steps_per_execution=settings["steps_per_execution"],
        )
    history = model.fit(
        tf_keras.utils.experimental.DatasetCreator(make_dataset),
        steps_per_epoch=settings["steps"],
        epochs=MANY_TURNS,
        callbacks=[_turn_per_epoch(tf_keras, turns)],
        verbose=0,
    )
    return _outcome(history.history, model)


def _digits(settings: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Repeats the digits until they fill the epoch's batches."""
    from tfdist.examples import digits

    images, labels = digits.load()["train"]
    chosen = np.arange(settings["steps"] * settings["batch_size"]) % len(images)
    return images[chosen], labels[chosen]


def _turn_per_epoch(keras: Any, turns: Turns | None) -> Any:
    assert turns is not None

    class TurnPerEpoch(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            turns.begin()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.model.stop_training = not turns.end()

    return TurnPerEpoch()


def _outcome(history: dict[str, list[float]], model: Any) -> dict[str, Any]:
    return {
        "updates": int(model.optimizer.iterations.numpy()),
        "losses": [float(loss) for loss in history["loss"]],
        "accuracies": [float(accuracy) for accuracy in history["accuracy"]],
    }


if __name__ == "__main__":
    main()
