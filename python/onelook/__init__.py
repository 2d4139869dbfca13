"""Train, validate, run and export YOLO26: a thin layer over libonelook (standard library and numpy only)."""

from ._library import OnelookError, version
from .devices import device_count, devices, is_available, why_not
from .model import YOLO
from .results import Boxes, Metrics, Results

__all__ = ["YOLO", "Results", "Boxes", "Metrics", "device_count", "devices", "is_available", "why_not", "OnelookError", "version"]
__version__ = version()
