"""The GPUs of this machine (the C interface's questions about devices)."""

import ctypes
from collections import namedtuple

from ._library import Context, DeviceInfo, from_c, lib, to_c

Device = namedtuple("Device", "name title vendor architecture driver memory_bytes free_bytes is_integrated is_usable")


def device_count():
    """How many GPUs the installed drivers show."""
    context = Context(False)
    return lib.ol_device_count(context.handle)


def devices():
    """The GPUs, in the order of `device=0`, `device=1`, …: what `device=` takes, marketing name, vendor, architecture, versions
    of runtime and driver, memory, free memory (0: not told), whether it shares the main memory, whether this build has code."""
    context = Context(False)
    found = []
    for i in range(lib.ol_device_count(context.handle)):
        info = DeviceInfo(struct_bytes=ctypes.sizeof(DeviceInfo))
        context.check(lib.ol_device_get_info(context.handle, i, ctypes.byref(info)))
        values = [getattr(info, name) for name in Device._fields]
        found.append(Device(*(from_c(v) if isinstance(v, bytes) else v for v in values)))
    return found


def is_available(device=""):
    """Could a run use `device` ("0", "cuda:0", "hip:1", "cpu", "" for any GPU)?"""
    return not why_not(device)


def why_not(device=""):
    """Why a run could not use `device`, with the remedy; "" when it could."""
    context = Context(False)
    text = "" if device is None else str(device)
    if lib.ol_is_available(context.handle, to_c(text)):
        return ""
    return from_c(lib.ol_context_message(context.handle))
