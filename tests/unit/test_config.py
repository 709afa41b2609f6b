import json
import os

import pytest
from example_yaml import SMALL, WHOLE
from tfdist.strategies.registry import kinds

from tfdist.cluster import Task
from tfdist.config import json_schema, load
from tfdist.errors import ConfigError


def test_a_whole_file(write):
    config = load(write(WHOLE), kinds=kinds())
    assert config.strategy.kind == "multi_worker_mirrored"
    assert config.strategy.communication == "ring"
    assert isinstance(config.strategy, kinds()["multi_worker_mirrored"].options)
    assert config.model.args == {"hidden": 128}
    assert config.train.optimizer.name == "adamw"
    assert config.train.optimizer.arguments == {"learning_rate": 0.001}
    assert config.train.loss == {"digit": "mse", "other": "mae"}
    assert config.train.clip_global_norm == 1.0
    assert config.launch.startup_timeout == 5.0
    assert config.where("train", "optimizer") == "run.yaml:8: train.optimizer"


def test_the_smallest_file_has_defaults(write):
    config = load(write(SMALL), kinds=kinds())
    assert config.strategy.kind == "one_device"
    assert config.cluster is None
    assert config.train.optimizer is None
    assert config.train.epochs == 1
    assert config.train.metrics == []
    assert config.launch.startup_timeout == 60.0


def test_an_optimizer_by_name(write):
    config = load(write(SMALL + "train: {optimizer: adam}\n"), kinds=kinds())
    assert config.train.optimizer.name == "adam"
    assert config.train.optimizer.arguments == {}


def test_what_is_written_out_can_be_read_again(write):
    config = load(write(WHOLE), kinds=kinds())
    dumped = config.model_dump(mode="json")
    assert dumped["train"]["optimizer"] == {"name": "adamw", "learning_rate": 0.001}
    again = load(write(json.dumps(dumped)), kinds=kinds())  # JSON is YAML
    assert again.model_dump() == config.model_dump()


def test_it_cannot_be_changed(write):
    config = load(write(SMALL), kinds=kinds())
    with pytest.raises(ValueError, match="frozen"):
        config.train.epochs = 3


def test_set_replaces_adds_and_goes_into_lists(write):
    config = load(
        write(WHOLE),
        [
            "train.epochs=20",
            "train.optimizer.weight_decay=1e-2",
            "train.metrics=[a, b]",
            "train.metrics[1]=c",
            "train.metrics.0=z",
            "model.args.deep.er=no",
            "launch.startup_timeout=9",
            "train.clip_global_norm=",
            "strategy={kind: multi_worker_mirrored}",
        ],
        kinds=kinds(),
    )
    assert config.train.epochs == 20
    assert config.train.optimizer.arguments == {"learning_rate": 0.001, "weight_decay": 0.01}
    assert config.train.metrics == ["z", "c"]
    assert config.model.args == {"hidden": 128, "deep": {"er": False}}
    assert config.launch.startup_timeout == 9.0
    assert config.train.clip_global_norm is None
    assert config.strategy.communication == "auto"
    assert config.where("train", "epochs") == "--set train.epochs=20: train.epochs"
    assert config.where("train", "seed") == "run.yaml:14: train.seed"


def test_set_makes_sections_that_are_not_there(write):
    assert load(write(SMALL), ["train.epochs=3"], kinds=kinds()).train.epochs == 3


def test_the_cluster_of_the_file_and_the_environment(write):
    path = write(WHOLE)
    config = load(path, kinds=kinds())
    cluster = config.resolve_cluster({})
    assert cluster.task is None
    assert len(cluster.tasks) == 2
    assert cluster.source == "run.yaml:2"
    started = {"TF_CONFIG": cluster.tf_config(Task("worker", 1))}
    assert load(path, kinds=kinds(), environ=started).resolve_cluster(started) == cluster.with_task(
        Task("worker", 1)
    )
    assert load(write(SMALL), kinds=kinds()).resolve_cluster({}) is None


def test_a_list_of_addresses_needs_to_know_the_task(write):
    text = WHOLE.replace("{local: {workers: 2}}", "{worker: [a:1, b:1]}")
    config = load(write(text), kinds=kinds())
    with pytest.raises(ConfigError, match=r"^run.yaml:2: cluster: .*nothing says which") as caught:
        config.resolve_cluster({})
    assert (
        'TF_CONFIG="$(tfdist cluster tf-config run.yaml --task worker:0)" tfdist fit run.yaml'
        in caught.value.fix
    )
    environ = {"TF_CONFIG": '{"task": {"type": "worker", "index": 1}}'}
    assert config.resolve_cluster(environ).task == Task("worker", 1)


def test_the_schema_tells_the_kinds_apart_and_describes_every_key():
    schema = json_schema(kinds())
    assert set(schema["properties"]["strategy"]["discriminator"]["mapping"]) == set(kinds())
    assert schema["required"] == ["model", "data"]
    for name, definition in schema["$defs"].items():
        assert definition.get("description") or name == "Optimizer"
        for key, value in definition.get("properties", {}).items():
            assert value.get("description"), f"{name}.{key}"
    json.dumps(schema)


@pytest.mark.parametrize("count", [1, 2])
def test_any_number_of_kinds(write, count):
    some = dict(list(kinds().items())[:count])
    name = next(iter(some))
    assert load(write(SMALL + f"strategy: {{kind: {name}}}\n"), kinds=some, environ={}).strategy.kind == name
    with pytest.raises(ConfigError, match=r"run.yaml:3: strategy.kind: 'other' is not one of"):
        load(write(SMALL + "strategy: {kind: other}\n"), kinds=some)


def test_the_configurations_that_come_with_it_are_right(monkeypatch):
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    monkeypatch.chdir(root)
    files = [name for name in os.listdir("configs") if name.startswith("digits_") and name.endswith(".yaml")]
    for name in files:
        load(os.path.join("configs", name), kinds=kinds(), environ={})
