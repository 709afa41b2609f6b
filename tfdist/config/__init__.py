"""The YAML file as typed models: strict, with the line of every mistake; one schema for editors and docs."""

from tfdist.config.loading import load
from tfdist.config.model import RunConfig
from tfdist.config.schema import json_schema

__all__ = ["RunConfig", "json_schema", "load"]
