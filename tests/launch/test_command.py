"""Commands that cannot be run are refused before anything starts."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from tests.processes import MARK
from tfdist.cluster import Cluster
from tfdist.errors import ConfigError
from tfdist.launch.local import run_local


@pytest.mark.parametrize(
    ("command", "problem", "fix"),
    [
        ([], "is empty", "python train.py"),
        ([""], "is empty", "python train.py"),
        (
            ["pyhton", "train.py"],
            r"'pyhton' was not found: it is in no directory of PATH=/usr/bin",
            "correct",
        ),
        (["./missing"], r"'\./missing' was not found: there is no such file", "correct the name"),
        (["train.py"], r"'train\.py' is a file here, but not executable", "python train.py"),
        (["./run"], r"'\./run' is a file here, but not executable", "chmod \\+x ./run, and name it as ./run"),
        (["ready"], r"'ready' is a file here, but not a program on the PATH", r"name it as \./ready"),
        (["folder"], r"'folder' is a directory", "name the program in it"),
    ],
    ids=str,
)
def test_refused(
    command: list[str],
    problem: str,
    fix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "run", "ready"):
        Path(name).write_text("")
    Path("ready").chmod(0o755)
    Path("folder").mkdir()
    with pytest.raises(ConfigError, match=problem) as refusal:
        run_local(command, Cluster.local(workers=2), environ={"PATH": "/usr/bin", **MARK})
    with pytest.raises(ConfigError, match=fix):
        raise refusal.value
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("text", ["just words\n", "#!/no/such/interpreter\n"])
def test_file_that_only_looks_like_a_program(
    text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "program"
    program.write_text(text)
    program.chmod(0o755)
    environ = {**os.environ, **MARK}
    code = run_local([str(program)], Cluster.local(workers=1), environ=environ, output=io.StringIO())
    assert code in (1, 126, 127)
    report = capfd.readouterr().err
    assert "cannot run" in report
    assert "Fix: its first line must name a program" in report
