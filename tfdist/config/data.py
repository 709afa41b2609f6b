"""The section `data`: a function, or a reader of files."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union

from pydantic import Discriminator, Field, Tag

from tfdist.config.section import Arguments, BuildPath, Positive, Section

FUNCTION = "a function"  # the tag of the section that names one; not to be mistaken for a key

Names = str | list[str]
Dtype = Literal[
    "float32",
    "float64",
    "float16",
    "int32",
    "int64",
    "int8",
    "int16",
    "uint8",
    "uint16",
    "bool",
    "string",
]
Number = Literal["float32", "int32", "int64"]
Interpolation = Literal[
    "bilinear", "nearest", "bicubic", "area", "lanczos3", "lanczos5", "gaussian", "mitchellcubic"
]


class DataSection(Section):
    """Data from a function."""

    build: BuildPath = Field(
        description=(
            "Function that returns a mapping with the key `train` and, if there is any, "
            "`validation`, as `module:function`. Each is a tuple of arrays `(x, y)` or `(x, y, "
            "sample_weight)`, or anything else that `fit` takes as `x`: a `tf.data.Dataset`, a "
            "`keras.utils.PyDataset`, a function that makes the pipeline of one task. Every task gets the "
            "same; tfdist gives each its part."
        ),
        examples=["my_data:load"],
    )
    args: Arguments = Field(
        default_factory=dict,
        description="Arguments for that function, by name.",
        examples=[{"folder": "data"}],
    )


class ReaderSection(Section):
    """What all readers have in common."""

    reader: str
    validation_split: float | None = Field(
        None,
        gt=0,
        lt=1,
        description=(
            "Part of the rows to validate on instead of training on them, spread evenly over the files."
        ),
        examples=[0.1],
    )
    drop_remainder: bool = Field(
        False,
        description="Whether to leave out the last batch of an epoch of training where it is smaller.",
        examples=[True],
    )
    prefetch: Positive = Field(4, description="Batches to read ahead.", examples=[8])


def _files(what: str) -> Any:
    return Field(
        min_length=1,
        description=(
            f"{what} to train on: a name or a glob, or a list of them, from the current folder. Sorted by "
            "name, so that every task has them in the same order."
        ),
        examples=["data/train-*"],
    )


def _validation_files(what: str) -> Any:
    return Field(None, min_length=1, description=f"{what} to validate on.", examples=["data/val-*"])


def _inputs(what: str, left_out: str = "") -> Any:
    text = f"{what} that the model gets, or a list of them{left_out}."
    return (
        Field(description=text, examples=["image"])
        if not left_out
        else Field(None, description=text, examples=[["age", "height"]])
    )


def _labels(what: str) -> Any:
    return Field(
        None,
        description=f"{what} that the model should give; a list for several outputs, by their names.",
        examples=["label"],
    )


def _weights(what: str) -> Any:
    return Field(None, description=f"{what} with the weight of the row.", examples=["weight"])


_CACHE: Any = Field(
    "none",
    description="`memory`: read and decode all rows once, and hold them in each task.",
    examples=["memory"],
)
_PARALLEL_READS: Any = Field(
    None,
    description="Batches to read and decode side by side. Left out: as many as processors.",
    examples=[8],
)
_STACK: Any = Field(
    True,
    description=(
        "Whether a list of inputs becomes one matrix with the columns side by side; `false`: a dict of "
        "inputs by name."
    ),
    examples=[False],
)
_MATRIX_DTYPE: Any = Field("float32", description="The type of that matrix.", examples=["int64"])


class FeatureSection(Section):
    """One feature of each record, of a fixed shape."""

    dtype: Dtype | None = Field(
        None,
        description=(
            "What the model gets. Whole numbers are read from int64 lists, other numbers from float lists. "
            "May be left out for images: `uint8`."
        ),
        examples=["float32"],
    )
    shape: list[Positive] = Field(
        default_factory=list,
        description="Its shape, without the rows; of an image, height, width and channels.",
        examples=[[28, 28, 1]],
    )
    encoding: Literal["raw", "image"] | None = Field(
        None,
        description=(
            "For bytes: `raw` for numbers as they lie in memory, little-endian; `image` for a JPEG, PNG, GIF "
            "or BMP file."
        ),
        examples=["image"],
    )
    resize: Interpolation | None = Field(
        None,
        description="How to bring images to `shape`. Left out: all have that size.",
        examples=["bilinear"],
    )


class TFRecordSection(ReaderSection):
    """TFRecord files of `tf.train.Example` records.

    Each task reads only its own rows, and an epoch is a new order of all of them. Compressed files, and those
    elsewhere (`gs://…`), are read from beginning to end.
    """

    reader: Literal["tfrecord"] = Field(description="Which reader.", examples=["tfrecord"])
    files: Names = _files("Files")
    validation_files: Names | None = _validation_files("Files")
    features: dict[str, FeatureSection] = Field(
        min_length=1,
        description="What to read of each record, by name.",
        examples=[
            {"image": {"dtype": "uint8", "shape": [28, 28], "encoding": "raw"}, "label": {"dtype": "int64"}}
        ],
    )
    inputs: Names = _inputs("Feature")
    labels: Names | None = _labels("Feature")
    weights: str | None = _weights("Feature")
    compression: Literal["auto", "none", "gzip"] = Field(
        "auto",
        description="How the files are compressed; `auto` goes by `.gz` in their names.",
        examples=["gzip"],
    )
    cache: Literal["none", "memory"] = _CACHE
    parallel_reads: Positive | None = _PARALLEL_READS
    shard: Literal["auto", "rows", "files"] | None = Field(
        None,
        description=(
            "For files read from beginning to end. `files`: each task reads files of its own. `rows`: each "
            "reads all, and works on its part of every batch. `auto`: by files where there are as many as"
            " tasks."
        ),
        examples=["files"],
    )
    shuffle_buffer: Positive | None = Field(
        None,
        description=(
            "For files read from beginning to end: records among which the next one is drawn. Left out:"
            " 10000."
        ),
        examples=[50000],
    )


class CSVSection(ReaderSection):
    """CSV files, read into the memory of each task."""

    reader: Literal["csv"] = Field(description="Which reader.", examples=["csv"])
    files: Names = _files("Files")
    validation_files: Names | None = _validation_files("Files")
    inputs: Names | None = _inputs("Column", ". Left out: all that are neither labels nor weights")
    labels: Names | None = _labels("Column")
    weights: str | None = _weights("Column")
    stack: bool = _STACK
    dtype: Number = _MATRIX_DTYPE
    delimiter: str = Field(
        ",", min_length=1, max_length=1, description="What stands between two values.", examples=[";"]
    )
    header: bool = Field(
        True, description="Whether the first line has the names of the columns.", examples=[False]
    )
    columns: list[str] | None = Field(
        None,
        description=(
            "Names for the columns, instead of those in the first line. Left out where there is no such "
            "line: f0, f1, …"
        ),
        examples=[["age", "height", "label"]],
    )


class NPZSection(ReaderSection):
    """NumPy archives, as `numpy.savez` writes them, read into the memory of each task."""

    reader: Literal["npz"] = Field(description="Which reader.", examples=["npz"])
    files: Names = _files("Files")
    validation_files: Names | None = _validation_files("Files")
    inputs: Names = _inputs("Array")
    labels: Names | None = _labels("Array")
    weights: str | None = _weights("Array")
    validation_inputs: Names | None = Field(
        None,
        description="Array to validate on; it is in the same files unless `validation_files` are given.",
        examples=["x_test"],
    )
    validation_labels: Names | None = Field(
        None, description="The labels of `validation_inputs`.", examples=["y_test"]
    )
    validation_weights: str | None = Field(
        None, description="The weights of the rows of `validation_inputs`.", examples=["w_test"]
    )


class ImagesSection(ReaderSection):
    """Image files in a folder for each class, as for `keras.utils.image_dataset_from_directory`."""

    reader: Literal["images"] = Field(description="Which reader.", examples=["images"])
    folder: str = Field(
        min_length=1,
        description="The folder with the folders of the classes, from the current folder.",
        examples=["data/train"],
    )
    validation_folder: str | None = Field(
        None, min_length=1, description="The same, to validate on.", examples=["data/val"]
    )
    image_size: list[Positive] = Field(
        default_factory=lambda: [256, 256],
        min_length=2,
        max_length=2,
        description="Height and width of what the model gets. Left out: 256 x 256.",
        examples=[[224, 224]],
    )
    color_mode: Literal["rgb", "grayscale", "rgba"] = Field(
        "rgb", description="Three channels, one or four.", examples=["grayscale"]
    )
    interpolation: Interpolation = Field("bilinear", description="How to resize.", examples=["bicubic"])
    aspect_ratio: Literal["stretch", "crop", "pad"] = Field(
        "stretch",
        description=(
            "What to do with images of another shape: stretch them, crop them around the middle, or pad them "
            "with zeros."
        ),
        examples=["crop"],
    )
    labels: Literal["int", "categorical", "binary", "none"] = Field(
        "int",
        description=(
            "The label of an image: the number of its class, one-hot, 0.0 or 1.0; `none`: images in any "
            "folders, without labels."
        ),
        examples=["categorical"],
    )
    classes: list[str] | None = Field(
        None,
        min_length=1,
        description="The classes in the order of their numbers. Left out: all folders, sorted by name.",
        examples=[["cat", "dog"]],
    )
    cache: Literal["none", "memory"] = _CACHE
    parallel_reads: Positive | None = _PARALLEL_READS


class ParquetSection(ReaderSection):
    """Parquet files, their columns read into the memory of each task."""

    reader: Literal["parquet"] = Field(description="Which reader.", examples=["parquet"])
    files: Names = _files("Files")
    validation_files: Names | None = _validation_files("Files")
    inputs: Names | None = _inputs(
        "Column", "; lists of equal length are a matrix. Left out: all that are neither labels nor weights"
    )
    labels: Names | None = _labels("Column")
    weights: str | None = _weights("Column")
    stack: bool = _STACK
    dtype: Number = _MATRIX_DTYPE


READERS: dict[str, type[Section]] = {
    "tfrecord": TFRecordSection,
    "csv": CSVSection,
    "npz": NPZSection,
    "images": ImagesSection,
    "parquet": ParquetSection,
}


def _which(given: Any) -> str:
    reader = given.get("reader", FUNCTION) if isinstance(given, dict) else getattr(given, "reader", FUNCTION)
    return str(reader)


AnyData = Annotated[
    Union[  # noqa: UP007 - with each member's tag
        Annotated[DataSection, Tag(FUNCTION)],
        Annotated[TFRecordSection, Tag("tfrecord")],
        Annotated[CSVSection, Tag("csv")],
        Annotated[NPZSection, Tag("npz")],
        Annotated[ImagesSection, Tag("images")],
        Annotated[ParquetSection, Tag("parquet")],
    ],
    Discriminator(_which),
]
