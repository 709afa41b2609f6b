"""Every Python block of the documentation runs; commands, options, keys and errors it names exist."""

import ast
import contextlib
import io
import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from tfdist.strategies.registry import kinds

from tests.docs.pages import PAGES, ROOT, blocks, write_files
from tfdist import cli
from tfdist.cluster import Cluster, Task
from tfdist.config import load
from tfdist.errors import TfdistError
from tfdist.launch.local import run_local

PAGE_NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
HOSTS = Cluster({"worker": ["trainer-0.example:2222", "trainer-1.example:2222"]})


def run_python(arguments, folder, **settings):
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
        **settings,
    )


@pytest.fixture(autouse=True)
def _no_cluster_around(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)


def test_the_pages_and_their_blocks_are_found():
    assert {"README.md", "docs/python.md", "docs/cluster.md", "docs/strategies.md"} <= set(PAGE_NAMES)
    assert len(blocks("python")) >= 9
    fences = sum(page.read_text().count("\n```") for page in PAGES)
    assert fences == 2 * len(blocks()), "a fence is not closed, or not at the beginning of its line"


def test_every_python_block_runs(tmp_path):
    here = [block for block in blocks("python") if not block.needs and not block.file]
    runnable = [[(block.place, block.text) for block in here if block.page == page] for page in PAGES]
    done = run_python([ROOT / "tests/docs/run_blocks.py"], tmp_path, input=json.dumps(runnable))
    assert done.returncode == 0, done.stdout[-6000:]
    for page in runnable:
        for place, _ in page:
            assert f"--- {place}" in done.stdout


def test_a_kind_from_another_package_as_the_docs_show_it(tmp_path, monkeypatch):
    (block,) = [each for each in blocks("python") if each.needs]
    write_files(block, tmp_path)
    (tmp_path / "my_kinds" / "__init__.py").touch()
    # What `pip install .` would leave behind, without asking an index for the build system.
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    info = tmp_path / "my_kinds-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    ((group, entries),) = project["entry-points"].items()
    lines = [f"{name} = {value}" for name, value in entries.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = run_python(["-c", block.text], tmp_path)
    assert done.returncode == 0, done.stdout
    assert ast.literal_eval(done.stdout.strip().splitlines()[-1])[-1] < 2.3, "it has learned something"
    described = run_python(["-m", "tfdist", "schema", "--markdown"], tmp_path)
    assert "### kind: central_storage" in described.stdout


def test_the_script_for_launch_trains_in_two_tasks(tmp_path, monkeypatch):
    (block,) = [each for each in blocks("bash") if each.needs]
    assert block.text == "tfdist launch --workers 2 -- python train.py\n"
    write_files(block, tmp_path)
    monkeypatch.chdir(tmp_path)
    output = io.StringIO()
    code = run_local([sys.executable, "train.py"], Cluster.local(workers=2), output=output)
    assert code == 0, output.getvalue()[-4000:]
    assert "Epoch 3/3" in output.getvalue()
    assert "[worker:1] Epoch" not in output.getvalue(), "the chief alone shows progress"
    assert (tmp_path / "digits.keras").exists()


def commands():
    """Gives each command of `tfdist` in the shell blocks, with its place and its TF_CONFIG."""
    for block in blocks("bash"):
        for line in block.text.splitlines():
            for part in line.split("&&"):
                words = shlex.split(part, comments=True)
                variables = {}
                while words and re.match(r"[A-Z_]+=", words[0]):
                    name, _, variables[name] = words.pop(0).partition("=")
                if words and words[0] == "tfdist":
                    yield block.place, variables, words[1:]


def test_the_commands_in_shell_blocks_work(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    seen = 0
    for place, variables, words in commands():
        seen += 1
        options = cli._parse(words)
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            if words[0] == "fit":
                load(options.config, options.overrides, kinds=kinds()).resolve_cluster()
            elif words[:2] == ["cluster", "check"]:
                assert cli.main([*words[:-1], "0.5"]) == 3, place  # nobody is at the example's addresses
            elif words[0] != "launch":
                assert cli.main(words) == 0, place
    assert seen >= 5
    assert "trainer-1.example" in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGE_NAMES)
def test_commands_and_options_that_are_named_exist(page):
    prose = (ROOT / page).read_text()
    for text in re.findall(r"`(tfdist [a-z][^`\n]*)`", prose):
        words = shlex.split(text.partition(" > ")[0].replace("…", "x"))[1:]
        stand_for = {"FILE": "x.yaml", "CONFIG": "x.yaml"}
        words = [stand_for.get(word, word) for word in words]
        if words == ["fit"]:
            words = ["fit", "x.yaml"]
        if words == ["launch"]:
            words = ["launch", "--workers", "1", "--", "true"]
        with contextlib.suppress(SystemExit):
            cli._parse(words)
    for extra in re.findall(r"pip install (?:-e )?'\.\[(\w+)\]'", prose):
        assert (
            extra in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        )


def test_the_first_two_commands_are_those_that_are_tested():
    readme = (ROOT / "README.md").read_text()
    assert "pip install '.[examples]' && tfdist fit configs/digits_mirrored.yaml" in readme
    command = "pip install -e '.[test]' && python -m pytest"
    assert command in readme
    assert command in (ROOT / ".ci" / "run").read_text().replace("--quiet ", "")


@pytest.mark.parametrize("block", blocks("yaml"), ids=lambda block: block.place)
def test_yaml_blocks_are_accepted(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_model.py").write_text("def build_model(): ...\ndef load(): ...\n")
    (tmp_path / "my_data.py").write_text("def load(): ...\n")
    given = yaml.safe_load(block.text)
    rest = {
        "model": {"build": "my_model:build_model"},
        "data": {"build": "my_data:load"},
        "strategy": {"kind": "multi_worker_mirrored" if "cluster" in given else "one_device"},
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump({**rest, **given}))
    load("run.yaml", kinds=kinds(), environ={})


def test_options_of_every_kind_are_described():
    text = (ROOT / "docs" / "strategies.md").read_text()
    for name, kind in kinds().items():
        if kind.create.__module__.startswith("tfdist."):
            section = text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
            described = set(re.findall(r"^\| `(\w+)` \|", section, re.M))
            assert described == set(kind.options.model_fields), name


def test_errors_in_troubleshooting_are_ours():
    texts = []
    for file in [*(ROOT / "tfdist").rglob("*.py"), *(ROOT / "strategies").glob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
                texts.append("".join(parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(re.sub(r"%\w", "…", node.value))
    known = "\n".join(texts)
    headings = re.findall(r"^### `(.*)`$", (ROOT / "docs" / "troubleshooting.md").read_text(), re.M)
    assert len(headings) > 20
    for heading in headings:
        for part in re.split(r"…|\bTF_CONFIG\b", heading):
            if len(part.strip()) > 3:
                assert part.strip() in known, f"no error of ours says {part.strip()!r}"


@pytest.mark.parametrize("page", PAGE_NAMES)
def test_links_lead_somewhere(page):
    here = ROOT / page
    for target in re.findall(r"\]\(([^)\s]+)\)", here.read_text()):
        if target.startswith("http"):
            continue
        name, _, anchor = target.partition("#")
        file = (here.parent / name).resolve() if name else here
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", file.read_text(), re.M)
            assert anchor in [re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings], (
                target
            )


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "configs").glob("*.yaml")))
def test_every_configuration_is_right(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    alone = {}
    started = {"TF_CONFIG": HOSTS.tf_config(Task("worker", 1))}
    environ = started if name.startswith("cluster_") else alone
    config = load(Path("configs") / name, kinds=kinds(), environ=environ)
    cluster = config.resolve_cluster(environ)
    if name.startswith("cluster_"):
        assert cluster == HOSTS.with_task(Task("worker", 1))
        with pytest.raises(TfdistError):
            load(Path("configs") / name, kinds=kinds(), environ=alone).resolve_cluster(alone)
