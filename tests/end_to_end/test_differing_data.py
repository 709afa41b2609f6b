"""Workers that read other rows than one another are told so, instead of training on the wrong rows in
silence.
"""

from pathlib import Path

from tests.processes import run_tasks
from tfdist.cluster import Cluster


def test_an_unseeded_shuffle_is_refused() -> None:
    script = Path(__file__).with_name("differing_data.py")
    for result in run_tasks(script, Cluster.local(workers=2), timeout=120):
        assert f"refused: {result.task} read other rows than the other tasks" in result.output
        assert "shuffle(seed=7)" in result.output
        assert "trained on the seeded one: 4 steps" in result.output
