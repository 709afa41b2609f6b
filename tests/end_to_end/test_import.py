"""The package comes without TensorFlow, which takes seconds, until something needs it."""

import subprocess
import sys

PROGRAM = """
import sys

import tfdist

assert {"fit", "Trainer", "Cluster", "make_strategy"} <= set(dir(tfdist)), dir(tfdist)
cluster = tfdist.Cluster.local(workers=2)
cluster.tf_config(cluster.tasks[1])
loaded = {name.partition(".")[0] for name in sys.modules} & {"tensorflow", "keras", "numpy"}
assert not loaded, loaded
"""


def test_cluster_and_names_come_without_tensorflow() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
