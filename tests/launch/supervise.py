"""Run `run_local` in a process of its own: `supervise.py CLUSTER ACTIONS DEFAULT GRACE`."""

import json
import signal
import sys
from pathlib import Path

from absl import logging

from tfdist.cluster import Cluster
from tfdist.launch.local import run_local

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background ignores it
    logging.set_verbosity(logging.INFO)
    cluster, actions, default, grace = sys.argv[1:]
    child = Path(__file__).with_name("child.py")
    sys.exit(
        run_local(
            [sys.executable, str(child), actions, default],
            Cluster.local(**json.loads(cluster)),
            stop_grace=float(grace),
        )
    )
