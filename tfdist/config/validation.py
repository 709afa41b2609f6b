"""What pydantic finds wrong, in the words of tfdist: the value received, the rule and the fix."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from tfdist.problems import Path, Problem, dotted, nearest, shown

_TYPES = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}

_LIMITS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}

# Keys that people write from habit, and where tfdist has them.
_ELSEWHERE = {
    "lr": "write it with the optimizer: optimizer: {name: adam, learning_rate: 0.001}",
    "batch_size": "write train.global_batch_size, the rows over all replicas",
    "gradient_accumulation_steps": "write train.accumulate_steps",
}


@dataclass(frozen=True)
class Variants:
    """A section that is one of several models.

    Attributes:
        key: The key that tells which one.
        models: The models, by its value.
        default: The model where the key is left out; None where it has to be there.
    """

    key: str
    models: Mapping[str, type[BaseModel]]
    default: type[BaseModel] | None = None

    def chosen_by(self, section: Any) -> type[BaseModel] | None:
        """Gives the model that a section has to fit; None where it names none that there is."""
        if not isinstance(section, dict) or self.key not in section:
            return self.default
        return self.models.get(str(section[self.key]))


def problems_of(
    error: ValidationError,
    data: Mapping[Any, Any],
    model: type[BaseModel],
    variants: Mapping[str, Variants],
) -> list[Problem]:
    """Gives what is wrong, once for each place.

    Args:
        error: What pydantic raised.
        data: What was validated.
        model: Against what.
        variants: The sections that are one of several models, by name.
    """
    grouped: dict[Path, list[Any]] = {}
    for each in error.errors():
        grouped.setdefault(_path(each, data, variants), []).append(each)
    problems = []
    for path, errors in grouped.items():
        # Of a union, each member complains; what is wrong deeper inside says more than "it is no text".
        if all(each["type"] in _TYPES for each in errors) and any(
            other[: len(path)] == path and other != path for other in grouped
        ):
            continue
        parent = _model_at(model, path[:-1], data, variants)
        problems.append(_problem(path, errors, parent, model, variants))
    return problems


def _path(error: Any, data: Any, variants: Mapping[str, Variants]) -> Path:
    """Gives the place in the data: pydantic's, without the names of the union's members."""
    path: list[str | int] = []
    for position, part in enumerate(error["loc"]):
        inside = (isinstance(data, dict) and part in data) or (
            isinstance(data, list) and isinstance(part, int) and part < len(data)
        )
        if inside:
            data = data[part]
            path.append(part)
        elif error["type"] == "missing" and position == len(error["loc"]) - 1:
            path.append(part)
    if error["type"] in ("union_tag_invalid", "union_tag_not_found"):
        path.append(variants[str(path[0])].key)
    return tuple(path)


def _model_at(
    model: type[BaseModel],
    path: Path,
    data: Any,
    variants: Mapping[str, Variants],
) -> type[BaseModel] | None:
    """Gives the model that the mapping at a path has to fit; None where anything goes."""
    current: type[BaseModel] | None = model
    by_name = False
    for part in path:
        data = data[part] if isinstance(data, dict) and part in data else None
        if by_name:  # a name that the user chose, for one of several of the same model
            by_name = False
        elif current is model and part in variants:
            current = variants[str(part)].chosen_by(data)
        else:
            field = current.model_fields.get(str(part)) if current else None
            current = _model_in(field.annotation) if field else None
            by_name = field is not None and typing.get_origin(field.annotation) is dict
    return None if by_name else current


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, typing.get_args(annotation))), None)


def _problem(
    path: Path,
    errors: Sequence[Any],
    parent: type[BaseModel] | None,
    model: type[BaseModel],
    variants: Mapping[str, Variants],
) -> Problem:
    first = errors[0]
    kind, received = first["type"], first["input"]
    context = first.get("ctx", {})
    key = str(path[-1]) if path else ""
    field = parent.model_fields.get(key) if parent else None
    fix = _write(path, field)
    if kind == "tfdist":
        return Problem(path, context["what"], context["fix"])
    if kind == "extra_forbidden":
        return _unknown_key(path, received, parent, model, variants)
    if kind == "missing":
        what = "the section is missing." if len(path) == 1 else "the key is missing; it has to be there."
        fix = fix.replace("write", "add", 1)
        section = variants.get(str(path[0]))
        if section is not None and section.default is parent is not None:
            fix += f"; or {section.key}, which is one of {', '.join(section.models)}"
        return Problem(path, what, fix)
    if kind == "union_tag_not_found":
        names = ", ".join(variants[str(path[0])].models)
        return Problem(path, f"the key is missing; the kinds are {names}.", "add, say, kind: mirrored")
    if kind in ("union_tag_invalid", "literal_error"):
        section = variants.get(str(path[0]))
        if section is not None and (kind == "union_tag_invalid" or path[1:] == (section.key,)):
            choices = list(section.models)
            received = received.get(section.key) if isinstance(received, dict) else received
        else:
            choices = [str(each) for each in _literals(field.annotation if field else None)]
        meant = nearest(received, choices)
        what = f"{shown(received)} is not one of {', '.join(choices)}."
        return Problem(path, what, f"did you mean {meant}?" if meant else f"write {key}: {choices[0]}")
    if kind in _LIMITS:
        name, words = _LIMITS[kind]
        return Problem(path, f"{shown(received)} is out of range; it has to be {words} {context[name]}.", fix)
    if kind == "finite_number":
        return Problem(path, f"{shown(received)} is not a finite number.", fix)
    if kind in _TYPES:
        return _wrong_type(path, errors, received, fix)
    return Problem(path, f"{shown(received)} is not valid: {first['msg']}.", fix)


def _wrong_type(path: Path, errors: Sequence[Any], received: Any, fix: str) -> Problem:
    expected = " or ".join(dict.fromkeys(_TYPES[each["type"]] for each in errors if each["type"] in _TYPES))
    if received is None:
        return Problem(path, f"it has no value; it is {expected}.", fix)
    if isinstance(received, str) and "number" in expected and _is_number(received):
        return Problem(
            path,
            f"{shown(received)} is text, not {expected}.",
            f"write {path[-1]}: {received}, without quotes",
        )
    if expected == "text" and isinstance(received, bool):
        fix += "; YAML reads yes, no, on and off as true or false unless they are in quotes"
    return Problem(path, f"{shown(received)} is not {expected}.", fix)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _literals(annotation: Any) -> tuple[Any, ...]:
    if typing.get_origin(annotation) is typing.Literal:
        return typing.get_args(annotation)
    return tuple(value for inner in typing.get_args(annotation) for value in _literals(inner))


def _unknown_key(
    path: Path,
    received: Any,
    parent: type[BaseModel] | None,
    model: type[BaseModel],
    variants: Mapping[str, Variants],
) -> Problem:
    key = str(path[-1])
    here = list(parent.model_fields) if parent else []
    section = variants.get(str(path[0])) if len(path) == 2 else None
    if section is not None and section.key in here:
        here = [section.key, *(name for name in here if name != section.key)]
    owner = _owner(path, parent, section)
    what = f"unknown key (received {shown(received)}). {owner} has {', '.join(here)}."
    elsewhere = {name: f"{section}.{name}" for section, name in _all_keys(model) if (section,) != path[:-1]}
    meant = nearest(key, here)
    moved = (
        f"did you mean {elsewhere[key]}? It belongs in the section {elsewhere[key].split('.')[0]}"
        if (key in elsewhere)
        else ""
    )
    if section is not None and section.default is not None and key in section.default.model_fields:
        fix = f"remove {key}, or remove {section.key}: {path[0]} has one of the two"
    elif meant and not moved:
        fix = f"did you mean {meant}?"
    elif key in _ELSEWHERE:
        fix = _ELSEWHERE[key]
    elif moved:
        fix = moved
    else:
        models = section.models if section is not None else {}
        others = [name for name, each in models.items() if key in each.model_fields]
        of = f"{section.key} " if section is not None and section.default is not None else ""
        fix = f"remove {key}" + (f"; it is an option of {of}{', '.join(others)}" if others else "")
    return Problem(path, what, fix)


def _owner(path: Path, parent: type[BaseModel] | None, section: Variants | None) -> str:
    field = parent.model_fields.get(section.key) if parent and section else None
    names = _literals(field.annotation) if field else ()
    place = dotted(path[:-1])
    return f"{place} of {section.key} {names[0]}" if section and names else place or "The file"


def _all_keys(model: type[BaseModel]) -> list[tuple[str, str]]:
    sections = {name: _model_in(field.annotation) for name, field in model.model_fields.items()}
    return [
        (name, key)
        for name, section in sections.items()
        if section and name != "strategy"
        for key in section.model_fields
    ]


def _write(path: Path, field: FieldInfo | None) -> str:
    """Gives a fix that writes an example of the right value."""
    examples = (field.examples or []) if field else []
    if not examples:
        choices = _literals(field.annotation) if field else ()
        if not choices:
            return f"correct the value of {dotted(path)}"
        examples = [choices[0]]
    return f"write {path[-1]}: {in_yaml(examples[0])}"


def in_yaml(value: Any) -> str:
    """Writes a value as YAML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {in_yaml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(in_yaml, value)) + "]"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, str) and (": " in value or (value.count(":") and not value[-1].isdigit())):
        return f'"{value}"'
    return str(value)
