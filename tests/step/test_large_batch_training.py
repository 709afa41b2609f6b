"""Momentum correction, LARS and LAMB: what NumPy computes, on one device and on two."""

import json
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdist
from tests.step.problems import PROBLEMS, expected, solve
from tfdist.errors import ConfigError

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", PROBLEMS)
def test_one_device(name):
    for found, right in zip(solve(PROBLEMS[name], "one_device"), expected(PROBLEMS[name]), strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-6, atol=1e-5)


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory):
    """The weights of every problem, trained on two CPU devices in a process of its own."""
    file = tmp_path_factory.mktemp("mirrored") / "weights.json"
    subprocess.run([sys.executable, "-m", "tests.step.problems", file], cwd=ROOT, check=True, timeout=600)
    return json.loads(file.read_text())


@pytest.mark.parametrize("name", PROBLEMS)
def test_two_devices(name, mirrored):
    for found, right in zip(mirrored[name], expected(PROBLEMS[name]), strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-6, atol=1e-5)


def test_momentum_correction_matters():
    assert not np.allclose(expected(PROBLEMS["sgd"])[0], expected(PROBLEMS["sgd, corrected"])[0], atol=0.01)


def test_momentum_is_corrected_between_two_runs():
    x, y = np.ones((8, 1), "float32"), np.zeros((8, 1), "float32")

    def build():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse")
        return model

    trainer = tfdist.Trainer(
        build, learning_rate=tfdist.LearningRate(0.1, 4, momentum_correction=True), steps_per_call=1
    )
    trainer.fit(x, y, global_batch_size=4, epochs=1, verbose=0)
    before = [velocity.numpy() for velocity in trainer.model.optimizer.momentums]
    trainer.fit(
        x, y, global_batch_size=8, epochs=1, initial_epoch=1, verbose=0
    )  # no update: the rate doubles
    for velocity, old in zip(trainer.model.optimizer.momentums, before, strict=True):
        np.testing.assert_allclose(velocity.numpy(), 2 * old, rtol=1e-6)


@pytest.mark.parametrize(
    ("optimizer", "text"),
    [
        ("adam", "no effect with Adam"),
        (keras.optimizers.SGD(0.1), "SGD has no momentum"),
        (tfdist.LARS(momentum=0.0), "LARS has no momentum"),
    ],
    ids=["Adam", "SGD", "LARS"],
)
def test_momentum_correction_is_refused_where_there_is_nothing_to_correct(optimizer, text):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    with pytest.raises(ConfigError, match=text):
        tfdist.Trainer(
            lambda: model,
            optimizer=optimizer,
            loss="mse",
            learning_rate=tfdist.LearningRate(0.1, momentum_correction=True),
        )


def variables(*names, value=1.0):
    found = []
    for name in names:
        with keras.name_scope(name.rpartition("/")[0]):
            found.append(keras.Variable(np.full((3,), value, "float32"), name=name.rpartition("/")[2]))
    return found


@pytest.mark.parametrize("optimizer", [tfdist.LARS, tfdist.LAMB])
class TestOptimizers:
    def test_it_survives_serialization_and_goes_on(self, optimizer):
        first = optimizer(0.1, weight_decay=0.3, exclude=["gamma$"], clipnorm=1.0)
        config = json.loads(json.dumps(keras.optimizers.serialize(first)))
        again = keras.optimizers.deserialize(config)
        assert again.get_config() == first.get_config()
        weights = variables("dense/kernel", "norm/gamma"), variables("dense/kernel", "norm/gamma")
        for made, own in zip((first, again), weights, strict=True):
            for step in range(3):
                made.apply([tf.constant([1.0, 2.0, step])] * 2, own)
        for one, other in zip(*weights, strict=True):
            assert one.numpy().tolist() == other.numpy().tolist()

    def test_weights_of_zeros_can_change(self, optimizer):
        (weight,) = variables("dense/kernel", value=0.0)
        optimizer(0.1).apply([tf.constant([1.0, 2.0, 3.0])], [weight])
        assert np.all(np.isfinite(weight.numpy()))
        assert np.all(weight.numpy() < 0)

    def test_gradients_of_zeros_are_harmless(self, optimizer):
        (weight,) = variables("dense/kernel")
        optimizer(0.1).apply([tf.zeros(3)], [weight])
        assert weight.numpy().tolist() == [1.0, 1.0, 1.0]

    def test_biases_and_normalization_are_left_out(self, optimizer):
        names = ["dense/kernel", "dense/bias", "norm/gamma", "norm/beta", "norm/scale", "bias_layer/kernel"]
        weights = variables(*names)
        made = optimizer(0.1, weight_decay=0.5)
        made.build(weights)
        assert [made.adapts(weight) for weight in weights] == [True, False, False, False, False, True]

    def test_sparse_gradients_are_those_of_the_whole_weight(self, optimizer):
        dense, sparse = (keras.Variable(np.ones((4, 2), "float32"), name="embeddings") for _ in range(2))
        rows = tf.constant([[1.0, 2.0], [3.0, 4.0], [1.0, 0.0]])
        slices = tf.IndexedSlices(rows, tf.constant([2, 0, 2]), tf.constant([4, 2]))
        for weight, gradient in ((dense, tf.convert_to_tensor(slices)), (sparse, slices)):
            made = optimizer(0.1, weight_decay=0.1)
            for _ in range(2):
                made.apply([gradient], [weight])
        np.testing.assert_allclose(sparse.numpy(), dense.numpy(), rtol=1e-6)

    @pytest.mark.parametrize(
        ("options", "text"),
        [
            ({"exclude": "bias"}, r"pass exclude=\['bias'\]"),
            ({"exclude": ["(bias"]}, r"exclude has '\(bias', which is no regular expression"),
            ({"weight_decay": -1.0}, "weight_decay must be at least 0; received -1.0"),
        ],
        ids=["text", "expression", "decay"],
    )
    def test_wrong_arguments_are_refused(self, optimizer, options, text):
        with pytest.raises(ConfigError, match=text):
            optimizer(**options)

    def test_kerass_way_to_exclude_is_refused(self, optimizer):
        with pytest.raises(ConfigError, match=r"Fix: make the optimizer with exclude="):
            optimizer().exclude_from_weight_decay(var_names=["bias"])


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: tfdist.LARS(momentum=1.0), r"momentum must be in \[0, 1\)"),
        (lambda: tfdist.LARS(nesterov=True, momentum=0.0), "nesterov=True has no effect"),
        (lambda: tfdist.LARS(trust_coefficient=0.0), "trust_coefficient must be more than 0"),
        (lambda: tfdist.LAMB(beta_2=1.0), r"beta_2 must be in \[0, 1\)"),
        (lambda: tfdist.LAMB(epsilon=0.0), "epsilon must be more than 0"),
    ],
    ids=["momentum", "nesterov", "trust_coefficient", "beta_2", "epsilon"],
)
def test_values_out_of_range_are_refused(make, text):
    with pytest.raises(ConfigError, match=text):
        make()


def test_lamb_is_that_of_keras_without_weight_decay():
    weights = variables("dense/kernel"), variables("dense/kernel")
    optimizers = tfdist.LAMB(0.1, epsilon=1e-7), keras.optimizers.Lamb(0.1)
    for made, own in zip(optimizers, weights, strict=True):
        for step in range(5):
            made.apply([tf.constant([1.0, 2.0, step])], own)
    np.testing.assert_allclose(weights[0][0].numpy(), weights[1][0].numpy(), rtol=1e-6)
