"""What every section of the YAML file has in common."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from tfdist.config import build_path

Positive = Annotated[int, Field(gt=0)]


class Section(BaseModel):
    """Base of every section: no unknown keys, no conversions, no changes afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def refuse(what: str, fix: str) -> PydanticCustomError:
    """Makes the error that a validator raises; `fix` becomes the `Fix:` line."""
    return PydanticCustomError("tfdist", "{what}", {"what": what, "fix": fix})


def _checked_build(text: str) -> str:
    wrong = build_path.mistake(text)
    if wrong:
        raise refuse(*wrong)
    return text


BuildPath = Annotated[str, AfterValidator(_checked_build)]
Arguments = dict[str, Any]
