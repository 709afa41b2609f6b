"""What readers find wrong, with the argument that is to blame, so that a YAML file can be named instead."""

from __future__ import annotations

from collections.abc import Iterable

from tfdist.errors import ConfigError
from tfdist.problems import nearest, shown

_MOST_NAMES = 20


class ReaderError(ConfigError):
    """An argument of a reader does not fit the files.

    Args:
        argument: Which one.
        problem: What is wrong, with the value received, and the rule.
        fix: What to do about it.
    """

    def __init__(self, argument: str, problem: str, fix: str) -> None:
        super().__init__(f"{argument}: {problem}", fix)
        self.argument = argument
        self.finding = problem


def unknown_name(argument: str, name: str, what: str, place: str, names: Iterable[str]) -> ReaderError:
    """Gives the error for a name that the files do not have.

    Args:
        argument: The argument with the name.
        name: The name.
        what: What it should be the name of, such as `column`.
        place: What was looked into.
        names: The names that there are.
    """
    known = sorted(names)
    more = f" and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
    listed = ", ".join(known[:_MOST_NAMES]) + more if known else "none"
    meant = nearest(name, known)
    return ReaderError(
        argument,
        f"{place} has no {what} {shown(name)}; it has {listed}.",
        f"did you mean {meant}?" if meant else f"name a {what} that is there",
    )
