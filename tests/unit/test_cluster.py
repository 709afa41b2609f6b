import copy
import dataclasses
import json
import pickle
import socket
import threading

import pytest

from tfdist.cluster import Cluster, Task, resolve
from tfdist.cluster.reachability import probe, wait_for
from tfdist.errors import ClusterError, ConfigError


@pytest.fixture
def cluster():
    return Cluster({"ps": ["p:1"], "worker": ["a:1", "b:1"], "chief": ["c:1"], "evaluator": ["e:1"]})


def test_tasks_are_in_order_whatever_the_order_given(cluster):
    assert [str(task) for task in cluster.tasks] == ["chief:0", "worker:0", "worker:1", "ps:0", "evaluator:0"]
    assert [str(task) for task in cluster.training_tasks] == ["chief:0", "worker:0", "worker:1"]
    assert cluster.address(Task("worker", 1)) == "b:1"


def test_the_chief_is_the_first_worker_where_there_is_none(cluster):
    assert cluster.chief == Task("chief", 0)
    workers = Cluster({"worker": ["a:1", "b:1"]})
    assert workers.chief == Task("worker", 0)
    assert not workers.is_chief
    assert workers.with_task(Task("worker", 0)).is_chief
    assert not workers.with_task(Task("worker", 1)).is_chief


def test_it_cannot_be_changed(cluster):
    with pytest.raises(dataclasses.FrozenInstanceError):
        cluster.task = Task("worker", 0)
    with pytest.raises(TypeError):
        cluster.addresses["worker"] = ()
    given = {"worker": ["a:1"]}
    made = Cluster(given)
    given["worker"].append("b:1")
    assert len(made.tasks) == 1


def test_it_can_be_compared_hashed_copied_and_sent(cluster):
    other = Cluster(dict(cluster.addresses), source="elsewhere")
    assert other == cluster
    assert hash(other) == hash(cluster)
    assert pickle.loads(pickle.dumps(cluster)) == copy.deepcopy(cluster) == cluster
    assert cluster.with_task(Task("ps", 0)) != cluster


def test_tf_config_of_each_task(cluster):
    content = json.loads(cluster.tf_config(Task("worker", 1)))
    assert content["cluster"] == {"chief": ["c:1"], "worker": ["a:1", "b:1"], "ps": ["p:1"]}
    assert content["task"] == {"type": "worker", "index": 1}
    assert json.loads(cluster.tf_config(Task("evaluator")))["task"] == {"type": "evaluator", "index": 0}
    with pytest.raises(ConfigError, match="says which task"):
        cluster.tf_config()
    with pytest.raises(ConfigError, match="there is no worker:2"):
        cluster.tf_config(Task("worker", 2))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Cluster({"wroker": ["a:1"]}), "Cluster: wroker: 'wroker' is not a type"),
        (lambda: Cluster({"worker": "a:1"}), "worker: 'a:1' is not a list"),
        (lambda: Cluster({"worker": ["grpc://a:1"]}), "worker\\[0\\]: 'grpc://a:1' has a scheme"),
        (
            lambda: Cluster({"worker": ["a:1"]}, Task("worker", 1)),
            "there is no worker:1; the cluster has worker:0",
        ),
        (lambda: Cluster({"worker": ["a:1"]}, Task("ps", 0)), "there is no ps:0"),
        (lambda: Cluster({}), "no chief and no worker"),
        (lambda: Task("wroker", 0), "did you mean worker"),
        (lambda: Task("master", 0), "did you mean chief"),
        (lambda: Task("worker", -1), "index of a task is -1"),
        (lambda: Task("worker", True), "index of a task is True"),
        (lambda: Task.parse("worker:x"), "'worker:x' is not a task"),
        (lambda: Cluster.local(workers=-1), "Cluster.local: workers: -1 is not a whole number"),
        (lambda: Cluster.local(), "no worker and no chief"),
        (lambda: Cluster.local(ps=1, chief=False), "no worker and no chief"),
        (lambda: Cluster.from_mapping({"local": {"wokers": 2}}), "did you mean workers"),
        (lambda: Cluster.from_mapping({"local": {}, "worker": ["a:1"]}), "local stands beside worker"),
    ],
)
def test_mistakes(make, words):
    with pytest.raises(ConfigError, match=words) as caught:
        make()
    assert caught.value.fix


def test_tasks_from_text():
    assert Task.parse("worker:12") == Task("worker", 12)
    assert Task.parse("chief") == Task("chief", 0)
    assert str(Task("ps", 3)) == "ps:3"


def test_local_gives_different_free_ports():
    cluster = Cluster.local(workers=30, ps=10, evaluator=True)
    assert [len(cluster.addresses[each]) for each in ("chief", "worker", "ps", "evaluator")] == [1, 30, 10, 1]
    ports = [int(cluster.address(task).rpartition(":")[2]) for task in cluster.tasks]
    assert len(set(ports)) == 42
    for port in ports:
        with socket.create_server(("127.0.0.1", port)):
            pass


def test_local_has_a_chief_only_with_parameter_servers_unless_told():
    assert "chief" not in Cluster.local(workers=2).addresses
    assert "chief" in Cluster.local(workers=2, ps=1).addresses
    assert "chief" in Cluster.local(workers=1, chief=True).addresses
    assert "chief" not in Cluster.local(workers=1, ps=1, chief=False).addresses


def test_from_yaml(tmp_path):
    file = tmp_path / "my.yaml"
    file.write_text("train: {}\n\ncluster:\n  worker: [a:1, b:1]\n")
    cluster = Cluster.from_yaml(file, Task("worker", 1))
    assert cluster == Cluster({"worker": ["a:1", "b:1"]}, Task("worker", 1))
    assert cluster.source == f"{file}:3"
    file.write_text("cluster: {local: {workers: 2}}\n")
    assert len(Cluster.from_yaml(file).tasks) == 2
    file.write_text("cluster:\n  worker:\n    - a:1\n    - b:0\n")
    with pytest.raises(ConfigError, match=f"^{file}:4: cluster.worker\\[1\\]: 'b:0' has the port 0"):
        Cluster.from_yaml(file)
    file.write_text("train: {}\n")
    with pytest.raises(ConfigError, match="there is no key `cluster`"):
        Cluster.from_yaml(file)


def resolved(section, tf_config=None):
    environ = {} if tf_config is None else {"TF_CONFIG": json.dumps(tf_config)}
    return resolve(section, lambda path: "my.yaml:3", environ)


def test_yaml_and_environment_together():
    hosts = {"worker": ["a:1", "b:1"]}
    second = {"type": "worker", "index": 1}
    assert resolved(None) is None
    assert resolved(None, {"cluster": hosts, "task": second}).source == "TF_CONFIG"
    assert resolved(hosts).task is None
    assert resolved({"worker": ["a:1"]}).task == Task("worker", 0)
    for tf_config in ({"cluster": hosts, "task": second}, {"task": second}):
        found = resolved(hosts, tf_config)
        assert found.task == Task("worker", 1)
        assert found.source == "my.yaml:3, task from TF_CONFIG"
    local = {"local": {"workers": 2}}
    assert resolved(local).task is None
    started = resolved(local, {"cluster": hosts, "task": second})
    assert started == Cluster(hosts, Task("worker", 1))


def test_yaml_and_environment_that_contradict_each_other():
    other = {"cluster": {"worker": ["x:1", "y:1", "z:1"]}, "task": {"type": "worker", "index": 0}}
    for section in ({"worker": ["a:1", "b:1"]}, {"local": {"workers": 2}}):
        with pytest.raises(ConfigError, match="TF_CONFIG in the environment has worker x:1 y:1 z:1"):
            resolved(section, other)


def test_wait_for_returns_when_the_last_task_answers():
    cluster = Cluster.local(workers=2)
    first, second = cluster.tasks
    late = socket.socket()
    with socket.create_server(("127.0.0.1", int(cluster.address(first).rpartition(":")[2]))), late:
        waiting = threading.Thread(
            target=wait_for, args=({task: cluster.address(task) for task in cluster.tasks}, 30.0)
        )
        waiting.start()
        waiting.join(0.5)
        assert waiting.is_alive()
        late.bind(("127.0.0.1", int(cluster.address(second).rpartition(":")[2])))
        late.listen()
        waiting.join(30)
        assert not waiting.is_alive()


def test_wait_for_names_every_missing_task_its_address_and_the_seconds():
    cluster = Cluster.local(workers=3)
    first, second, third = cluster.tasks
    addresses = {task: cluster.address(task) for task in (first, second)} | {third: "nowhere.invalid:1"}
    with (
        socket.create_server(("127.0.0.1", int(cluster.address(first).rpartition(":")[2]))),
        pytest.raises(ClusterError) as caught,
    ):
        wait_for(addresses, 0.5)
    assert caught.value.exit_code == 3
    text = str(caught.value)
    assert "2 tasks of 3 did not answer within 0.5 s" in text
    assert f"worker:1 at {cluster.address(second)}: connection refused" in text
    assert "worker:2 at nowhere.invalid:1: " in text
    assert "worker:0" not in text
    assert "Fix: start worker:1, worker:2" in text


def test_probe_of_nothing_is_done_at_once():
    assert probe({}, 1000.0) == {}
