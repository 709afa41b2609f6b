"""Reads the documentation: its fenced blocks, with their place and the comment that stands before them."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_BLOCK = re.compile(
    r"(?:^<!-- (?P<note>[^\n]*) -->\n)?^```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$", re.M | re.S
)


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: The file.
        line: The line of its first text.
        language: What stands behind the fence.
        text: The text.
        file: The file that it shows, by a comment `file: NAME` before it.
        needs: The files that it needs, by a comment `run with: NAME …` before it: it runs on its own.
    """

    page: Path
    line: int
    language: str
    text: str
    file: str
    needs: tuple[str, ...]

    @property
    def place(self):
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(language=None):
    """Gives the blocks of all pages, or those in one language."""
    found = []
    for page in PAGES:
        content = page.read_text()
        for match in _BLOCK.finditer(content):
            kind, _, names = (match["note"] or "").partition(": ")
            found.append(
                Block(
                    page,
                    content.count("\n", 0, match.start("text")) + 1,
                    match["language"],
                    match["text"],
                    names if kind == "file" else "",
                    tuple(names.split()) if kind == "run with" else (),
                )
            )
    return [block for block in found if language in (None, block.language)]


def write_files(block, folder):
    """Writes the files that a block needs, as its page shows them."""
    shown = {each.file: each.text for each in blocks() if each.page == block.page and each.file}
    for name in block.needs:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(shown[name])
