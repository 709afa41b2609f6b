"""Every kind of bad YAML: file, line, key, what was received, and the fix."""

import json

import pytest
from bad_data_sections import DATA_CASES
from example_yaml import SMALL, WHOLE
from tfdist.strategies.registry import kinds

from tfdist.config import load
from tfdist.errors import ConfigError


def changed(before, after):
    assert before in WHOLE
    return WHOLE.replace(before, after)


CASES = {
    **DATA_CASES,
    "unknown key": (
        changed("global_batch_size", "global_batchsize"),
        6,
        "train.global_batchsize",
        "(received 64)",
        "mean global_batch_size?",
    ),
    "unknown section": (SMALL + "lunch: {}\n", 3, "lunch", "(received {})", "mean launch?"),
    "key in the wrong section": (SMALL + "epochs: 3\n", 3, "epochs", "(received 3)", "mean train.epochs?"),
    "key of another tool": (
        changed("seed: 7", "lr: 1"),
        14,
        "train.lr",
        "(received 1)",
        "optimizer: {name: adam, learning_rate",
    ),
    "unknown option of the kind": (
        changed("communication", "comunication"),
        1,
        "strategy.comunication",
        "(received 'ring')",
        "mean communication?",
    ),
    "option of another kind": (
        SMALL + "strategy: {kind: mirrored, communication: ring}\n",
        3,
        "strategy.communication",
        "kind mirrored has kind, devices",
        "option of multi_worker_mirrored",
    ),
    "unknown kind": (
        changed("kind: multi_worker_mirrored", "kind: multiworker_mirrored"),
        1,
        "strategy.kind",
        "'multiworker_mirrored'",
        "mean multi_worker_mirrored?",
    ),
    "no kind": (
        changed("kind: multi_worker_mirrored, ", ""),
        1,
        "strategy.kind",
        "missing",
        "add, say, kind:",
    ),
    "kind alone": (
        SMALL + "strategy: mirrored\n",
        3,
        "strategy",
        "'mirrored' is not a mapping",
        "strategy: {kind: mirrored}",
    ),
    "option out of choices": (
        changed("communication: ring", "communication: rung"),
        1,
        "strategy.communication",
        "'rung' is not one of auto, ring, nccl",
        "mean ring?",
    ),
    "text for a number": (
        changed("epochs: 10", "epochs: ten"),
        7,
        "train.epochs",
        "'ten' is not a whole number",
        "epochs: 10",
    ),
    "number in quotes": (
        changed("epochs: 10", 'epochs: "10"'),
        7,
        "train.epochs",
        "'10' is text",
        "without quotes",
    ),
    "fraction": (
        changed("epochs: 10", "epochs: 1.5"),
        7,
        "train.epochs",
        "1.5 is not a whole number",
        "epochs: 10",
    ),
    "true for a number": (
        changed("epochs: 10", "epochs: yes"),
        7,
        "train.epochs",
        "True is not a whole number",
        "epochs: 10",
    ),
    "no value": (changed("epochs: 10", "epochs:"), 7, "train.epochs", "no value", "epochs: 10"),
    "negative number": (
        changed("epochs: 10", "epochs: -1"),
        7,
        "train.epochs",
        "-1 is out of range; it has to be more than 0",
        "epochs: 10",
    ),
    "infinite number": (
        changed("norm: 1", "norm: .inf"),
        13,
        "train.clip_global_norm",
        "inf",
        "clip_global_norm: 1.0",
    ),
    "seed too large": (
        changed("seed: 7", "seed: 4294967296"),
        14,
        "train.seed",
        "less than 4294967296",
        "seed: 7",
    ),
    "wrong choice": (
        changed("verbose: 2", "verbose: 3"),
        15,
        "train.verbose",
        "3 is not one of auto, 0, 1, 2",
        "verbose: auto",
    ),
    "text for a list": (
        changed("[accuracy]", "accuracy"),
        11,
        "train.metrics",
        "'accuracy' is not a list",
        "metrics: [accuracy]",
    ),
    "number in a list of text": (
        changed("[accuracy]", "\n    - accuracy\n    - 3"),
        13,
        "train.metrics[1]",
        "3 is not text",
        "",
    ),
    "number for text or mapping": (
        changed("{digit: mse, other: mae}", "3"),
        9,
        "train.loss",
        "3 is not text or a mapping",
        "loss: sparse",
    ),
    "number inside the mapping": (
        changed("other: mae", "other: 3"),
        9,
        "train.loss.other",
        "3 is not text",
        "",
    ),
    "optimizer without a name": (
        changed("name: adamw, ", ""),
        8,
        "train.optimizer.name",
        "missing",
        "add name: ",
    ),
    "optimizer that is a number": (
        changed("{name: adamw, learning_rate: 1e-3}", "3"),
        8,
        "train.optimizer",
        "3 is neither",
        "optimizer: adam",
    ),
    "section missing": (SMALL.splitlines()[1], 1, "model", "section is missing", "add model: {build:"),
    "section that is no mapping": (
        changed("launch: {startup_timeout: 5}", "launch: 5"),
        16,
        "launch",
        "5 is not a mapping",
        "launch: {startup_timeout",
    ),
    "key missing in a section": (
        SMALL.replace('build: "my_model:load"', "args: {}"),
        2,
        "data.build",
        "missing",
        'add build: "my_data:load"',
    ),
    "build without a colon": (
        changed("my_model:load", "my_model.load"),
        4,
        "data.build",
        "'my_model.load' is not of the form",
        "write my_model:load",
    ),
    "build with a file name": (
        changed("my_model:load", "./my_model.py:load"),
        4,
        "data.build",
        "'./my_model.py:load'",
        "write my_model:load",
    ),
    "no such module": (
        changed("my_model:load", "my_modle:load"),
        4,
        "data.build",
        "no module my_modle",
        "mean my_model?",
    ),
    "no such module in a package": (
        changed("my_model:load", "tfdist.exampels:load"),
        4,
        "data.build",
        "no module tfdist.exampels",
        "mean tfdist.examples?",
    ),
    "no such function": (
        changed("my_model:load", "my_model:laod"),
        4,
        "data.build",
        "my_model has no laod",
        "mean my_model:load?",
    ),
    "weights for an output that is not there": (
        changed("{digit: 2}", "{digits: 2}"),
        10,
        "train.loss_weights.digits",
        "no such output",
        "from train.loss",
    ),
    "weights without outputs": (
        changed("{digit: mse, other: mae}", "mse"),
        10,
        "train.loss_weights",
        "one loss for all outputs",
        "mapping",
    ),
    "batch that the parts do not divide": (
        changed("size: 64", "size: 66"),
        6,
        "train.global_batch_size",
        "66 rows cannot be shared out evenly; it has to be a multiple of 4, for 2 replicas times",
        "64 or 68",
    ),
    "batch smaller than the parts": (
        changed("size: 64", "size: 3"),
        6,
        "train.global_batch_size",
        "3 rows",
        "size: 4",
    ),
    "cluster key": (
        changed("workers: 2", "wokers: 2"),
        2,
        "cluster.local.wokers",
        "(received 2)",
        "mean workers?",
    ),
    "cluster address": (
        changed("{local: {workers: 2}}", "\n  worker:\n    - a:1\n    - b"),
        5,
        "cluster.worker[1]",
        "'b' has no port",
        "b:2222",
    ),
    "cluster that is neither": (
        changed("{local: {workers: 2}}", "2"),
        2,
        "cluster",
        "2 is not a mapping",
        "{local: {workers: 2}}",
    ),
    "cluster that is both": (
        changed("{local: {workers: 2}}", "{local: {}, worker: [a:1]}"),
        2,
        "cluster.local",
        "beside worker",
        "remove",
    ),
    "cluster with a negative number": (
        changed("workers: 2", "workers: -2"),
        2,
        "cluster.local.workers",
        "-2 is not a whole number",
        "",
    ),
    "cluster with an evaluator": (
        changed("workers: 2", "workers: 2, evaluator: yes"),
        2,
        "cluster.local.evaluator",
        "no work for an evaluator",
        "remove evaluator",
    ),
    "kind for one task, cluster of two": (
        changed("multi_worker_mirrored, communication: ring", "one_device"),
        1,
        "strategy.kind",
        "run.yaml:2) has 2 workers",
        "remove the cluster",
    ),
    "kind without ps, cluster with": (
        changed("workers: 2", "workers: 2, ps: 1"),
        1,
        "strategy.kind",
        "has 1 chief, 2 workers, 1 ps",
        "kind: parameter_server",
    ),
    "kind with ps, cluster without": (
        changed("multi_worker_mirrored, communication: ring", "parameter_server"),
        1,
        "strategy.kind",
        "needs a chief, workers and a ps",
        "add chief and ps",
    ),
    "kind with ps, no cluster": (
        SMALL + "strategy: {kind: parameter_server}\n",
        3,
        "strategy.kind",
        "needs a cluster",
        "{local: {workers: 2, ps: 1}}",
    ),
    "kind of workers, no cluster": (
        SMALL + "strategy: {kind: multi_worker_mirrored}\n",
        3,
        "strategy.kind",
        "needs a cluster",
        "{local: {workers: 2}}",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_yaml(write, case):
    text, line, key, words, fix = CASES[case]
    with pytest.raises(ConfigError) as caught:
        load(write(text), kinds=kinds(), environ={})
    shown = str(caught.value)
    assert shown.startswith(f"run.yaml:{line}: {key}: ")
    assert words in shown
    assert shown.count("Fix: ") == 1
    assert fix in caught.value.fix
    assert caught.value.exit_code == 2


OVERRIDES = {
    "train.epochs=x": ("train.epochs: 'x' is not a whole number", "epochs: 10"),
    "train.epochz=3": ("train.epochz: unknown key (received 3)", "mean epochs?"),
    "trian.epochs=3": ("trian: unknown key", "mean train?"),
    "train.global_batch_size=65": ("train.global_batch_size: 65 rows", "64 or 68"),
    "epochs": ("it is not of the form", "--set train.epochs=20"),
    "=3": ("it is not of the form", "--set train.epochs=20"),
    "train..epochs=3": ("it is not of the form", "--set train.epochs=20"),
    "train.epochs=[": ("the value is not valid YAML", "in quotes"),
    "train.epochs.x=3": ("train.epochs is 10, which has no x inside", "end the name at train.epochs"),
    "train.metrics[5]=a": ("train.metrics is a list with 1 items", "train.metrics=[…]"),
    "data.args.list[0]=a": ("data.args.list is not in the file", "data.args.list=[…]"),
    "cluster.local.workers=-1": ("cluster.local.workers: -1 is not", ""),
}


@pytest.mark.parametrize("text", OVERRIDES)
def test_bad_override(write, text):
    words, fix = OVERRIDES[text]
    with pytest.raises(ConfigError) as caught:
        load(write(WHOLE), ["train.seed=1", text], kinds=kinds(), environ={})
    assert str(caught.value).startswith(f"--set {text}: {words}")
    assert fix in caught.value.fix


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(write):
    text = (
        changed("epochs: 10", "epochs: ten")
        .replace("[accuracy]", "accuracy")
        .replace("workers: 2", "workers: x")
    )
    text = "launch: 5\n" + text.replace("launch: {startup_timeout: 5}\n", "")
    with pytest.raises(ConfigError) as caught:
        load(write(text), ["train.seed=-1"], kinds=kinds())
    places = [line.split(": ")[:2] for line in str(caught.value).splitlines() if not line.startswith("Fix")]
    assert places == [
        ["run.yaml:1", "launch"],
        ["run.yaml:3", "cluster.local.workers"],
        ["run.yaml:8", "train.epochs"],
        ["run.yaml:12", "train.metrics"],
        ["--set train.seed=-1", "train.seed"],
    ]


def test_many_mistakes_fit_on_one_screen(write):
    text = SMALL + "train:\n" + "".join(f"  key{number}: {'x' * 500}\n" for number in range(30))
    with pytest.raises(ConfigError) as caught:
        load(write(text), kinds=kinds())
    shown = str(caught.value)
    assert sum(-(-len(line) // 100) for line in shown.splitlines()) <= 40
    assert "23 more" in shown


def test_a_wrong_tf_config_is_found_too(write):
    environ = {
        "TF_CONFIG": json.dumps(
            {"cluster": {"worker": ["a:1", "a:1"]}, "task": {"type": "worker", "index": 0}}
        )
    }
    with pytest.raises(ConfigError, match=r"^TF_CONFIG: cluster\.worker"):
        load(write(SMALL), kinds=kinds(), environ=environ)
