"""NumPy archives, their arrays read into memory once."""

from __future__ import annotations

import zipfile
import zlib

import numpy as np

from tfdist.data.readers.choice import Choice, Names
from tfdist.data.readers.errors import ReaderError, unknown_name
from tfdist.data.readers.files import Patterns, matching_files
from tfdist.data.readers.memory import RowsInMemory


def read_npz(
    files: Patterns, inputs: Names, labels: Names | None = None, weights: str | None = None
) -> RowsInMemory:
    """Reads arrays of `.npz` files, as `numpy.savez` writes them, into memory.

    Args:
        files: A glob or several; the rows of several files come one after the other.
        inputs: An array, or a list of them: x is then a dict by name.
        labels: An array, or a list of them: y is then a dict by name.
        weights: The array with the weights of the rows.

    Returns:
        Rows that `tfdist.fit` takes as `x`.

    Raises:
        ConfigError: No file matches, one is damaged, or an array is missing or has another number of rows.
    """
    choice = Choice(inputs, labels, weights)
    names = matching_files(files)
    parts = []
    for name in names:
        try:
            with np.load(name, allow_pickle=False) as archive:
                if not isinstance(archive, np.lib.npyio.NpzFile):
                    raise ReaderError("files", f"{name} is a single array.", "write it with numpy.savez")
                for argument, wanted in choice.names():
                    if wanted not in archive.files:
                        raise unknown_name(argument, wanted, "array", name, archive.files)
                arrays = {wanted: archive[wanted] for _, wanted in choice.names()}
        except (OSError, ValueError, zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise ReaderError(
                "files", f"{name} cannot be read as an .npz file: {error}", "write or copy the file again"
            ) from error
        shapes = {wanted: array.shape for wanted, array in arrays.items()}
        if len({shape[:1] for shape in shapes.values()}) > 1 or () in shapes.values():
            raise ReaderError(
                "inputs",
                f"{name}: the arrays have the shapes {shapes}; each has to have one entry per row.",
                "name arrays that belong together",
            )
        parts.append(choice.arrange(arrays))
    return RowsInMemory.of_files(parts, names)
