"""Mistakes in what the user wrote, collected so that all can be told at once, and how errors word them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tfdist.errors import ConfigError

Path = tuple[str | int, ...]

# More would not fit on one screen: each takes two or three lines.
_MOST_SHOWN = 7


@dataclass(frozen=True)
class Problem:
    """One mistake in a description that can hold several, such as a YAML file or TF_CONFIG.

    Attributes:
        path: Where it is, as keys and list indices: `("train", "metrics", 0)`.
        what: What is wrong, with the value received, and the rule.
        fix: What to do about it.
    """

    path: Path
    what: str
    fix: str


def config_error(problems: Sequence[Problem], locate: Callable[[Path], str]) -> ConfigError:
    """Makes one error of all the problems.

    Args:
        problems: At least one.
        locate: Gives the place of a path as the user knows it, such as `my.yaml:12` or `TF_CONFIG`.

    Returns:
        The error to raise: for each problem, a line that begins with the place, and a `Fix:` line.
    """
    left_out = len(problems) - _MOST_SHOWN
    problems = problems[:_MOST_SHOWN]
    texts = [": ".join(filter(None, (locate(each.path), dotted(each.path), each.what))) for each in problems]
    before = "".join(
        f"{text}\nFix: {each.fix}\n" for text, each in zip(texts[:-1], problems[:-1], strict=True)
    )
    more = f"\n({left_out} more will show when these are mended.)" if left_out > 0 else ""
    return ConfigError(before + texts[-1], problems[-1].fix + more)


def dotted(path: Path) -> str:
    """Writes a path as users write it.

    Example:
        >>> dotted(("train", "metrics", 0))
        'train.metrics[0]'
    """
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def shown(value: object, limit: int = 60) -> str:
    """Gives a value as an error shows it: its repr, cut to `limit` characters.

    Example:
        >>> shown("adam")
        "'adam'"
    """
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def nearest(name: object, choices: Iterable[str]) -> str | None:
    """Gives the choice that the user most likely meant, or None if nothing is near.

    Example:
        >>> nearest("global_batchsize", ["epochs", "global_batch_size"])
        'global_batch_size'
    """
    by_folded = {choice.casefold(): choice for choice in choices}
    matches = difflib.get_close_matches(str(name).casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[matches[0]] if matches else None


def is_whole(value: Any, least: int) -> bool:
    """Tells whether a value is a whole number of at least `least`: an int, or NumPy's, but no bool.

    Example:
        >>> is_whole(3, 1), is_whole(True, 1), is_whole(2.0, 1)
        (True, False, False)
    """
    return not isinstance(value, bool) and hasattr(value, "__index__") and int(value) >= least
