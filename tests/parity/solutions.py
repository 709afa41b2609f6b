"""What the kinds made of the problems: launched once, when the first result is asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.parity.kinds import WAVES, places
from tests.processes import run_tasks
from tfdist.cluster import Cluster

RUN_PROBLEMS = Path(__file__).with_name("run_problems.py")
SECONDS_FOR_ALL = 900.0


class Solutions:
    """Results of the problems under the kinds.

    Args:
        directory: Where results are written.
        wanted: The names of the problems that each kind shall solve.
    """

    def __init__(self, directory: Path, wanted: Mapping[str, Sequence[str]]) -> None:
        self._directory = directory
        self._wanted = wanted
        self._failures: dict[str, str] = {}
        self._found: dict[str, dict[str, list[dict[str, Any]]]] = {}

    def of(self, kind: str, problem: str) -> list[dict[str, Any]]:
        """Gives the result of each task that has one: of the chief alone where workers are servers."""
        found = self._results(kind, problem)
        for result in found:
            assert "error" not in result, f"{kind} could not solve {problem}:\n{result['traceback']}"
        return found

    def refusals(self, kind: str, problem: str) -> list[str]:
        """Gives the error with which each task refuses a problem."""
        found = self._results(kind, problem)
        for result in found:
            assert "error" in result, f"{kind} did not refuse {problem}"
        return [result["error"] for result in found]

    def _results(self, kind: str, problem: str) -> list[dict[str, Any]]:
        if kind not in self._found:
            self._launch(kind)
        found = self._found[kind].get(problem, [])
        assert found, f"{kind} has no result of {problem}. {self._failures[kind]}"
        return found

    def _launch(self, kind: str) -> None:
        """Lets a kind solve its problems, and side by side with it the others of its wave."""
        (wave,) = (wave for wave in WAVES if kind in wave)
        wave = tuple(name for name in wave if self._wanted.get(name))
        failure = ""
        try:
            run_tasks(
                RUN_PROBLEMS,
                Cluster.local(workers=len(places(wave))),
                args=[str(self._directory), json.dumps({name: list(self._wanted[name]) for name in wave})],
                timeout=SECONDS_FOR_ALL,
            )
        except AssertionError as error:
            failure = str(error)
        self._failures.update(dict.fromkeys(wave, failure))
        for name in wave:
            self._found[name] = {}
            for file in sorted(self._directory.glob(f"{name}-*.jsonl")):
                for result in map(json.loads, file.open()):
                    self._found[name].setdefault(result["problem"], []).append(result)
