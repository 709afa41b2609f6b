"""What the model is made of."""

from typing import Any

import keras
import tensorflow as tf

from tests.parity import data, models
from tests.parity.problem import Problem, compiled
from tests.parity.problems.losses import tokens
from tests.parity.problems.optimizers import momentum
from tests.parity.problems.rows import held_out, regression


def model(name: str, build: Any, rows: int = 57, **arguments: Any) -> Problem:
    """A problem that differs from others in its model."""
    return Problem(name, lambda: compiled(build()), regression(rows), **arguments)


def different_lengths() -> dict[str, Any]:
    """Gives batches of sequences that are as long as the longest of the batch."""
    x, y = data.sequences(57)
    batches = tf.data.Dataset.from_tensor_slices((x, y[..., 0]))
    batches = batches.map(lambda x, y: (x[: tf.math.count_nonzero(x)], y[: tf.math.count_nonzero(x)]))
    return {"x": batches.padded_batch(6).map(lambda x, y: (x, y[..., None]))}


def freeze(model: keras.Model) -> None:
    """Lets the first layer train no more."""
    model.layers[0].trainable = False


def unfreeze(model: keras.Model) -> None:
    """Lets the first layer train too."""
    model.layers[0].trainable = True


def unfreeze_and_compile(model: keras.Model) -> None:
    """Does the same as Keras asks to do it."""
    unfreeze(model)
    compiled(model)


PROBLEMS = [
    model(
        "frozen_layer",
        models.frozen_first,
        narrow=True,
        feature="a layer that does not train",
    ),
    model(
        "layer_frozen_between_fits",
        models.dense,
        then=[{}],
        between=freeze,
        narrow=True,
        keras_agrees_in=(),  # it goes on training the layer until the model is compiled again
        feature="a layer that is frozen between two fits",
    ),
    model(
        "layer_unfrozen_between_fits",
        models.frozen_first,
        then=[{}],
        between=unfreeze_and_compile,
        feature="a layer that trains from the second fit on, with the model compiled again",
    ),
    model(
        "shared_layer",
        models.shared_layer,
        narrow=True,
        feature="a layer that is used twice",
    ),
    model("model_in_a_model", models.nested, narrow=True),
    model(
        "built_by_its_first_call",
        models.Lazy,
        narrow=True,
        feature="a subclassed model that is built by its first call",
    ),
    model(
        "built_by_its_first_call_accumulated",
        models.Lazy,
        narrow=True,
        trainer={"accumulate_steps": 2},
        feature="the same with `accumulate_steps=2`",
    ),
    model(
        "layer_without_gradient",
        models.HalfUnused,
        feature="a layer that gets no gradient (None)",
    ),
    model("convolution", models.convolution, narrow=True),
    model("states_that_layers_assign", models.counts_calls, rows=64),
    model(
        "synchronized_batch_normalization",
        lambda: models.normalized(True),
        rows=48,
        fit={"epochs": 3},
        feature="BatchNormalization with `synchronized=True`",
    ),
    Problem(
        "deep_network",
        lambda: compiled(models.deep(), keras.optimizers.Adam(0.01)),
        regression(57),
        fit={"epochs": 4},
        same_parts=True,
        feature="a deep network, in which float order moves results by more than the bound",
    ),
    Problem("attention", lambda: compiled(models.attention()), tokens(57), narrow=True),
    Problem(
        "model_with_its_own_steps",
        lambda: compiled(models.OwnStep(), metrics=["mae"]),
        regression(57),
        held_out,
        feature="a `train_step` and `test_step` of the model's own",
    ),
    # Keras shows such a step's loss of the last batch, ours as well; of evaluation Keras shows no loss.
    model(
        "model_with_two_optimizers",
        models.TwoOptimizers,
        rows=49,
        feature="a `train_step` with two optimizers, as for a GAN",
    ),
    Problem(
        "words",
        lambda: compiled(models.words()),
        lambda: dict(zip(("x", "y"), data.texts(57), strict=True)),
        lambda: data.texts(21, seed=1),
        keras_agrees_in=(),  # it takes strings only as tensors
        feature="strings, looked up in the model",
    ),
    Problem(
        "run_eagerly",
        lambda: compiled(models.dense(), run_eagerly=True),
        regression(33),
        held_out,
        fit={"epochs": 3},
        refused={"parameter_server": "leave run_eagerly out, or debug under strategy='one_device'"},
        feature="`run_eagerly=True`",
    ),
    Problem(
        "jit_compile",
        lambda: compiled(models.dense(), jit_compile=True),
        regression(57),
        held_out,
        feature="`jit_compile=True`, which is off where replicas exchange gradients",
    ),
    # All its batches fall into equal parts, so that TensorFlow exchanges the gradients without padding them.
    Problem(
        "embedding_52",
        lambda: compiled(models.token_values(), momentum()()),
        tokens(52),
        feature="an embedding, parts of equal size",
    ),
    Problem(
        "embedding_of_different_lengths",
        lambda: compiled(models.open_length()),
        different_lengths,
        feature="an embedding, batches of different lengths",
    ),
    Problem(
        "embedding_accumulated",
        lambda: compiled(models.token_values(), keras.optimizers.Adam(0.02)),
        tokens(49),
        trainer={"accumulate_steps": 2},
        feature="an embedding with Adam and `accumulate_steps=2`",
    ),
]
