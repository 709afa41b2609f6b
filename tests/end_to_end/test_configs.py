"""The configs that train as they are: each kind, from the YAML file to a model that plain Keras loads."""

import json
from pathlib import Path

import pytest

from tests.end_to_end.command import run

TASKS = {
    "digits_one_device": [],
    "digits_mirrored": [],
    "digits_large_batch": [],
    "digits_multi_worker": ["worker-0", "worker-1"],
    "digits_parameter_server": ["chief-0", "ps-0", "worker-0", "worker-1"],
}
BATCHES = {"digits_large_batch": 512}  # the others have 64
UPDATES = {"digits_large_batch": 40 * 3, "digits_parameter_server": 20 * 23}  # the others 15 * 23


@pytest.mark.parametrize("config", TASKS)
def test_trains_and_leaves_a_plain_model(config: str, tmp_path: Path) -> None:
    code, output = run("fit", f"configs/{config}.yaml", "--workdir", tmp_path)
    assert code == 0, output
    history = json.loads((tmp_path / "history.json").read_text())
    assert history["val_accuracy"][-1] >= 0.97

    import keras

    from tfdist.examples import digits

    model = keras.models.load_model(tmp_path / "model.keras")
    assert model.distribute_strategy.num_replicas_in_sync == 1
    loss, accuracy = model.evaluate(*digits.load()["validation"], verbose=0)
    assert accuracy == pytest.approx(history["val_accuracy"][-1], abs=1e-6)
    assert loss == pytest.approx(history["val_loss"][-1], abs=1e-5)

    described = json.loads((tmp_path / "run.json").read_text())
    assert described["config"]["train"]["global_batch_size"] == BATCHES.get(config, 64)
    assert described["seed"] == 7
    assert {"tfdist", "tensorflow", "keras", "python"} <= set(described["versions"])
    logs = sorted(path.stem.removeprefix("log-") for path in tmp_path.glob("log-*.txt"))
    assert logs == TASKS[config]
    assert int(model.optimizer.iterations.numpy()) == UPDATES.get(config, 15 * 23)


def test_a_run_repeats_with_its_seed(tmp_path: Path) -> None:
    histories = []
    for name in ("first", "second"):
        code, output = run(
            "fit",
            "configs/digits_mirrored.yaml",
            "--set",
            "train.epochs=2",
            "--set",
            "model.args.dropout=0.2",
            "--workdir",
            tmp_path / name,
        )
        assert code == 0, output
        histories.append(json.loads((tmp_path / name / "history.json").read_text()))
    assert histories[0] == histories[1]
