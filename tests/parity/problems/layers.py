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


PROBLEMS = [
    model("frozen_layer", models.frozen_first, narrow=True),
    model("shared_layer", models.shared_layer, narrow=True),
    model("model_in_a_model", models.nested, narrow=True),
    model("built_by_its_first_call", models.Lazy, narrow=True),
    model("built_by_its_first_call_accumulated", models.Lazy, narrow=True, trainer={"accumulate_steps": 2}),
    model("layer_without_gradient", models.HalfUnused),
    model("convolution", models.convolution, narrow=True),
    model("states_that_layers_assign", models.counts_calls, rows=64),
    model("synchronized_batch_normalization", lambda: models.normalized(True), rows=48),
    Problem("attention", lambda: compiled(models.attention()), tokens(57), narrow=True),
    Problem(
        "model_with_its_own_steps",
        lambda: compiled(models.OwnStep(), metrics=["mae"]),
        regression(57),
        held_out,
    ),
    # Keras shows such a step's loss of the last batch, ours as well; of evaluation Keras shows no loss.
    model("model_with_two_optimizers", models.TwoOptimizers, rows=49),
    Problem(
        "words",
        lambda: compiled(models.words()),
        lambda: dict(zip(("x", "y"), data.texts(57), strict=True)),
        lambda: data.texts(21, seed=1),
        keras_agrees_in=(),  # it takes strings only as tensors
    ),
    Problem(
        "run_eagerly",
        lambda: compiled(models.dense(), run_eagerly=True),
        regression(33),
        held_out,
        narrow=True,  # and a parameter server refuses it
    ),
    # All its batches fall into equal parts, so that TensorFlow exchanges the gradients without padding them.
    Problem("embedding_52", lambda: compiled(models.token_values(), momentum()()), tokens(52)),
    Problem("embedding_of_different_lengths", lambda: compiled(models.open_length()), different_lengths),
    Problem(
        "embedding_accumulated",
        lambda: compiled(models.token_values(), keras.optimizers.Adam(0.02)),
        tokens(49),
        trainer={"accumulate_steps": 2},
    ),
]
