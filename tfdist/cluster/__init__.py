"""Who is in the job, which task this process is, and whether the others can be reached.

Pure data: nothing here imports TensorFlow.
"""

from tfdist.cluster.cluster import Cluster
from tfdist.cluster.discovery import discover, resolve
from tfdist.cluster.task import TASK_TYPES, Task

__all__ = ["TASK_TYPES", "Cluster", "Task", "discover", "resolve"]
