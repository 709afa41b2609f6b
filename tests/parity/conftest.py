"""The solutions of all problems, made once in a test session, and only of the tests that were chosen."""

import pytest

from tests.parity.solutions import Solutions
from tests.processes import nothing_left_running

__all__ = ["nothing_left_running"]


@pytest.fixture(scope="session")
def solutions(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Solutions:
    """Gives the results of the problems that the chosen tests name.

    They name them by their parameters `kind`, `problem` and `again`.
    """
    wanted: dict[str, dict[str, None]] = {}
    for item in request.session.items:
        if "solutions" not in getattr(item, "fixturenames", ()):  # a test of something else
            continue
        parameters = item.callspec.params
        for name in ("problem", "again"):
            if name in parameters:
                for kind in ("one_device", parameters["kind"]):
                    wanted.setdefault(kind, {})[parameters[name]] = None
    directory = tmp_path_factory.mktemp("solutions")
    return Solutions(directory, {kind: list(names) for kind, names in wanted.items()})
