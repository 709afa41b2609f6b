"""What every section of the YAML file has in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

Positive = Annotated[int, Field(gt=0)]


class Section(BaseModel):
    """Base of every section: no unknown keys, no conversions, no changes afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def refuse(what: str, fix: str) -> PydanticCustomError:
    """Makes the error that a validator raises; `fix` becomes the `Fix:` line."""
    return PydanticCustomError("tfdist", "{what}", {"what": what, "fix": fix})
