"""Callbacks that act in one of two tasks; prints what each task saw as one JSON object."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import tfdist


def main(folder: Path) -> None:
    strategy = tfdist.make_strategy("multi_worker_mirrored")

    import keras

    x = np.random.RandomState(0).randn(64, 4).astype("float32")
    y = x[:, :1]

    def build_model() -> keras.Model:
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.1), "mse")
        return model

    def fit(*callbacks: Any) -> keras.callbacks.History:
        return tfdist.fit(
            build_model,
            x,
            y,
            strategy=strategy,
            seed=3,
            global_batch_size=16,
            epochs=3,
            verbose=0,
            callbacks=list(callbacks),
        )

    is_chief = tfdist.Cluster.from_tf_config().is_chief
    seen: dict[str, Any] = {}

    class LowerOnChief(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if is_chief:
                self.model.optimizer.learning_rate = 0.01

    class StopElsewhere(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if not is_chief and batch == 1:
                self.model.stop_training = True

    class Count(keras.callbacks.Callback):
        def __init__(self) -> None:
            super().__init__()
            self.batches: list[int] = []

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.batches.append(batch)

    history = fit(LowerOnChief())
    seen["rate"] = round(float(history.model.optimizer.learning_rate.numpy()), 6)
    seen["weights"] = np.ravel(history.model.get_weights()[0]).tolist()
    count = Count()
    history = fit(StopElsewhere(), count)
    seen["stopped after"] = int(history.model.optimizer.iterations.numpy())
    seen["batches"] = count.batches
    mine = folder / ("chief" if is_chief else "other")
    fit(
        keras.callbacks.CSVLogger(f"{mine}.csv"),
        keras.callbacks.ModelCheckpoint(f"{mine}.keras"),
        keras.callbacks.EarlyStopping("loss", patience=1, min_delta=1e9),
    )
    seen["files"] = sorted(path.name for path in folder.iterdir() if path.stem == mine.name)
    try:
        datasets = [tf_data(x, y, 16), tf_data(x, y, 32)]
        tfdist.fit(build_model, datasets[not is_chief], strategy=strategy, verbose=0)
    except tfdist.TrainingError as error:
        seen["lengths"] = str(error)
    order = np.arange(64) if is_chief else np.arange(64)[::-1].copy()
    try:
        tfdist.fit(
            build_model, x[order], y[order], strategy=strategy, shuffle=False, global_batch_size=16, verbose=0
        )
    except tfdist.TrainingError as error:
        seen["arrays"] = str(error)
    import tensorflow as tf

    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(16).filter(lambda *_: True)
    try:
        tfdist.fit(build_model, batches.take(3 if is_chief else 2), strategy=strategy, verbose=0)
    except tfdist.TrainingError as error:
        seen["unknown lengths"] = str(error)
    print("SEEN " + json.dumps(seen))


def tf_data(x: Any, y: Any, rows: int) -> Any:
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices((x, y)).batch(rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
