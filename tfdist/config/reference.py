"""The reference of the YAML file as Markdown, made from the schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tfdist.config.schema import DEFAULT_KIND, KindLike, json_schema
from tfdist.config.validation import in_yaml

_HEAD = """\
<!-- Made by `tfdist schema --markdown > docs/yaml.md` from the descriptions in tfdist/config. -->

# The YAML file

`tfdist fit CONFIG` reads one YAML file. Unknown keys, wrong types and impossible sums are errors that name
the file, the line and the fix; nothing is ignored. Numbers such as `1e-3` are numbers.

Any value can be replaced on the command line; the value is read as YAML:

```
tfdist fit my.yaml --set train.epochs=20 --set 'train.optimizer={name: adamw, weight_decay: 0.01}'
```

For completion and checks while you type, give your editor the JSON Schema that `tfdist schema` prints. With
the YAML extension of VS Code: `tfdist schema > tfdist.schema.json`, and as the first line of the file
`# yaml-language-server: $schema=tfdist.schema.json`.

A whole file:

```yaml
strategy: {kind: multi_worker_mirrored, communication: ring}
cluster: {local: {workers: 2}}
model: {build: "my_model:build_model", args: {hidden: 128}}
data: {build: "my_model:load"}
train:
  global_batch_size: 64
  epochs: 10
  optimizer: {name: adamw, weight_decay: 0.01}
  loss: sparse_categorical_crossentropy
  metrics: [accuracy]
  seed: 7
launch: {startup_timeout: 60}
```
"""

_TYPES = {
    "integer": "whole number",
    "number": "number",
    "string": "text",
    "boolean": "true or false",
    "array": "list",
    "object": "mapping",
}

_LIMITS = {
    "minimum": "at least",
    "exclusiveMinimum": "more than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
}


def markdown(kinds: Mapping[str, KindLike]) -> str:
    """Gives the text of docs/yaml.md for these strategy kinds."""
    schema = json_schema(kinds)
    return "\n".join([_HEAD, *_sections(schema), ""])


def _sections(schema: dict[str, Any]) -> Iterator[str]:
    definitions = schema["$defs"]
    required = schema.get("required", [])
    yield "| section | |"
    yield "|---|---|"
    for name, section in schema["properties"].items():
        text = _description(section, definitions)
        yield f"| [`{name}`](#{name}) | {text}{' Required.' if name in required else ''} |"
    for name, section in schema["properties"].items():
        yield f"\n## {name}\n"
        yield _description(section, definitions)
        if section.get("examples"):
            yield f"\n```yaml\n{name}: {in_yaml(section['examples'][0])}\n```"
        kinds = section.get("discriminator", {}).get("mapping")
        if kinds:
            yield f"\nLeft out: `{{kind: {DEFAULT_KIND}}}`."
            for kind, reference in kinds.items():
                definition = definitions[reference.rpartition("/")[2]]
                yield f"\n### kind: {kind}\n\n{definition['description']}\n"
                yield from _table(definition, definitions, leave_out="kind")
        elif "oneOf" in section:
            yield "\nOne of:"
            for each in section["oneOf"]:
                definition = _definition(each, definitions)
                reader = definition["properties"].get("reader", {}).get("const")
                yield f"\n### {f'reader: {reader}' if reader else 'build'}\n\n{definition['description']}\n"
                yield from _table(definition, definitions, leave_out="reader")
            yield from _inner("data.features", definitions["FeatureSection"], definitions)
        else:
            definition = _definition(section, definitions)
            yield ""
            yield from _table(definition, definitions)
            for key, value in definition["properties"].items():
                inner = _definition(value, definitions)
                if "properties" in inner:
                    yield from _inner(f"{name}.{key}", inner, definitions)


def _inner(name: str, definition: dict[str, Any], definitions: dict[str, Any]) -> Iterator[str]:
    yield f"\n### {name}\n\n{definition['description']}\n"
    yield from _table(definition, definitions)


def _definition(value: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Gives what a value refers to; the value itself if it refers to nothing."""
    for each in (value, *value.get("anyOf", ())):
        if "$ref" in each:
            found: dict[str, Any] = definitions[each["$ref"].rpartition("/")[2]]
            return found
    return value


def _description(value: dict[str, Any], definitions: dict[str, Any]) -> str:
    return str(value.get("description") or _definition(value, definitions).get("description", ""))


def _table(definition: dict[str, Any], definitions: dict[str, Any], leave_out: str = "") -> Iterator[str]:
    keys = {key: value for key, value in definition["properties"].items() if key != leave_out}
    if not keys:
        yield "No options."
        return
    yield "| key | value | default | |"
    yield "|---|---|---|---|"
    for key, value in keys.items():
        required = key in definition.get("required", ())
        default = "required" if required else _default(value)
        example = f" Example: `{in_yaml(value['examples'][-1])}`." if value.get("examples") else ""
        cells = (f"`{key}`", _type(value, definitions), default, _description(value, definitions) + example)
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(value: dict[str, Any]) -> str:
    return f"`{in_yaml(value['default'])}`" if value.get("default") is not None else ""


def _type(value: dict[str, Any], definitions: dict[str, Any]) -> str:
    if "$ref" in value:
        return _type(definitions[value["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in value:
        options = [_type(each, definitions) for each in value["anyOf"] if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(options))
    if "enum" in value or "const" in value:
        return " or ".join(f"`{each}`" for each in value.get("enum", [value.get("const")]))
    text = _TYPES.get(value.get("type", ""), "any")
    if text == "list":
        text = f"list of {_type(value.get('items', {}), definitions)}"
    limits = [f"{words} {value[name]}" for name, words in _LIMITS.items() if name in value]
    return f"{text}, {' and '.join(limits)}" if limits else text
