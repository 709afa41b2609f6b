import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfdist.cluster import Cluster, Task, tf_config
from tfdist.errors import ConfigError

# What Kubeflow's training operator really wrote.
KUBEFLOW_MASTER = (
    '{"cluster": {"master": ["train-master-0.ml.svc:2222"], "worker": ["train-worker-0.ml.svc:2222"]}, '
    '"task": {"type": "master", "index": 0}, "environment": "cloud"}'
)
KUBEFLOW_WORKER = (
    '{"cluster": {"chief": ["train-chief-0.ml.svc:2222"], "worker": ["train-worker-0.ml.svc:2222", '
    '"train-worker-1.ml.svc:2222"], "ps": ["train-ps-0.ml.svc:2222"], "evaluator": '
    '["train-evaluator-0.ml.svc:2222"]}, "task": {"type": "worker", "index": 1}, "environment": "cloud"}'
)

TWO = {"worker": ["a:1", "b:2"]}
FIRST = {"type": "worker", "index": 0}


@pytest.fixture(autouse=True)
def say_everything_again():
    tf_config._say.cache_clear()


def read(cluster, task=FIRST, **more):
    return Cluster.from_tf_config(json.dumps({"cluster": cluster, "task": task, **more}))


def test_kubeflow_worker_beside_an_evaluator(caplog):
    cluster = Cluster.from_tf_config(KUBEFLOW_WORKER)
    assert cluster.task == Task("worker", 1)
    assert cluster.address(Task("evaluator", 0)) == "train-evaluator-0.ml.svc:2222"
    assert list(json.loads(cluster.tf_config())["cluster"]) == ["chief", "worker", "ps"]
    assert cluster.source == "TF_CONFIG"
    (line,) = caplog.messages
    assert "evaluator" in line


def test_kubeflow_master_is_the_chief(caplog):
    cluster = Cluster.from_tf_config(KUBEFLOW_MASTER)
    assert cluster.task == Task("chief", 0)
    assert cluster.is_chief
    assert json.loads(cluster.tf_config())["cluster"]["chief"] == ["train-master-0.ml.svc:2222"]
    (line,) = caplog.messages
    assert "'master', read as chief" in line


@pytest.mark.parametrize(
    ("cluster", "task", "addresses", "as_task", "logged"),
    [
        ({"Worker": ["a:1"]}, FIRST, {"worker": ("a:1",)}, Task("worker", 0), "'Worker', read as worker"),
        (
            {"workers": ["a:1"]},
            {"type": "workers", "index": 0},
            {"worker": ("a:1",)},
            Task("worker", 0),
            "'workers', read as worker",
        ),
        (TWO, {"type": "worker", "index": "1"}, {"worker": ("a:1", "b:2")}, Task("worker", 1), "'1' as text"),
        (TWO, {"index": 1}, {"worker": ("a:1", "b:2")}, Task("worker", 1), "no task.type"),
        (
            {"chief": ["a:1"], "worker": ["b:1"]},
            {"type": "chief"},
            {"chief": ("a:1",), "worker": ("b:1",)},
            Task("chief", 0),
            "no task.index",
        ),
        ({"worker": ["a:1"]}, None, {"worker": ("a:1",)}, Task("worker", 0), "no key `task`"),
        ({"worker": "a:1"}, FIRST, {"worker": ("a:1",)}, Task("worker", 0), "as text"),
        ({"worker": "a:1, b:1"}, FIRST, {"worker": ("a:1", "b:1")}, Task("worker", 0), "as text"),
        (
            {"worker": ["grpc://a:1"]},
            FIRST,
            {"worker": ("a:1",)},
            Task("worker", 0),
            "'grpc://a:1', read as a:1",
        ),
        ({"worker": [" a:1"]}, FIRST, {"worker": ("a:1",)}, Task("worker", 0), "read as a:1"),
        ({"worker": {"1": "b:1", "0": "a:1"}}, FIRST, {"worker": ("a:1", "b:1")}, Task("worker", 0), ""),
        ({"worker": ["[::1]:5"], "ps": []}, FIRST, {"worker": ("[::1]:5",)}, Task("worker", 0), ""),
        (
            {"worker": ["a:1"]},
            {"type": "evaluator", "index": 0},
            {"worker": ("a:1",)},
            Task("evaluator", 0),
            "",
        ),
    ],
)
def test_what_is_plainly_meant_is_read_with_a_line_in_the_log(
    caplog, cluster, task, addresses, as_task, logged
):
    found = read(cluster, task)
    assert dict(found.addresses) == addresses
    assert found.task == as_task
    assert logged in "\n".join(caplog.messages)
    assert bool(logged) == bool(caplog.messages)
    caplog.clear()
    read(cluster, task)
    assert not caplog.messages, "said once, however often it is read"


@pytest.mark.parametrize(
    ("text", "words", "fix"),
    [
        ("{'cluster': {}}", "not valid JSON", "double quotes"),
        ('{"cluster": ', "not valid JSON", "write it as JSON"),
        ('"{}"', "'{}', not a JSON object", "quotes twice"),
        ("[1]", "[1], not a JSON object", "write an object"),
        ("", "no key `cluster`", "unset TF_CONFIG"),
        ("{}", "no key `cluster`", "unset TF_CONFIG"),
        ('{"environment": "cloud"}', "no key `cluster`", "unset TF_CONFIG"),
        (json.dumps({"task": FIRST}), "has a task (worker:0) but has no key `cluster`", "unset TF_CONFIG"),
        (json.dumps({"clusters": TWO, "task": FIRST}), "clusters: unknown key", "rename it to cluster"),
        (json.dumps({"cluster": TWO}), "no key `task`", '"index": 0'),
        ('{"cluster": {"worker": ["a:1"], "worker": ["b:1"]}}', "'worker' twice", "keep one"),
    ],
)
def test_text_that_is_no_whole_tf_config(text, words, fix):
    with pytest.raises(ConfigError) as caught:
        Cluster.from_tf_config(text)
    assert caught.value.problem.startswith("TF_CONFIG")
    assert words in caught.value.problem
    assert fix in caught.value.fix
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("cluster", "task", "words", "fix"),
    [
        (TWO, {"type": "worker"}, "no task.index in {'type': 'worker'}", '"index": 0'),
        ({"chief": ["a:1"], "worker": ["b:1"]}, {"index": 0}, "no task.type in {'index': 0}", '"type"'),
        (TWO, {"type": "worker", "index": 2}, "task.index: 2 is out of range", "from 0 to 1"),
        (TWO, {"type": "worker", "index": "one"}, "task.index: 'one' is not a whole number", '"index": 0'),
        (TWO, {"type": "worker", "index": -1}, "task.index: -1 is not a whole number", '"index": 0'),
        (TWO, {"type": "worker", "index": True}, "task.index: True is not a whole number", '"index": 0'),
        (TWO, {"type": "worker", "index": 0.5}, "task.index: 0.5 is not a whole number", '"index": 0'),
        (TWO, {"type": "wroker", "index": 0}, "task.type: 'wroker' is not a type of task", "mean worker?"),
        (TWO, {"type": 3, "index": 0}, "task.type: 3 is not a type of task", "use one of chief"),
        (TWO, {"type": "ps", "index": 0}, "ps:0, but `cluster` lists no ps", "add the ps"),
        (TWO, "worker:0", "task: 'worker:0' is not an object", '"type": "worker"'),
        ({"wroker": ["a:1"]}, FIRST, "cluster.wroker: 'wroker' is not a type of task", "mean worker?"),
        ({"master": ["a:1"], "chief": ["b:1"]}, FIRST, "master and chief are two names", "keep one"),
        ({"worker": ["a:1"], "workers": ["b:1"]}, FIRST, "worker and workers are two names", "keep one"),
        (
            {"worker": ["a:1", "b:1", "A:1"]},
            FIRST,
            "worker[2]: 'A:1' is the address of worker:0",
            "worker:2 another",
        ),
        (
            {"worker": ["a:1"], "ps": ["a:1"]},
            FIRST,
            "cluster.ps[0]: 'a:1' is the address of worker:0",
            "ps:0",
        ),
        ({"worker": ["a:0"]}, FIRST, "cluster.worker[0]: 'a:0' has the port 0", "a:2222"),
        ({"worker": ["a"]}, FIRST, "cluster.worker[0]: 'a' has no port", "a:2222"),
        ({"worker": ["[::1]"]}, FIRST, "'[::1]' has no port", "[::1]:2222"),
        ({"worker": ["::1:3"]}, FIRST, "'::1:3' has no brackets", "[host]:port"),
        ({"worker": ["a:99999"]}, FIRST, "'a:99999' has the port 99999", "a:2222"),
        ({"worker": ["a:http"]}, FIRST, "'a:http' has the port 'http'", "a:2222"),
        ({"worker": ["http://a:1"]}, FIRST, "'http://a:1' has a scheme", "write a:1"),
        ({"worker": ["a b:1"]}, FIRST, "'a b:1' has the host 'a b'", "host:1"),
        ({"worker": ["10.0.0.256:1"]}, FIRST, "the host '10.0.0.256'", "host:1"),
        ({"worker": [3]}, FIRST, "cluster.worker[0]: 3 is not an address", "host:port"),
        ({"worker": 3}, FIRST, "cluster.worker: 3 is not a list", "host1:2222"),
        (
            {"worker": ["localhost:1", "b:1"]},
            FIRST,
            "worker[0]: 'localhost:1' means this machine",
            "worker:0",
        ),
        (
            {"worker": ["a:1", "127.0.0.1:1"]},
            FIRST,
            "worker[1]: '127.0.0.1:1' means this machine",
            "worker:1",
        ),
        ({"worker": ["a:1"], "ps": ["0.0.0.0:1"]}, FIRST, "ps[0]: '0.0.0.0:1' means this machine", "ps:0"),
        ({"chief": ["a:1", "b:1"]}, {"type": "chief", "index": 0}, "at most one chief", "move the others"),
        ({"ps": ["a:1"]}, {"type": "ps", "index": 0}, "no chief and no worker", "add worker"),
        (
            {"worker": {"1": "b:1"}},
            {"type": "worker", "index": 1},
            "leaves out worker 0",
            "enableDynamicWorker",
        ),
        (["a:1"], FIRST, "cluster: ['a:1'] is not an object", '"worker"'),
    ],
)
def test_what_cannot_work_is_refused_with_the_value_and_the_fix(cluster, task, words, fix):
    with pytest.raises(ConfigError) as caught:
        read(cluster, task)
    assert caught.value.problem.startswith("TF_CONFIG: ")
    assert words in caught.value.problem
    assert fix in caught.value.fix


def test_several_mistakes_are_told_at_once():
    with pytest.raises(ConfigError) as caught:
        read({"worker": ["a:0", "b"]}, {"type": "worker", "index": -1})
    assert str(caught.value).count("Fix: ") == 3


def test_another_rpc_layer_is_not_ignored():
    assert read(TWO, rpc_layer="grpc").task == Task("worker", 0)
    with pytest.raises(ConfigError, match="'grpc\\+verbs' is not supported"):
        read(TWO, rpc_layer="grpc+verbs")


def test_from_the_environment(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", KUBEFLOW_MASTER)
    assert Cluster.from_tf_config().task == Task("chief", 0)
    monkeypatch.delenv("TF_CONFIG")
    with pytest.raises(ConfigError, match="TF_CONFIG is not set"):
        Cluster.from_tf_config()


@pytest.mark.parametrize("text", ["", "{}", '{"environment": "cloud"}', '{"cluster": {}, "task": {}}'])
def test_discovery_trains_alone_where_no_cluster_is_described(caplog, text):
    assert Cluster.discover({"TF_CONFIG": text}) is None
    assert "trains alone" in caplog.text


def test_discovery_without_the_variable_says_nothing(caplog):
    caplog.set_level(logging.INFO)
    assert Cluster.discover({}) is None
    assert not caplog.messages


def test_discovery_does_not_train_alone_when_only_the_cluster_is_missing():
    with pytest.raises(ConfigError, match="train alone without saying so"):
        Cluster.discover({"TF_CONFIG": json.dumps({"task": FIRST})})


@st.composite
def clusters(draw):
    """Any cluster that can work, seen from any of its tasks."""
    host = st.from_regex(
        r"[a-z][a-z0-9-]{0,8}[a-z0-9](\.[a-z]{2,5})?|10\.0\.[1-9]\.[1-9]|\[fd00::[1-9]\]", fullmatch=True
    )
    address = st.builds("{}:{}".format, host, st.integers(1, 65535))
    chief, ps, evaluator = draw(st.booleans()), draw(st.integers(0, 3)), draw(st.booleans())
    workers = draw(st.integers(0 if chief else 1, 4))
    count = chief + workers + ps + evaluator
    hosts = draw(st.lists(address, min_size=count, max_size=count, unique_by=str.casefold))
    addresses = {
        "chief": hosts[: int(chief)],
        "worker": hosts[int(chief) : chief + workers],
        "ps": hosts[chief + workers : chief + workers + ps],
        "evaluator": hosts[chief + workers + ps :],
    }
    cluster = Cluster(addresses)
    return cluster.with_task(draw(st.sampled_from(cluster.tasks)))


@given(clusters())
def test_writing_and_reading_gives_the_same_cluster(cluster):
    text = cluster.tf_config()
    assert Cluster.from_tf_config(text) == cluster
    assert Cluster.from_tf_config(text).tf_config() == text
    assert "evaluator" not in json.loads(text)["cluster"]


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), st.lists))
def test_whatever_is_in_it_gives_a_cluster_or_an_error_of_ours(value):
    for content in ({"cluster": value, "task": value}, {"cluster": {"worker": value}, "task": FIRST}, value):
        error = None
        try:
            Cluster.from_tf_config(json.dumps(content))
        except ConfigError as caught:
            error = str(caught)
        assert error is None or (error.startswith("TF_CONFIG") and "\nFix: " in error)
