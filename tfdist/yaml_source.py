"""Reads a YAML file into plain data that remembers the line of every key.

Scalars are read as users mean them today (YAML 1.2), where YAML 1.1 surprises: `1e-3` is a number, `010` is
ten, `12:30` and `2024-01-01` are text, and a key `on` or `no` is text. As values, `yes`, `no`, `on` and `off`
are booleans.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

import yaml

from tfdist.errors import ConfigError
from tfdist.problems import Path, nearest, shown


@dataclass(frozen=True)
class YamlSource:
    """What a YAML file says, and where.

    Attributes:
        name: The file as the user named it.
        data: The top-level mapping, as plain Python data.
        lines: The line of each key and list item, counted from 1; `()` is the file itself.
    """

    name: str
    data: dict[Any, Any]
    lines: Mapping[Path, int] = field(default_factory=dict)

    def locate(self, path: Path) -> str:
        """Gives `file:line` of a path; of the nearest key above it, if it is not in the file itself."""
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self.name}:{self.lines.get(path, 1)}"


def read(path: str | os.PathLike[str]) -> YamlSource:
    """Reads a YAML file whose top level is a mapping.

    Args:
        path: The file.

    Returns:
        Its data, and the line of each key.

    Raises:
        ConfigError: The file is missing, empty, not YAML, not a mapping, or names a key twice.
    """
    name = os.fspath(path)
    source = read_text(_file_text(name), name)
    if source.data is None:
        raise ConfigError(f"{name}: the file is empty; it has to say what to train.", "see docs/yaml.md")
    if not isinstance(source.data, dict):
        raise ConfigError(
            f"{source.locate(())}: the top level is {shown(source.data)}, not a mapping of keys to values.",
            "begin with keys, such as `strategy: {kind: one_device}`",
        )
    return source


def read_text(text: str, name: str) -> YamlSource:
    """Reads YAML from text; the data can be of any type, not only a mapping.

    Args:
        text: The YAML.
        name: What errors call it.

    Raises:
        ConfigError: It is not YAML, or names a key twice.
    """
    loader: _Loader | None = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        reader = _NodeReader(name, loader)
        data = None if node is None else reader.read(node, (), frozenset())
        if node is not None:
            reader.lines[()] = _line(node)
        return YamlSource(name, data, reader.lines)  # type: ignore[arg-type]
    except yaml.YAMLError as error:
        raise _syntax_error(error, name) from None
    finally:
        if loader is not None:
            loader.dispose()


def _file_text(name: str) -> str:
    try:
        return FilePath(name).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{name}: there is no such file.", _fix_missing_file(name)) from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{name}: byte {error.start} is not UTF-8 text.", f"save {name} as UTF-8, or name another file"
        ) from None
    except OSError as error:
        raise ConfigError(
            f"{name}: cannot be read: {error.strerror}.", "name a YAML file that you may read"
        ) from None


def _fix_missing_file(name: str) -> str:
    folder = FilePath(name).parent
    try:
        files = [entry.name for entry in folder.iterdir() if entry.suffix in (".yaml", ".yml")]
    except OSError:
        return f"the folder {folder} does not exist either; run the command from the folder you meant"
    meant = nearest(FilePath(name).name, files)
    if meant:
        return f"did you mean {folder / meant}?"
    return (
        f"name one of the files in {folder}: {', '.join(sorted(files)[:5])}"
        if files
        else (f"{folder.absolute()} has no YAML files; run the command from the folder you meant")
    )


def _syntax_error(error: yaml.YAMLError, name: str) -> ConfigError:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    context = getattr(error, "context", None)
    place = f"{name}:{mark.line + 1}: column {mark.column + 1}" if mark else name
    if "'\\t'" in problem:
        fix = "indent with spaces; YAML does not allow tabs"
    elif "single document" in (context or ""):
        fix = "remove the `---` line; a file holds one document"
    elif "mapping values are not allowed" in problem:
        fix = "check the indentation, and quote text that holds `: `"
    elif "constructor for the tag" in problem:
        fix = "write plain values, without a `!tag`"
    elif "undefined alias" in problem:
        fix = "define the anchor with `&name` above, or quote text that begins with `*`"
    else:
        fix = "check the indentation, brackets and quotes on this line and the one above"
    return ConfigError(f"{place}: not valid YAML: {context + ', ' if context else ''}{problem}.", fix)


class _Loader(yaml.SafeLoader):
    """SafeLoader with YAML 1.2's idea of numbers."""


_NOT_OURS = {f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "timestamp", "value")}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _NOT_OURS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"[-+]?[0-9][0-9_]*$|0x[0-9a-fA-F][0-9a-fA-F_]*$|0o[0-7][0-7_]*$"),
    list("-+0123456789"),
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"""[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?$
          |[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+$
          |[-+]?\.(?:inf|Inf|INF)$
          |\.(?:nan|NaN|NAN)$""",
        re.VERBOSE,
    ),
    list("-+0123456789."),
)


def _construct_int(loader: _Loader, node: yaml.ScalarNode) -> int:
    digits = node.value.replace("_", "")
    base = {"0x": 16, "0o": 8}.get(digits[:2], 10)
    return int(digits[2:] if base != 10 else digits, base)


_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)


_COLLECTIONS = {"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}


class _NodeReader:
    """Turns YAML nodes into data, and notes the line of each."""

    def __init__(self, name: str, loader: _Loader) -> None:
        self.lines: dict[Path, int] = {}
        self._name = name
        self._loader = loader

    def read(self, node: yaml.Node, path: Path, above: frozenset[int]) -> Any:
        if id(node) in above:
            raise ConfigError(
                f"{self._name}:{_line(node)}: an anchor that holds itself.",
                "remove the `*name` inside `&name`",
            )
        above = above | {id(node)}
        if not isinstance(node, yaml.ScalarNode) and node.tag not in _COLLECTIONS:
            raise ConfigError(
                f"{self._name}:{_line(node)}: the tag {shown(node.tag)} is not known.",
                "write plain values, without a `!tag`",
            )
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, above)
        if isinstance(node, yaml.SequenceNode):
            items = []
            for index, item in enumerate(node.value):
                self.lines[(*path, index)] = _line(item)
                items.append(self.read(item, (*path, index), above))
            return items
        return self._loader.construct_object(node)

    def _mapping(self, node: yaml.MappingNode, path: Path, above: frozenset[int]) -> dict[Any, Any]:
        data: dict[Any, Any] = {}
        for merged in reversed(
            list(self._merged(node))
        ):  # what comes earlier wins; what is written out, most
            data.update(self.read(merged, path, above))
        first_lines: dict[Any, int] = {}
        for key_node, value_node in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self._key(key_node)
            if key in first_lines:
                raise ConfigError(
                    f"{self._name}:{_line(key_node)}: {shown(key)} is a duplicate key: line "
                    f"{first_lines[key]} has it too, and one of the two would be lost.",
                    "keep one of them",
                )
            first_lines[key] = _line(key_node)
            self.lines[(*path, key)] = _line(key_node)
            data[key] = self.read(value_node, (*path, key), above)
        return data

    def _merged(self, node: yaml.MappingNode) -> Iterator[yaml.MappingNode]:
        for key_node, value_node in node.value:
            if key_node.tag != "tag:yaml.org,2002:merge":
                continue
            for each in value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]:
                if not isinstance(each, yaml.MappingNode):
                    raise ConfigError(
                        f"{self._name}:{_line(key_node)}: `<<` merges a mapping, not {shown(each.value)}.",
                        "give it an alias of a mapping, such as `<<: *defaults`",
                    )
                yield each

    def _key(self, node: yaml.Node) -> Any:
        if isinstance(node, yaml.ScalarNode):
            if node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float"):
                return self._loader.construct_object(node)
            if node.tag != "tag:yaml.org,2002:null":
                return str(node.value)
        raise ConfigError(
            f"{self._name}:{_line(node)}: a key that is {shown(node.value)}; keys are text or numbers.",
            "write a name before the colon; quote text that holds `{`, `[` or `?`",
        )


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
