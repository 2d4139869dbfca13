"""The YOLO class: the same names and arguments as the command line (docs/cli.md)."""

import ctypes

import numpy as np

from ._library import (RESULT_FN, Context, MetricsStruct, ModelInfo, Options, Picture, TrainResult, from_c, lib, to_c)
from .results import Metrics, Results


class YOLO:
    """A model: `YOLO("yolo26n.pt")` for weights, `YOLO("yolo26n.yaml")` for a fresh one."""

    def __init__(self, model="yolo26n.pt", task=None, verbose=True):
        self._handle = ctypes.c_void_p()
        self._context = Context(verbose)
        if task not in (None, "detect"):
            raise NotImplementedError(f"task={task!r} is not supported; this version knows 'detect'")
        self._context.check(lib.ol_model_load(self._context.handle, to_c(model), ctypes.byref(self._handle)))

    def __del__(self):
        if getattr(self, "_handle", None):
            lib.ol_model_destroy(self._handle)
            self._handle = None

    def _info(self):
        info = ModelInfo(struct_bytes=ctypes.sizeof(ModelInfo))
        self._context.check(lib.ol_model_get_info(self._handle, ctypes.byref(info)))
        return info

    @property
    def names(self):
        info = self._info()
        return {i: from_c(info.class_names[i]) for i in range(info.n_classes)}

    @property
    def task(self):
        return from_c(self._info().task)

    @property
    def ckpt_path(self):
        return from_c(self._info().path)

    @property
    def n_parameters(self):
        return self._info().n_parameters

    def predict(self, source=None, stream=False, **arguments):
        """Results of each picture. `source`: a path, folder, glob, list file, an array (height, width, 3) uint8 in the
        order B,G,R, or a list of arrays. `stream=True` gives an iterator instead of a list."""
        results = self._predict(source, arguments)
        return iter(results) if stream else results

    __call__ = predict

    def _predict(self, source, arguments):
        results, failure = [], []
        names = self.names

        def on_result(_user, pointer):
            try:
                results.append(_result(pointer.contents, names))
                return 0
            except BaseException as error:  # must not pass through C
                failure.append(error)
                return 9

        arrays = _arrays(source)
        arguments = dict(arguments) if arrays is not None or source is None else dict(arguments, source=source)
        options = Options(self._context, dict({"mode": "predict"}, **arguments))
        callback = RESULT_FN(on_result)
        if arrays is not None:
            pictures = (Picture * len(arrays))()
            for i, array in enumerate(arrays):
                pictures[i] = Picture(f"image{i}.jpg".encode(), array.ctypes.data, array.shape[0], array.shape[1])
        with self._context.interruptible():
            if arrays is not None:
                status = lib.ol_predict_pictures(self._handle, options.handle, pictures, len(arrays), callback, None)
            else:
                status = lib.ol_predict(self._handle, options.handle, callback, None)
        if failure:
            raise failure[0]
        self._context.check(status)
        return results

    def val(self, **arguments):
        options = Options(self._context, dict({"mode": "val"}, **arguments))
        metrics = MetricsStruct(struct_bytes=ctypes.sizeof(MetricsStruct))
        with self._context.interruptible():
            status = lib.ol_val(self._handle, options.handle, ctypes.byref(metrics))
        self._context.check(status)
        return Metrics(metrics)

    def train(self, **arguments):
        """Trains; afterwards this object holds the best weights. Returns a dict of the run's figures and files."""
        options = Options(self._context, dict({"mode": "train"}, **arguments))
        r = TrainResult(struct_bytes=ctypes.sizeof(TrainResult))
        with self._context.interruptible():
            status = lib.ol_train(self._handle, options.handle, ctypes.byref(r))
        self._context.check(status)
        return {"epochs": r.epochs, "hours": r.hours, "best": from_c(r.best), "last": from_c(r.last),
                "save_dir": from_c(r.save_dir), "metrics/precision(B)": r.precision, "metrics/recall(B)": r.recall,
                "metrics/mAP50(B)": r.map50, "metrics/mAP50-95(B)": r.map50_95, "fitness": r.fitness}

    def export(self, **arguments):
        """Path of the written file."""
        options = Options(self._context, dict({"mode": "export", "format": "onnx"}, **arguments))
        path = ctypes.c_char_p()
        self._context.check(lib.ol_export(self._handle, options.handle, ctypes.byref(path)))
        return from_c(path.value)

    def __repr__(self):
        return f"YOLO({self.ckpt_path!r}, {len(self.names)} classes, {self.n_parameters:,} parameters)"


def _arrays(source):
    """Contiguous uint8 arrays when `source` is one or a list of them, else None."""
    items = source if isinstance(source, (list, tuple)) else [source]
    if not items or not all(isinstance(x, np.ndarray) for x in items):
        if isinstance(source, (list, tuple)):
            raise TypeError("a list of sources must hold numpy arrays; give several files as a folder, a glob or a list file")
        return None
    for x in items:
        if x.dtype != np.uint8 or x.ndim != 3 or x.shape[2] != 3 or 0 in x.shape:
            raise ValueError(f"a picture must be a uint8 array of shape (height, width, 3), not {x.dtype} {x.shape}")
    return [np.ascontiguousarray(x) for x in items]


def _result(r, names):
    boxes = np.zeros((r.n_boxes, 6), dtype=np.float32)
    for i in range(r.n_boxes):
        b = r.boxes[i]
        boxes[i] = (b.x1, b.y1, b.x2, b.y2, b.confidence, b.class_id)
    pixels = np.ctypeslib.as_array(r.pixels, shape=(r.height, r.width, 3)).copy()
    speed = {"preprocess": r.preprocess_ms, "inference": r.inference_ms, "postprocess": r.postprocess_ms}
    return Results(boxes, pixels, names, from_c(r.path), speed, from_c(r.save_dir) if r.save_dir else None)
