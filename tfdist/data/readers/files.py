"""Which files a pattern means, in the same order in every task."""

from __future__ import annotations

import difflib
import glob
import os
from collections.abc import Sequence
from pathlib import Path

from tfdist.data.readers.errors import ReaderError
from tfdist.problems import shown

Patterns = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def matching_files(patterns: Patterns) -> list[str]:
    """Finds the files that one or several patterns match, sorted by name, each once.

    Args:
        patterns: Names or globs (`*`, `?`, `[ab]`, and `**` for any folders between), relative to the current
            folder; or addresses such as `gs://bucket/train-*`, which TensorFlow reads.

    Raises:
        ReaderError: A pattern matches no file.

    Example:
        >>> [Path(name).name for name in matching_files(__file__)]
        ['files.py']
    """
    given = [patterns] if isinstance(patterns, str | os.PathLike) else list(patterns)
    if not given:
        raise ReaderError("files", "the list is empty.", 'write files: "data/train-*"')
    found: set[str] = set()
    for each in given:
        pattern = os.fspath(each)
        matched = _remote(pattern) if is_remote(pattern) else _local(pattern)
        if not matched:
            raise _no_match(pattern)
        found.update(matched)
    return sorted(found)


def is_remote(name: str) -> bool:
    """Tells whether a name is the address of a file elsewhere."""
    return "://" in name


def identity_of(files: Sequence[str]) -> str:
    """Gives names and sizes of files: the folders may differ between machines. Of files elsewhere, names."""
    sizes = ("" if is_remote(name) else f":{os.path.getsize(name)}" for name in files)
    return " ".join(f"{Path(name).name}{size}" for name, size in zip(files, sizes, strict=True))


def _local(pattern: str) -> list[str]:
    names = [pattern] if os.path.exists(pattern) else glob.glob(pattern, recursive=True)
    return [os.path.normpath(name) for name in names if os.path.isfile(name)]


def _remote(pattern: str) -> list[str]:
    import tensorflow as tf

    try:
        return list(tf.io.gfile.glob(pattern))
    except tf.errors.OpError as error:
        raise ReaderError(
            "files",
            f"{shown(pattern)} cannot be listed: {str(error).splitlines()[0]}",
            "check the address and the access to it",
        ) from error


def _no_match(pattern: str) -> ReaderError:
    if is_remote(pattern):
        return ReaderError("files", f"{shown(pattern)} matches no file.", "check the address")
    folder, name = os.path.split(pattern)
    place = Path(folder or ".")
    if os.path.isdir(pattern):
        return ReaderError(
            "files", f"{shown(pattern)} is a folder, not a file.", f'write files: "{pattern}/*"'
        )
    if not glob.has_magic(folder) and not place.is_dir():
        return ReaderError(
            "files",
            f"{shown(pattern)} matches no file: there is no folder {place.absolute()}.",
            f"check the path; it starts from the current folder, {Path.cwd()}",
        )
    looked = place if not glob.has_magic(folder) else Path.cwd()
    there = sorted(each.name for each in looked.iterdir() if each.is_file())
    near = difflib.get_close_matches(name, there, n=3, cutoff=0.5)
    some = ", ".join(near or there[:3]) if there else "no file at all"
    return ReaderError(
        "files",
        f"{shown(pattern)} matches no file in {looked.absolute()}, which has {some}.",
        f"did you mean {near[0]}?" if near else "correct the pattern, or write the files first",
    )
