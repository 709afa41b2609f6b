"""The page on parity says what the problems and kinds are."""

from pathlib import Path

import pytest

from tests.parity.page import FIGURE, render, rounded_up

PAGE = Path(__file__).parents[2] / "docs" / "parity.md"


@pytest.fixture
def page(request: pytest.FixtureRequest) -> str:
    """Gives the page as it was committed."""
    if request.config.getoption("--parity-page", default=None):
        pytest.skip("the page is being made")
    return PAGE.read_text()


def test_the_page_has_the_rows_columns_and_bounds_of_the_tests(page: str) -> None:
    written = FIGURE.sub("0", page)
    assert written == render(lambda strategy, problem: "0"), (
        "run: python -m pytest tests/parity --parity-page docs/parity.md"
    )


def test_every_figure_of_the_page_is_within_its_bound(page: str) -> None:
    rows = [line.split(" | ") for line in page.splitlines() if FIGURE.search(line)]
    assert len(rows) > 100
    for _, bound, *cells in rows:
        found = [
            float(number) for cell in cells for number in FIGURE.findall(f"{cell} |".replace(" | |", " |"))
        ]
        assert found
        assert max(found) <= float(bound)


@pytest.mark.parametrize(
    ("number", "text"), [(0.0, "0"), (3e-8, "3e-08"), (2.01e-7, "3e-07"), (9.5e-6, "1e-05"), (0.004, "4e-03")]
)
def test_figures_are_rounded_up(number: float, text: str) -> None:
    assert rounded_up(number) == text
