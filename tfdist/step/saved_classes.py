"""The classes of tfdist that a saved model can hold. Keras loads one only after its module was imported."""

from tfdist.step.lamb import LAMB
from tfdist.step.lars import LARS
from tfdist.step.schedule import PlannedSchedule

__all__ = ["LAMB", "LARS", "PlannedSchedule"]
