import pytest


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Gives a function that writes a YAML file beside a module with the functions it names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TF_CONFIG", raising=False)
    (tmp_path / "my_model.py").write_text(
        "raise ImportError('must not be imported')\ndef build_model(): ...\nload = build_model\n"
    )

    def write(text):
        (tmp_path / "run.yaml").write_text(text)
        return "run.yaml"

    return write
