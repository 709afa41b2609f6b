"""Every kind of bad section `data`: its text, then the line, the key, words of the error and of the fix."""

TFRECORD = """\
model: {build: "my_model:build_model"}
train: {global_batch_size: 64}
data:
  reader: tfrecord
  files: "data/train-*.tfrecord"
  features:
    image: {dtype: uint8, shape: [8, 8], encoding: raw}
    label: {dtype: int64}
  inputs: image
  labels: label
"""


def tfrecord(before, after):
    assert before in TFRECORD
    return TFRECORD.replace(before, after)


def data(section):
    return TFRECORD.partition("data:")[0] + f"data: {section}\n"


DATA_CASES = {
    "no function and no reader": (
        data("{}"),
        3,
        "data.build",
        "missing",
        "or reader, which is one of tfrecord, csv, npz, images, parquet",
    ),
    "a function and a reader": (
        data('{reader: csv, files: a, build: "my_model:load"}'),
        3,
        "data.build",
        "data of reader csv has reader, ",
        "remove build, or remove reader",
    ),
    "a key of a reader beside a function": (
        data('{build: "my_model:load", files: a}'),
        3,
        "data.files",
        "data has build, args",
        "option of reader tfrecord, csv, npz, parquet",
    ),
    "unknown reader": (
        tfrecord("reader: tfrecord", "reader: tfrecords"),
        4,
        "data.reader",
        "'tfrecords' is not one of tfrecord, csv, npz, images, parquet",
        "mean tfrecord?",
    ),
    "unknown key of a reader": (
        tfrecord("labels:", "lables:"),
        10,
        "data.lables",
        "data of reader tfrecord has reader, ",
        "mean labels?",
    ),
    "key of another reader": (
        tfrecord("labels:", "delimiter: x\n  labels:"),
        10,
        "data.delimiter",
        "(received 'x')",
        "remove delimiter; it is an option of reader csv",
    ),
    "shuffle beside the reader": (
        tfrecord("labels:", "shuffle: yes\n  labels:"),
        10,
        "data.shuffle",
        "(received True)",
        "mean train.shuffle?",
    ),
    "reader without files": (
        data("{reader: csv}"),
        3,
        "data.files",
        "missing",
        "add files: data/train-*",
    ),
    "reader without features": (
        data("{reader: tfrecord, files: a, inputs: x}"),
        3,
        "data.features",
        "missing",
        "add features: {image: {",
    ),
    "unknown key of a feature": (
        tfrecord("dtype: int64", "dtpye: int64"),
        8,
        "data.features.label.dtpye",
        "data.features.label has dtype, shape, encoding, resize",
        "mean dtype?",
    ),
    "unknown type of a feature": (
        tfrecord("dtype: int64", "dtype: int46"),
        8,
        "data.features.label.dtype",
        "'int46' is not one of float32",
        "mean int64?",
    ),
    "shape that is no list": (
        tfrecord("[8, 8]", "64"),
        7,
        "data.features.image.shape",
        "64 is not a list",
        "shape: [28, 28, 1]",
    ),
    "feature without a type": (
        tfrecord("dtype: int64", "shape: [1]"),
        8,
        "data.features.label.dtype",
        "missing",
        "add dtype: float32",
    ),
    "image without channels": (
        tfrecord("encoding: raw", "encoding: image"),
        7,
        "data.features.image.shape",
        "[8, 8] is not the shape of an image",
        "shape: [224, 224, 3]",
    ),
    "resize of what is no image": (
        tfrecord("encoding: raw", "encoding: raw, resize: nearest"),
        7,
        "data.features.image.resize",
        "no effect",
        "encoding: image",
    ),
    "input that is no feature": (
        tfrecord("inputs: image", "inputs: [image, imgae]"),
        9,
        "data.inputs[1]",
        "'imgae' is not one of the features, which are image, label",
        "mean image?",
    ),
    "feature that nothing reads": (
        tfrecord("  labels: label\n", ""),
        8,
        "data.features.label",
        "nothing would read it",
        "remove it",
    ),
    "two ways to validate": (
        tfrecord("labels:", "validation_split: 0.1\n  validation_files: a\n  labels:"),
        10,
        "data.validation_split",
        "beside validation_files",
        "remove validation_split",
    ),
    "split out of range": (
        tfrecord("labels:", "validation_split: 10\n  labels:"),
        10,
        "data.validation_split",
        "10",
        "validation_split: 0.1",
    ),
    "buffer without shuffle": (
        tfrecord("labels:", "shuffle_buffer: 5\n  labels:").replace("64}", "64, shuffle: false}", 1),
        10,
        "data.shuffle_buffer",
        "5 has no effect",
        "remove shuffle_buffer",
    ),
    "reader without a batch size": (
        tfrecord("{global_batch_size: 64}", "{epochs: 1}"),
        2,
        "train.global_batch_size",
        "missing",
        "global_batch_size: 64",
    ),
    "column that is not listed": (
        data("{reader: csv, files: a, header: false, columns: [age, y], labels: Y2}"),
        3,
        "data.labels",
        "'Y2' is not one of the columns, which are age, y",
        "mean y?",
    ),
    "stack of a single column": (
        data("{reader: parquet, files: a, inputs: x, stack: false}"),
        3,
        "data.stack",
        "no effect",
        "remove stack",
    ),
    "labels to validate on without inputs": (
        data("{reader: npz, files: a, inputs: x, validation_labels: y}"),
        3,
        "data.validation_labels",
        "without validation_inputs",
        "validation_inputs: x_test",
    ),
    "image size of one number": (
        data("{reader: images, folder: a, image_size: 224}"),
        3,
        "data.image_size",
        "224 is not a list",
        "image_size: [224, 224]",
    ),
    "classes without labels": (
        data("{reader: images, folder: a, labels: none, classes: [cat]}"),
        3,
        "data.classes",
        "no effect",
        "remove classes",
    ),
}
