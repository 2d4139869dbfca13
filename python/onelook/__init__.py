"""Train, validate, run and export YOLO26: a thin layer over libonelook (standard library and numpy only)."""

from ._library import OnelookError, version
from .model import YOLO
from .results import Boxes, Metrics, Results

__all__ = ["YOLO", "Results", "Boxes", "Metrics", "OnelookError", "version"]
__version__ = version()
