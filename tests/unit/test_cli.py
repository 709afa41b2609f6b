import json
import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from example_yaml import WHOLE
from tfdist.strategies.registry import kinds

from tfdist import cli
from tfdist.cluster import Cluster, Task
from tfdist.config.reference import markdown

DOCS = Path(__file__).parents[2] / "docs"


def run(capsys, *arguments):
    code = cli.main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def run_process(*arguments, **settings):
    command = [sys.executable, "-m", "tfdist", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **settings)


@pytest.mark.parametrize(
    ("text", "place", "fix"),
    [
        (
            WHOLE.replace("global_batch_size", "global_batchsize"),
            "run.yaml:6: train.global_batchsize",
            "global_batch_size?",
        ),
        (WHOLE.replace("kind: multi", "kind: mutli"), "run.yaml:1: strategy.kind", "multi_worker_mirrored?"),
        ("a: [\n", "run.yaml:2: ", "brackets"),
    ],
)
def test_bad_yaml_in_a_real_process(write, tmp_path, text, place, fix):
    done = run_process("fit", write(text), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(place)
    assert fix in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_nothing_of_this_loads_tensorflow(write, tmp_path):
    write(WHOLE.replace("global_batch_size", "global_batchsize"))
    program = """
        import sys
        from tfdist import cli
        assert "pydantic" not in sys.modules, "the help has to come without it"
        assert cli.main(["fit", "run.yaml"]) == 2
        assert cli.main(["schema"]) == 0
        assert cli.main(["schema", "--markdown"]) == 0
        assert cli.main(["cluster", "show", "run.yaml"]) == 0
        loaded = {name.partition(".")[0] for name in sys.modules}
        assert not loaded & {"tensorflow", "keras", "numpy"}, loaded
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_help_and_version(capsys):
    for arguments in (["--help"], ["fit", "--help"], ["cluster", "check", "--help"]):
        with pytest.raises(SystemExit) as done:
            cli.main(arguments)
        assert done.value.code == 0
        assert "130  interrupted" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out.startswith("tfdist 0.")


@pytest.mark.parametrize(
    ("arguments", "words", "fix"),
    [
        (["fitt", "a.yaml"], "no command 'fitt'", "mean `tfdist fit`?"),
        (["cluster", "shwo"], "no command 'shwo'", "mean `tfdist cluster show`?"),
        (["evaluate", "a.yaml"], "no command 'evaluate'", "tfdist --help"),
        (["fit"], "required: CONFIG", "tfdist fit --help"),
        (["fit", "a.yaml", "--workdri", "x"], "does not take --workdri", "mean --workdir?"),
        (["fit", "a.yaml", "b.yaml"], "does not take b.yaml", "remove b.yaml"),
        (["fit", "a.yaml", "--", "x"], "does not take -- x", "remove --"),
        (["launch", "--workers", "two", "--", "x"], "'two'", "tfdist launch --help"),
        (["launch", "--workers", "2"], "no command to run", "-- python train.py"),
        (["launch", "--", "python", "a.py"], "no tasks", "tfdist launch --workers 2 -- python a.py"),
        (["launch", "--workers", "-1", "--", "x"], "workers: -1 is not a whole number", ""),
        (["fit", "nowhere.yaml"], "no such file", ""),
        (["cluster", "check", "--timeout", "0"], "--timeout 0", "--timeout 5"),
    ],
)
def test_wrong_usage_says_what_is_meant(capsys, arguments, words, fix):
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert words in err
    assert fix in err.partition("Fix: ")[2]


def test_launch_runs_the_command_once_per_task(tmp_path):
    program = "import os, json; print('I am', json.loads(os.environ['TF_CONFIG'])['task'])"
    done = run_process(
        "launch", "--workers", "2", "--workdir", str(tmp_path), "--", sys.executable, "-c", program
    )
    assert done.returncode == 0, done.stderr
    for index in range(2):
        assert f"{{'type': 'worker', 'index': {index}}}" in (tmp_path / f"log-worker-{index}.txt").read_text()


def test_errors_of_the_program_itself_have_a_traceback_and_interruptions_a_code(capsys, monkeypatch):
    def fail(options):
        raise error

    monkeypatch.setattr(cli, "_schema", fail)
    error = RuntimeError("a fault of ours")
    code, _, err = run(capsys, "schema")
    assert code == 1
    assert "Traceback" in err
    error = KeyboardInterrupt()
    assert run(capsys, "schema")[0] == 130


def test_cluster_show(write, capsys, monkeypatch):
    code, out, _ = run(capsys, "cluster", "show")
    assert code == 0
    assert "trains alone" in out
    write("cluster:\n  chief: [c:1]\n  worker: [a:1, b:1]\n  ps: [p:1]\n")
    code, out, _ = run(capsys, "cluster", "show", "run.yaml", "--task", "worker:1")
    assert code == 0
    assert out.splitlines() == [
        "from run.yaml:1, task from --task worker:1",
        "  chief:0   c:1  (writes files)",
        "  worker:0  a:1",
        "  worker:1  b:1  (this process)",
        "  ps:0      p:1",
    ]
    write("cluster: {local: {workers: 2}}\n")
    _, out, _ = run(capsys, "cluster", "show", "run.yaml")
    assert "each start takes new free ports" in out
    write("cluster:\n  chief: [c:1]\n  worker: [a:1, b:1]\n  ps: [p:1]\n")
    monkeypatch.setenv("TF_CONFIG", '{"task": {"type": "ps", "index": 0}}')
    _, out, _ = run(capsys, "cluster", "show", "run.yaml")
    assert "from run.yaml:1, task from TF_CONFIG" in out
    assert "p:1  (this process)" in out


def test_the_log_is_one_line_for_each_thing_read_otherwise_than_written(tmp_path):
    content = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": "1"}}
    environ = {**os.environ, "TF_CONFIG": json.dumps(content)}
    done = run_process("cluster", "show", cwd=tmp_path, env=environ)
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert line.endswith("TF_CONFIG has the task.index '1' as text, read as the number 1.")


def test_cluster_tf_config(write, capsys):
    write("cluster: {worker: [a:1, b:1]}\n")
    code, out, _ = run(capsys, "cluster", "tf-config", "run.yaml", "--task", "worker:1")
    assert code == 0
    assert Cluster.from_tf_config(out) == Cluster({"worker": ["a:1", "b:1"]}, Task("worker", 1))
    code, _, err = run(capsys, "cluster", "tf-config", "run.yaml")
    assert code == 2
    assert "add --task worker:0" in err
    write("cluster: {local: {workers: 2}}\n")
    code, _, err = run(capsys, "cluster", "tf-config", "run.yaml", "--task", "worker:1")
    assert code == 2
    assert "new free ports" in err


def test_cluster_check(write, capsys):
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = f"127.0.0.1:{server.getsockname()[1]}"
        missing = Cluster.local(workers=1).address(Task("worker", 0))
        write(f"cluster: {{worker: ['{there}', '{missing}']}}\n")
        code, out, _ = run(capsys, "cluster", "check", "run.yaml", "--timeout", "0.3")
        assert code == 3
        assert f"worker:0 at {there}" in out
        assert "answers" in out
        assert "connection refused" in out
        assert "1 of 2 answered" in out
        code, out, _ = run(capsys, "cluster", "check", "run.yaml", "--task", "worker:1", "--timeout", "0.3")
        assert code == 0
        assert "1 of 1 answered" in out


def test_schema_is_json(capsys):
    code, out, _ = run(capsys, "schema")
    assert code == 0
    assert json.loads(out)["title"] == "tfdist"


def test_the_page_on_yaml_is_current():
    assert (DOCS / "yaml.md").read_text() == markdown(kinds()), "run: tfdist schema --markdown > docs/yaml.md"
