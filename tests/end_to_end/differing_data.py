"""Each worker shuffles by itself, which would repeat rows and drop others."""

import numpy as np

import tfdist


def main() -> None:
    strategy = tfdist.make_strategy("multi_worker_mirrored")

    import keras
    import tensorflow as tf

    def build_model() -> keras.Model:
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        return model

    rows = np.arange(64, dtype="float32")[:, None]
    data = tf.data.Dataset.from_tensor_slices((rows, rows)).shuffle(64)
    try:
        tfdist.fit(build_model, data.batch(16), strategy=strategy, verbose=0)
    except tfdist.TrainingError as error:
        print(f"refused: {error}")
    else:
        print("trained")
    seeded = tf.data.Dataset.from_tensor_slices((rows, rows)).shuffle(64, seed=7)
    history = tfdist.fit(build_model, seeded.batch(16), strategy=strategy, verbose=0)
    print(f"trained on the seeded one: {int(history.model.optimizer.iterations.numpy())} steps")


if __name__ == "__main__":
    main()
