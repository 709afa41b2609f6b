import pytest

from tfdist import yaml_source
from tfdist.errors import ConfigError


def test_knows_the_line_of_every_key_and_item(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("a: 1\nb:\n  c:\n    - x\n    - {d: 2}\n")
    source = yaml_source.read(file)
    assert source.data == {"a": 1, "b": {"c": ["x", {"d": 2}]}}
    assert source.locate(("b", "c", 1, "d")) == f"{file}:5"
    assert source.locate(("b", "not there")) == f"{file}:2"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1E5", 1e5),
        ("1.5e3", 1500.0),
        (".5", 0.5),
        ("1_000", 1000),
        ("010", 10),
        ("0x10", 16),
        ("0o10", 8),
        ("-3", -3),
        (".inf", float("inf")),
        ("12:30", "12:30"),
        ("2024-01-01", "2024-01-01"),
        ("host:2222", "host:2222"),
        ("10.0.0.1:22", "10.0.0.1:22"),
        ("=", "="),
        ("no", False),
        ('"no"', "no"),
        ("null", None),
        ("", None),
    ],
)
def test_scalars_are_what_the_user_meant(text, value):
    data = yaml_source.read_text(f"a: {text}", "x").data
    assert data == {"a": value}
    assert type(data["a"]) is type(value)


def test_keys_on_and_no_are_text_and_numbers_are_numbers():
    assert yaml_source.read_text("on: 1\nno: 2\n3: 4\n", "x").data == {"on": 1, "no": 2, 3: 4}


def test_merge_keys():
    text = "base: &base {a: 1, b: 2}\nmore: {<<: *base, b: 3}\nboth: {<<: [{a: 4}, *base]}\n"
    data = yaml_source.read_text(text, "x").data
    assert data["more"] == {"a": 1, "b": 3}
    assert data["both"] == {"a": 4, "b": 2}


@pytest.mark.parametrize(
    ("text", "place", "words", "fix"),
    [
        ("a: 1\nb: 2\na: 3\n", ":3", "duplicate key: line 1 has it too", "keep one"),
        ("t:\n  a: 1\n  a: 3\n", ":3", "'a' is a duplicate key", "keep one"),
        ("a: [1, 2\n", ":2", "not valid YAML", "brackets"),
        ("a:\n\t- b\n", ":2", "not valid YAML", "spaces"),
        ("a: b: c\n", ":1", "not valid YAML", "indentation"),
        ("a: *nothing\n", ":1", "undefined alias", "anchor"),
        ("a: !!python/object/apply:os.system [ls]\n", ":1", "tag", "plain values"),
        ("a: !secret x\n", ":1", "tag", "plain values"),
        ("a: 1\n---\nb: 2\n", ":2", "not valid YAML", "one document"),
        ("a: &a [*a]\n", ":1", "holds itself", "remove"),
        ("[a]: 1\n", ":1", "a key that is", "name before the colon"),
        ("- a\n", ":1", "['a'], not a mapping", "begin with keys"),
        ("just text\n", ":1", "'just text', not a mapping", "begin with keys"),
        ("", "", "the file is empty", "docs/yaml.md"),
        ("# only a comment\n", "", "the file is empty", "docs/yaml.md"),
    ],
)
def test_mistakes_name_file_line_and_fix(tmp_path, text, place, words, fix):
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        yaml_source.read(file)
    assert caught.value.problem.startswith(f"{file}{place}:")
    assert words in caught.value.problem
    assert fix in caught.value.fix


def test_missing_file_names_the_nearest(tmp_path):
    (tmp_path / "digits.yaml").write_text("a: 1")
    with pytest.raises(ConfigError, match="there is no such file") as caught:
        yaml_source.read(tmp_path / "digit.yaml")
    assert caught.value.fix == f"did you mean {tmp_path / 'digits.yaml'}?"
    with pytest.raises(ConfigError, match="does not exist either"):
        yaml_source.read(tmp_path / "nowhere" / "digits.yaml")


def test_what_is_no_text_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        yaml_source.read(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9\n")
    with pytest.raises(ConfigError, match="not UTF-8"):
        yaml_source.read(tmp_path / "latin.yaml")
