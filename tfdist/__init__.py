"""tfdist trains Keras 3 models on TensorFlow over many devices: N devices behave as one big device.

The names below are loaded when first used, so that `import tfdist` does not import TensorFlow.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfdist.cluster import Cluster, Task
    from tfdist.data.dataset_fn import DataContext
    from tfdist.data.position import Position
    from tfdist.data.sampler import DistributedSampler
    from tfdist.diagnose.data_report import data_report
    from tfdist.errors import ClusterError, ConfigError, TfdistError, TrainingError
    from tfdist.step.distributed_optimizer import DistributedOptimizer
    from tfdist.step.lamb import LAMB
    from tfdist.step.lars import LARS
    from tfdist.step.learning_rate import LearningRate
    from tfdist.strategies.registry import make_strategy
    from tfdist.training.fit import fit
    from tfdist.training.trainer import Trainer

_HOMES = {
    "LAMB": "tfdist.step.lamb",
    "LARS": "tfdist.step.lars",
    "Cluster": "tfdist.cluster",
    "ClusterError": "tfdist.errors",
    "ConfigError": "tfdist.errors",
    "DataContext": "tfdist.data.dataset_fn",
    "DistributedSampler": "tfdist.data.sampler",
    "Position": "tfdist.data.position",
    "LearningRate": "tfdist.step.learning_rate",
    "DistributedOptimizer": "tfdist.step.distributed_optimizer",
    "Task": "tfdist.cluster",
    "TfdistError": "tfdist.errors",
    "Trainer": "tfdist.training.trainer",
    "TrainingError": "tfdist.errors",
    "data_report": "tfdist.diagnose.data_report",
    "fit": "tfdist.training.fit",
    "make_strategy": "tfdist.strategies.registry",
}

_here = Path(__file__).parent
# In a checkout `strategies/` stands beside this package; see `package-dir` in pyproject.toml.
if not (_here / "strategies").exists():
    __path__.append(str(_here.parent))

__version__ = "0.1.0"
__all__ = [
    "LAMB",
    "LARS",
    "Cluster",
    "ClusterError",
    "ConfigError",
    "DataContext",
    "DistributedOptimizer",
    "DistributedSampler",
    "LearningRate",
    "Position",
    "Task",
    "TfdistError",
    "Trainer",
    "TrainingError",
    "data_report",
    "fit",
    "make_strategy",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tfdist' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])


if "keras" in sys.modules:  # so that keras.models.load_model knows the classes of models saved with tfdist
    importlib.import_module("tfdist.step.saved_classes")
