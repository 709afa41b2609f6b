"""`--set a.b=c`: values from the command line, put over those of the file."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tfdist import yaml_source
from tfdist.errors import ConfigError
from tfdist.problems import Path, dotted, shown
from tfdist.yaml_source import YamlSource

_KEY = re.compile(r"[^.\[\]=\s]+")
_INDEX = re.compile(r"\[(\d+)\]")


@dataclass(frozen=True)
class OverriddenSource:
    """A YAML file with values from the command line put over it.

    Attributes:
        file: The file as it is.
        data: What it says with the values put over it.
        texts: The `--set` that gave each path its value.
    """

    file: YamlSource
    data: dict[Any, Any]
    texts: dict[Path, str]

    def locate(self, path: Path) -> str:
        """Gives `file:line` of a path, or the `--set` it came from."""
        above = path
        while above and above not in self.file.lines and above not in self.texts:
            above = above[:-1]
        return f"--set {self.texts[above]}" if above in self.texts else self.file.locate(path)

    def line(self, path: Path) -> int:
        """Gives a number to sort mistakes by: their line, and those of the command line last."""
        place = self.locate(path)
        return 10**9 if place.startswith("--set") else int(place.rpartition(":")[2])


def override(source: YamlSource, overrides: Sequence[str]) -> OverriddenSource:
    """Puts values over those of a file.

    Args:
        source: The file.
        overrides: Each `a.b=c`; `c` is read as YAML, and `a[0]` is the first item of a list.

    Returns:
        The data with the values in their places. Keys that are not there are made; validation refuses unknown
        ones.

    Raises:
        ConfigError: One of them is not of that form, or leads through something that is no mapping or list.
    """
    data = copy.deepcopy(source.data)
    lines = dict(source.lines)
    texts: dict[Path, str] = {}
    for text in overrides:
        path, value = _parse(text)
        _put(data, path, value, text)
        for inside in [each for each in lines if each[: len(path)] == path]:
            del lines[inside]
        for inside in [each for each in texts if each[: len(path)] == path]:
            del texts[inside]
        for length in range(1, len(path) + 1):  # keys made on the way came from here too
            if path[:length] not in lines:
                texts.setdefault(path[:length], text)
    return OverriddenSource(YamlSource(source.name, source.data, lines), data, texts)


def _parse(text: str) -> tuple[Path, Any]:
    key, equals, value = text.partition("=")
    path: list[str | int] = []
    rest = key.strip()
    while rest:
        index = _INDEX.match(rest)
        name = _KEY.match(rest)
        if index and path:
            path.append(int(index[1]))
            rest = rest[index.end() :]
        elif name:
            path.append(name[0])
            rest = rest[name.end() :]
        else:
            path = []
            break
        if rest.startswith(".") and len(rest) > 1:
            rest = rest[1:]
    if not equals or not path:
        raise ConfigError(
            f"--set {text}: it is not of the form a.b=value.", "write, say, --set train.epochs=20"
        )
    try:
        return tuple(path), yaml_source.read_text(value, key).data
    except ConfigError as error:
        reason = error.problem.rpartition("not valid YAML: ")[2]
        raise ConfigError(
            f"--set {text}: the value is not valid YAML: {reason}",
            "put text with special characters in quotes",
        ) from None


def _put(data: Any, path: Path, value: Any, text: str) -> None:
    for position, part in enumerate(path):
        here = dotted(path[:position])
        last = position == len(path) - 1
        if isinstance(data, list):
            index = int(part) if str(part).isdecimal() else None
            if index is None or index >= len(data):
                count = f"{len(data)} items, counted from 0" if data else "no items"
                raise ConfigError(
                    f"--set {text}: {here} is a list with {count}; it has no {part}.",
                    f"give the whole list: --set '{here}=[…]'",
                )
            part = index
        elif not isinstance(data, dict):
            raise ConfigError(
                f"--set {text}: {here} is {shown(data)}, which has no {part} inside.",
                f"end the name at {here}, or give it a mapping: --set '{here}={{{part}: …}}'",
            )
        if last:
            data[part] = value
            return
        if isinstance(data, dict) and data.get(part) is None:
            _require_key(path, position + 1, text)
            data[part] = {}
        data = data[part]


def _require_key(path: Path, position: int, text: str) -> None:
    if isinstance(path[position], int):
        here = dotted(path[:position])
        raise ConfigError(
            f"--set {text}: {here} is not in the file, so it has no {path[position]}.",
            f"give the whole list: --set '{here}=[…]'",
        )
