"""The C library: where it is, its types (include/onelook.h), and its errors as exceptions."""

import contextlib
import ctypes
import os
import signal
import sys
import threading
from ctypes import (CFUNCTYPE, POINTER, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint8,
                    c_uint64, c_void_p)


class OnelookError(RuntimeError):
    """A call of the library failed; the message says what, where and what to do."""


class InterruptedRun(KeyboardInterrupt):
    """A run was asked to stop; its files are whole."""


# ol_status: the exception that fits each, besides OnelookError itself.
class _ArgumentError(OnelookError, ValueError):
    pass


class _NotFoundError(OnelookError, FileNotFoundError):
    pass


class _IoError(OnelookError, OSError):
    pass


class _OutOfMemory(OnelookError, MemoryError):
    pass


class _Unsupported(OnelookError, NotImplementedError):
    pass


_EXCEPTIONS = {1: _ArgumentError, 2: _NotFoundError, 3: _IoError, 5: _OutOfMemory, 6: _Unsupported, 9: InterruptedRun}

LOG_FN = CFUNCTYPE(None, c_void_p, c_int, c_char_p)


class ContextOptions(ctypes.Structure):
    _fields_ = [("struct_bytes", c_size_t), ("log", LOG_FN), ("log_user", c_void_p), ("realloc_block", c_void_p),
                ("realloc_user", c_void_p), ("n_threads", c_int)]


class ModelInfo(ctypes.Structure):
    _fields_ = [("struct_bytes", c_size_t), ("path", c_char_p), ("task", c_char_p), ("class_names", POINTER(c_char_p)),
                ("n_classes", c_int), ("channels", c_int), ("stride", c_int), ("n_parameters", c_int64)]


class DeviceInfo(ctypes.Structure):
    _fields_ = [("struct_bytes", c_size_t), ("name", c_char * 16), ("title", c_char * 128), ("vendor", c_char * 16),
                ("architecture", c_char * 32), ("driver", c_char * 64), ("memory_bytes", c_uint64), ("free_bytes", c_uint64),
                ("is_integrated", c_bool), ("is_usable", c_bool)]


class Box(ctypes.Structure):
    _fields_ = [("x1", c_float), ("y1", c_float), ("x2", c_float), ("y2", c_float), ("confidence", c_float),
                ("class_id", c_int32)]


class Result(ctypes.Structure):
    _fields_ = [("struct_bytes", c_size_t), ("path", c_char_p), ("pixels", POINTER(c_uint8)), ("height", c_int),
                ("width", c_int), ("net_height", c_int), ("net_width", c_int), ("index", c_size_t), ("count", c_size_t),
                ("boxes", POINTER(Box)), ("n_boxes", c_size_t), ("class_names", POINTER(c_char_p)), ("n_classes", c_int),
                ("preprocess_ms", c_double), ("inference_ms", c_double), ("postprocess_ms", c_double),
                ("save_dir", c_char_p)]


RESULT_FN = CFUNCTYPE(c_int, c_void_p, POINTER(Result))


class Picture(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("pixels", c_void_p), ("height", c_int), ("width", c_int)]


class ClassMetrics(ctypes.Structure):
    _fields_ = [("class_id", c_int), ("name", c_char_p), ("n_images", c_int64), ("n_instances", c_int64),
                ("precision", c_double), ("recall", c_double), ("map50", c_double), ("map50_95", c_double)]


class MetricsStruct(ctypes.Structure):
    _fields_ = [("struct_bytes", c_size_t), ("precision", c_double), ("recall", c_double), ("map50", c_double),
                ("map75", c_double), ("map50_95", c_double), ("fitness", c_double), ("n_images", c_int64),
                ("n_instances", c_int64), ("classes", POINTER(ClassMetrics)), ("n_classes", c_size_t),
                ("preprocess_ms", c_double), ("inference_ms", c_double), ("loss_ms", c_double),
                ("postprocess_ms", c_double), ("save_dir", c_char_p)]


class TrainResult(ctypes.Structure):
    _fields_ = [("struct_bytes", c_size_t), ("epochs", c_int), ("hours", c_double), ("best", c_char_p), ("last", c_char_p),
                ("save_dir", c_char_p), ("precision", c_double), ("recall", c_double), ("map50", c_double),
                ("map50_95", c_double), ("fitness", c_double)]


_SIGNATURES = {
    "ol_version": (c_char_p, []),
    "ol_status_name": (c_char_p, [c_int]),
    "ol_context_create": (c_int, [POINTER(ContextOptions), POINTER(c_void_p)]),
    "ol_context_destroy": (None, [c_void_p]),
    "ol_context_message": (c_char_p, [c_void_p]),
    "ol_context_interrupt": (None, [c_void_p]),
    "ol_options_create": (c_int, [c_void_p, POINTER(c_void_p)]),
    "ol_options_destroy": (None, [c_void_p]),
    "ol_options_set": (c_int, [c_void_p, c_char_p, c_char_p]),
    "ol_options_read": (c_int, [c_void_p, c_char_p]),
    "ol_options_get": (c_char_p, [c_void_p, c_char_p]),
    "ol_model_load": (c_int, [c_void_p, c_char_p, POINTER(c_void_p)]),
    "ol_model_destroy": (None, [c_void_p]),
    "ol_model_get_info": (c_int, [c_void_p, POINTER(ModelInfo)]),
    "ol_predict": (c_int, [c_void_p, c_void_p, RESULT_FN, c_void_p]),
    "ol_predict_pictures": (c_int, [c_void_p, c_void_p, POINTER(Picture), c_size_t, RESULT_FN, c_void_p]),
    "ol_val": (c_int, [c_void_p, c_void_p, POINTER(MetricsStruct)]),
    "ol_train": (c_int, [c_void_p, c_void_p, POINTER(TrainResult)]),
    "ol_export": (c_int, [c_void_p, c_void_p, POINTER(c_char_p)]),
    "ol_device_count": (c_int, [c_void_p]),
    "ol_device_get_info": (c_int, [c_void_p, c_int, POINTER(DeviceInfo)]),
    "ol_is_available": (c_bool, [c_void_p, c_char_p]),
    "ol_shapes_write": (c_int, [c_void_p, c_char_p, c_int, c_int, c_int, c_uint64]),
}


def _candidates():
    named = os.environ.get("ONELOOK_LIBRARY")
    if named:
        return [named]
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.dirname(os.path.dirname(here))
    return [os.path.join(folder, "libonelook.so") for folder in (here, os.path.join(root, "build"), os.path.join(root, "lib"))]


def _load():
    tried = _candidates()
    for path in tried:
        if os.path.exists(path):
            library = ctypes.CDLL(path)
            break
    else:
        try:
            library = ctypes.CDLL("libonelook.so.0")
        except OSError as error:
            raise ImportError("libonelook.so was not found at " + " or ".join(tried) +
                              "; build it with 'make', or set ONELOOK_LIBRARY to its path") from error
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


lib = _load()


def version():
    return lib.ol_version().decode()


def to_c(text):
    """A text or path for the library, UTF-8; bytes of file names that are none come through, a NUL does not."""
    text = os.fspath(text)
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    if b"\0" in raw:
        raise ValueError(f"{text!r} holds a NUL character")
    return raw


def from_c(raw):
    """A text of the library: the inverse of to_c."""
    return raw.decode("utf-8", "surrogateescape")


def text_of(value):
    """The command line's spelling of a Python value."""
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(text_of(x) for x in value) + "]"
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


class Context:
    """A library context that logs to stdout. Owns nothing else; options and models keep a reference to it."""

    def __init__(self, verbose=True):
        self.verbose = verbose
        self._line_open = False  # a progress line stands on the terminal without its newline
        self._log = LOG_FN(self._on_log)  # must outlive the C context
        options = ContextOptions(struct_bytes=ctypes.sizeof(ContextOptions), log=self._log)
        self.handle = c_void_p()
        self.check(lib.ol_context_create(ctypes.byref(options), ctypes.byref(self.handle)))

    def _on_log(self, _user, level, line):
        text = line.decode(errors="replace")
        if level != 3 and self._line_open:
            print("\r\033[K", end="")
            self._line_open = False
        if level in (1, 2):
            print(("WARNING ⚠️ " if level == 1 else "ERROR ❌ ") + text, flush=True)
        elif not self.verbose:
            return
        elif level == 3:
            if sys.stdout.isatty():
                print("\r\033[K" + text, end="", flush=True)
                self._line_open = True
        else:
            print(text, flush=True)

    def check(self, status):
        if status == 0:
            return
        message = lib.ol_context_message(self.handle) if self.handle else None
        text = message.decode(errors="replace") if message else lib.ol_status_name(status).decode()
        raise _EXCEPTIONS.get(status, OnelookError)(text)

    @contextlib.contextmanager
    def interruptible(self):
        """Ctrl-C during a call of the library makes it finish its step and return. (Python runs the handler when the
        library next calls back, which it does at every progress line.)"""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, lambda *_: lib.ol_context_interrupt(self.handle))
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def __del__(self):
        if getattr(self, "handle", None):
            lib.ol_context_destroy(self.handle)
            self.handle = None


class Options:
    """The arguments of one call."""

    def __init__(self, context, arguments):
        self.context = context
        self.handle = c_void_p()
        context.check(lib.ol_options_create(context.handle, ctypes.byref(self.handle)))
        cfg = arguments.get("cfg")
        for name, value in arguments.items():
            context.check(lib.ol_options_set(self.handle, to_c(name), to_c(text_of(value))))
        if cfg is not None:
            context.check(lib.ol_options_read(self.handle, to_c(text_of(cfg))))

    def __del__(self):
        if getattr(self, "handle", None):
            lib.ol_options_destroy(self.handle)
            self.handle = None
