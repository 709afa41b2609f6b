"""The plan as a Keras schedule: the same rates, saved and loaded with a model, with and without tfdist."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdist
from tfdist.step.schedule import PlannedSchedule, as_schedule

schedules = keras.optimizers.schedules
STEPS, EPOCHS = 20, 6
RUN = {"global_batch_size": 64, "steps_per_epoch": STEPS, "epochs": EPOCHS}
GRADUAL = {"base_batch_size": 16, "warmup_epochs": 1.5}
FROM_ZERO = {"warmup_epochs": 1}
DECAYS = {
    "constant": {},
    "step": {"decay": "step", "decay_at_epochs": [2, 4, 4.01], "decay_rate": 0.3},
    "polynomial": {"decay": "polynomial", "power": 2, "end": 0.001},
    "cosine": {"decay": "cosine", "end": 0.002},
    "cosine to zero": {"decay": "cosine"},
    "warmup_stable_decay": {"decay": "warmup_stable_decay", "decay_epochs": 2, "power": 0.5},
}
PLANS = {
    f"{name}, {kind}": tfdist.LearningRate(0.1, **warmup, **decay)
    for kind, warmup in {"no warm-up": {}, "gradual": GRADUAL, "from zero": FROM_ZERO}.items()
    for name, decay in DECAYS.items()
}
# What Keras has no class for.
OURS = {
    f"{name}, {kind}"
    for name in ("step", "polynomial", "warmup_stable_decay")
    for kind in ("gradual", "from zero", "no warm-up")
    if name == "warmup_stable_decay" or kind != "no warm-up"
}


def rates(schedule, count=STEPS * EPOCHS):
    """Asks a schedule as an optimizer in a graph does."""
    function = tf.function(schedule, input_signature=[tf.TensorSpec([], tf.int64)])
    return np.array([function(tf.constant(step, tf.int64)) for step in range(count)])


@pytest.mark.parametrize("name", PLANS)
def test_a_schedule_gives_the_values_of_its_plan(name):
    schedule = PLANS[name].resolve(**RUN)
    found = rates(schedule)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, PLANS[name].values(**RUN), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", PLANS)
def test_ours_gives_the_same_as_kerass_own(name):
    curve = PLANS[name].curve(**RUN)
    ours = PlannedSchedule(**vars(curve))
    np.testing.assert_allclose(rates(ours), PLANS[name].values(**RUN), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", PLANS)
def test_it_survives_serialization(name):
    schedule = PLANS[name].resolve(**RUN)
    config = json.loads(json.dumps(schedules.serialize(schedule)))
    assert (config["module"] == "keras.optimizers.schedules") == (name not in OURS)
    again = schedules.deserialize(config)
    assert type(again) is type(schedule)
    assert rates(again).tolist() == rates(schedule).tolist()


def test_a_momentum_correction_is_saved_with_it():
    curve = PLANS["cosine, gradual"].curve(**RUN)
    schedule = as_schedule(curve, momentum_correction=True)
    again = schedules.deserialize(schedules.serialize(schedule))
    assert again.momentum_correction is True
    assert again.curve == curve


def fitted(plan, optimizer="sgd", epochs=2, **fit):
    x = np.linspace(0, 1, 32, dtype="float32").reshape(16, 2)
    return tfdist.fit(
        lambda: keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]),
        x,
        x.sum(axis=1, keepdims=True),
        optimizer=optimizer,
        loss="mse",
        learning_rate=plan,
        global_batch_size=4,
        epochs=epochs,
        verbose=0,
        **fit,
    ).model


LOAD = """
import sys, json, keras
{before}
model = keras.models.load_model(sys.argv[1])
print("RESULT", json.dumps([float(model.optimizer.learning_rate), int(model.optimizer.iterations.numpy())]))
"""


def load(path, before=""):
    """Loads a model in a process of its own."""
    command = [sys.executable, "-c", LOAD.format(before=before), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    results = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    return json.loads(results[0].removeprefix("RESULT ")) if results else done.stderr


WITHOUT_TFDIST = "sys.modules['tfdist'] = None"


def test_a_finished_model_loads_without_tfdist(tmp_path):
    plan = tfdist.LearningRate(0.1, warmup_steps=3, decay="step", decay_at_steps=[6])
    fitted(plan).save(tmp_path / "model.keras")
    assert load(tmp_path / "model.keras", WITHOUT_TFDIST) == [pytest.approx(0.01), 8]


def test_an_unfinished_model_loads_with_tfdist(tmp_path):
    plan = tfdist.LearningRate(0.1, warmup_steps=3, decay="step", decay_at_steps=[6])
    checkpoint = keras.callbacks.ModelCheckpoint(str(tmp_path / "model-{epoch}.keras"))
    fitted(plan, tfdist.LARS(weight_decay=0.1), callbacks=[checkpoint])
    assert load(tmp_path / "model-1.keras", "import tfdist") == [pytest.approx(0.1), 4]
    assert "Could not locate class 'LARS'" in load(tmp_path / "model-1.keras", WITHOUT_TFDIST)


def test_a_loaded_model_goes_on_as_if_it_had_never_stopped(tmp_path):
    plan = tfdist.LearningRate(0.1, warmup_steps=3, decay="polynomial", total_epochs=4)
    keras.utils.set_random_seed(1)
    whole = fitted(plan, keras.optimizers.SGD(momentum=0.9), epochs=4, seed=1)
    keras.utils.set_random_seed(1)
    fitted(plan, keras.optimizers.SGD(momentum=0.9), epochs=2, seed=1).save(tmp_path / "half.keras")
    x = np.linspace(0, 1, 32, dtype="float32").reshape(16, 2)
    rest = tfdist.fit(
        lambda: keras.models.load_model(tmp_path / "half.keras"),
        x,
        x.sum(axis=1, keepdims=True),
        learning_rate=plan,
        global_batch_size=4,
        epochs=4,
        initial_epoch=2,
        seed=1,
        verbose=0,
    ).model
    for found, expected in zip(rest.get_weights(), whole.get_weights(), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)
    assert int(rest.optimizer.iterations) == 16
