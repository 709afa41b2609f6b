"""How output is cut into lines and shown, and when a silent start is remarked on."""

from __future__ import annotations

import io

import pytest

from tfdist.cluster import Task
from tfdist.launch.output import LONGEST_LINE, Console, LineCutter, StartupWatch


def cut(*chunks: bytes) -> list[str]:
    cutter = LineCutter()
    lines = [line for chunk in chunks for line in cutter.feed(chunk, 0.0)]
    return lines + cutter.finish()


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([b"a\nb\n"], ["a", "b"]),
        ([b"a", b"b", b"\nc"], ["ab", "c"]),
        ([b"\n\n"], ["", ""]),
        ([b"a\r\n", b"b\r", b"\n"], ["a", "b"]),
        ([b" 1%\r 2%\r", b" 3%\r\n"], [" 3%"]),
        ([b"100%\r    \r"], ["100%"]),
        (["é".encode()[:1], "é\n".encode()[1:]], ["é"]),
        ([b"\xff\n"], ["\ufffd"]),
        ([b"\x1b[2K\x1b[1A\x1b[31mred\x1b[0m\x08\x08\n"], ["\x1b[31mred\x1b[0m"]),
        ([b"x" * LONGEST_LINE + b"y\n"], ["x" * LONGEST_LINE, "y"]),
        ([b"x" * (2 * LONGEST_LINE)] * 2, ["x" * LONGEST_LINE] * 4),
    ],
)
def test_lines(chunks: list[bytes], lines: list[str]) -> None:
    assert cut(*chunks) == lines


def test_endless_bar_takes_little_memory_and_is_shown_at_times() -> None:
    cutter = LineCutter()
    shown = []
    for second in range(60):
        assert cutter.feed(b"\r%d %%" % second + b" " * 1000, float(second)) == []
        shown += cutter.overdue(second + 0.5)
    assert [line.strip() for line in shown] == ["10 %", "21 %", "32 %", "43 %", "54 %"]


def test_unfinished_line_is_shown_after_a_pause() -> None:
    cutter = LineCutter()
    assert cutter.feed(b"connecting ...", 0.0) == []
    assert cutter.overdue(0.5) == []
    assert cutter.overdue(1.5) == ["connecting ..."]
    assert cutter.overdue(3.0) == []
    assert cutter.feed(b" done\n", 4.0) == [" done"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        Console(stream).show(Task("worker", 1), ["hello"])
    assert terminal.getvalue() == "\x1b[33m[worker:1]\x1b[0m hello\n"
    assert file.getvalue() == "[worker:1] hello\n"
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    Console(plain).show(Task("worker", 1), ["hello"])
    assert plain.getvalue() == "[worker:1] hello\n"


def test_characters_that_the_console_lacks() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Console(stream).show(Task("worker", 0), ["naïve"])
    assert stream.buffer.getvalue() == b"[worker:0] na?ve\n"


def test_silent_start_is_remarked_on_now_and_then() -> None:
    watch = StartupWatch(0.0)
    chief, worker = Task("chief"), Task("worker", 1)
    watch.heard(10.0)
    remarks = {
        second: remark for second in range(600) if (remark := watch.remark([chief, worker], float(second)))
    }
    assert list(remarks) == [25, 55, 115, 235, 475]
    assert remarks[25] == "still waiting: no output from chief:0, worker:1 in the 25 s since the start"
    assert not watch.remark([], 10_000.0)
