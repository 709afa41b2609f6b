"""`learning_rate=` of `tfdist.fit` and `Trainer`: what it does to a run, and what it refuses."""

import logging as python_logging

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdist
from tfdist.errors import ConfigError
from tfdist.step.keras_optimizer_private import schedule_of

ROWS = 48
X = np.random.default_rng(0).normal(size=(ROWS, 4)).astype("float32")
Y = np.tanh(X @ np.random.default_rng(1).normal(size=(4, 1))).astype("float32")


def build(optimizer=None):
    keras.utils.set_random_seed(5)
    layers = [keras.Input((4,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model.compile(optimizer or keras.optimizers.SGD(momentum=0.9), "mse")
    return model


def trained(plan, **arguments):
    arguments = {"global_batch_size": 8, "epochs": 2, "verbose": 0, "seed": 1, **arguments}
    return tfdist.fit(build, X, Y, learning_rate=plan, **arguments).model


def same(one, other, tolerance=1e-6):
    for found, right in zip(one.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_allclose(found, right, atol=tolerance)


class Rates(keras.callbacks.Callback):
    """Notes the rate of every update."""

    def __init__(self):
        super().__init__()
        self.rates = []

    def on_train_batch_begin(self, batch, logs=None):
        self.rates.append(float(self.model.optimizer.learning_rate))


@pytest.mark.parametrize("accumulate_steps", [1, 2])
def test_every_update_has_its_rate(accumulate_steps):
    plan = tfdist.LearningRate(0.05, 4, warmup_epochs=1, decay="cosine")
    rates = Rates()
    trained(plan, accumulate_steps=accumulate_steps, callbacks=[rates])
    expected = plan.values(global_batch_size=8, steps_per_epoch=6, epochs=2)
    np.testing.assert_allclose(rates.rates, expected, rtol=1e-5)


@pytest.mark.parametrize("correction", [False, True])
def test_micro_batches_are_one_batch(correction):
    plan = tfdist.LearningRate(0.05, 4, warmup_epochs=1, decay="polynomial", momentum_correction=correction)
    whole = trained(plan, global_batch_size=16)
    same(trained(plan, global_batch_size=16, accumulate_steps=4), whole)
    assert int(whole.optimizer.iterations) == 6


@pytest.mark.parametrize("correction", [False, True])
def test_two_runs_of_one_epoch_are_a_run_of_two(correction):
    plan = tfdist.LearningRate(
        0.05, 4, warmup_steps=3, decay="cosine", total_epochs=2, momentum_correction=correction
    )
    trainer = tfdist.Trainer(build, learning_rate=plan, seed=1)
    trainer.fit(X, Y, global_batch_size=8, epochs=1, verbose=0)
    trainer.fit(X, Y, global_batch_size=8, epochs=2, initial_epoch=1, verbose=0)
    same(trainer.model, trained(plan))


def test_a_second_run_follows_its_own_length():
    plan = tfdist.LearningRate(0.05, decay="polynomial")
    trainer = tfdist.Trainer(lambda: build(keras.optimizers.SGD()), learning_rate=plan, seed=1)
    rates = Rates()
    trainer.fit(X, Y, global_batch_size=8, epochs=1, verbose=0, callbacks=[rates])
    trainer.fit(X, Y, global_batch_size=8, epochs=2, initial_epoch=1, verbose=0, callbacks=[rates])
    expected = [0.05 * (1 - step / 6) for step in range(6)] + [
        0.05 * (1 - step / 12) for step in range(6, 12)
    ]
    np.testing.assert_allclose(rates.rates, expected, rtol=1e-5)
    before = trainer.model.get_weights()
    trainer.fit(X, Y, global_batch_size=8, epochs=3, initial_epoch=2, verbose=0)
    # The rate that was traced for the first run is 0 by now.
    assert not np.allclose(before[0], trainer.model.get_weights()[0], atol=1e-4)


def test_a_run_that_would_change_nothing_is_refused():
    trainer = tfdist.Trainer(build, learning_rate=tfdist.LearningRate(0.05, decay="cosine"), seed=1)
    trainer.fit(X, Y, global_batch_size=8, epochs=1, verbose=0)
    with pytest.raises(
        ConfigError, match="has done 6 updates already, and the learning rate is 0 from update 6"
    ):
        trainer.fit(X, Y, global_batch_size=8, epochs=1, verbose=0)
    trainer.model.optimizer.iterations.assign(0)
    trainer.fit(X, Y, global_batch_size=8, epochs=1, verbose=0)


def test_lengths_come_from_the_data():
    plan = tfdist.LearningRate(0.05, 4, warmup_epochs=1, decay="cosine")
    rates = Rates()
    dataset = tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)
    tfdist.fit(build, dataset, learning_rate=plan, epochs=2, verbose=0, callbacks=[rates])
    expected = plan.values(global_batch_size=8, steps_per_epoch=6, epochs=2)
    np.testing.assert_allclose(rates.rates, expected, rtol=1e-5)


def batches(count):
    for _ in range(count):
        yield X[:8], Y[:8]


def test_data_of_unknown_length_needs_steps_per_epoch():
    cosine = tfdist.LearningRate(0.05, decay="cosine")
    with pytest.raises(
        ConfigError, match=r"number of updates in an epoch, which is not known.\nFix: pass steps_per"
    ):
        tfdist.fit(build, batches(4), learning_rate=cosine, verbose=0)
    tfdist.fit(build, batches(4), learning_rate=cosine, steps_per_epoch=4, verbose=0)
    in_updates = tfdist.LearningRate(0.05, 4, warmup_steps=2, decay="cosine", total_steps=9)
    rates = Rates()
    tfdist.fit(build, batches(4), learning_rate=in_updates, verbose=0, callbacks=[rates])
    assert rates.rates[2] == pytest.approx(0.1)


def test_validation_and_evaluation_go_on_working():
    plan = tfdist.LearningRate(0.05, warmup_steps=2, decay="step", decay_at_steps=[4])
    trainer = tfdist.Trainer(build, learning_rate=plan, seed=1)
    history = trainer.fit(X, Y, global_batch_size=8, validation_data=(X, Y), verbose=0)
    assert trainer.evaluate(X, Y, verbose=0)["loss"] == pytest.approx(history.history["val_loss"][-1])


def test_a_model_compiled_again_follows_it_too():
    trainer = tfdist.Trainer(build, learning_rate=tfdist.LearningRate(0.05, decay="cosine"), seed=1)
    trainer.fit(X, Y, global_batch_size=8, epochs=1, verbose=0)
    trainer.model.compile("sgd", "mse")
    rates = Rates()
    trainer.fit(X, Y, global_batch_size=8, epochs=1, verbose=0, callbacks=[rates])
    assert rates.rates[0] == pytest.approx(0.05)


def refused(match, optimizer=None, plan=None, **fit):
    plan = plan or tfdist.LearningRate(0.1, decay="cosine")
    with pytest.raises(ConfigError, match=match) as caught:
        tfdist.fit(lambda: build(optimizer), X, Y, learning_rate=plan, verbose=0, **fit)
    assert "\nFix: " in str(caught.value)


def test_an_optimizer_with_a_schedule_is_refused():
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    refused("the optimizer has a schedule of its own, a ExponentialDecay", keras.optimizers.SGD(schedule))


def test_a_model_of_several_optimizers_is_refused():
    def build_two():
        model = build()
        model.second_optimizer = keras.optimizers.Adam()
        return model

    with pytest.raises(ConfigError, match="but Sequential has 2 optimizers"):
        tfdist.fit(build_two, X, Y, learning_rate=tfdist.LearningRate(0.1), verbose=0)


@pytest.mark.parametrize(
    "callback",
    [keras.callbacks.ReduceLROnPlateau("loss"), keras.callbacks.LearningRateScheduler(lambda epoch: 0.1)],
    ids=["ReduceLROnPlateau", "LearningRateScheduler"],
)
def test_callbacks_that_set_the_rate_are_refused(callback):
    refused(f"{type(callback).__name__} sets the learning rate", callbacks=[callback])


@pytest.mark.parametrize("plan", [0.1, {"base": 0.1}], ids=["number", "mapping"])
def test_only_a_plan_is_accepted(plan):
    refused("learning_rate must be a tfdist.LearningRate; received", plan=plan)


def test_a_run_too_short_for_its_plan_is_refused():
    plan = tfdist.LearningRate(0.1, warmup_epochs=2, decay="cosine")
    refused("4 updates of warm-up do not leave room to fall in the 2 updates", plan=plan)


@pytest.mark.parametrize(("rate", "says"), [(0.01, False), (0.1, False), (0.5, True)])
def test_a_rate_that_is_replaced_is_told(rate, says, caplog):
    with caplog.at_level(python_logging.INFO, logger="absl"):
        tfdist.Trainer(
            lambda: build(keras.optimizers.SGD(rate)), learning_rate=tfdist.LearningRate(0.1, decay="cosine")
        )
    assert ("replaces the optimizer's learning_rate of 0.5" in caplog.text) == says


def test_until_a_run_begins_the_rate_is_the_optimizers_own():
    trainer = tfdist.Trainer(lambda: build(keras.optimizers.SGD(0.5)), learning_rate=tfdist.LearningRate(0.1))
    assert float(trainer.model.optimizer.learning_rate) == pytest.approx(0.5)
    assert schedule_of(trainer.model.optimizer) is not None
