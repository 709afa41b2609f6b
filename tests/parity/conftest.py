"""The solutions of all problems, made once in a test session, and only of the tests that were chosen."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.parity.kinds import EXACT
from tests.parity.page import found_by, render
from tests.parity.solutions import Solutions
from tests.parity.table import given_to, reference_of
from tests.processes import nothing_left_running

__all__ = ["nothing_left_running"]

PAGE = "--parity-page"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option that writes the page."""
    parser.addoption(PAGE, metavar="FILE", help="write what the parity tests find as a page of the docs")


@pytest.fixture(scope="session")
def solutions(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Solutions]:
    """Gives the results of the problems that the chosen tests name.

    They name them by their parameters `kind`, `problem` and `again`.
    """
    wanted: dict[str, dict[str, None]] = {}

    def want(kind: str, problem: str) -> None:
        wanted.setdefault("one_device", {})[problem] = None
        wanted.setdefault("one_device", {})[reference_of(kind, problem)] = None
        wanted.setdefault(kind, {})[problem] = None

    for item in request.session.items:
        if "solutions" not in getattr(item, "fixturenames", ()):  # a test of something else
            continue
        parameters = item.callspec.params
        for name in ("problem", "again"):
            if name in parameters:
                want(parameters["kind"], parameters[name])
    page = request.config.getoption(PAGE, default=None)
    if page:
        for kind in EXACT:
            for problem in given_to(kind):
                want(kind, problem)
    directory = tmp_path_factory.mktemp("solutions")
    found = Solutions(directory, {kind: list(names) for kind, names in wanted.items()})
    yield found
    if page:
        Path(page).write_text(render(found_by(found)))
