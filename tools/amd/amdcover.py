# Part of Onelook, Apache License 2.0.
"""Which kernels of an archive no test has launched. usage: amdcover.py ARCHIVE TARGET FOLDER

FOLDER holds what amdserve.py wrote (AMDEMU_COVERAGE=file), one file TARGET-case a test; files older than the archive are not
counted. Of f32, f16 and bf16 those types are judged in which the op table has run (TARGET-ops-type). Exit code 1 when a kernel
was launched nowhere, 77 when there is no record of the target.
"""
import collections
import ctypes
import os
import struct
import sys
import tempfile

from amdco import CodeObject

TYPES = ('f32', 'f16', 'bf16')


def unpack(packed, bytes_):
    zstd = ctypes.CDLL('libzstd.so.1')  # the program needs it too
    zstd.ZSTD_decompress.restype = ctypes.c_size_t
    zstd.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    room = ctypes.create_string_buffer(bytes_)
    if zstd.ZSTD_decompress(room, bytes_, packed, len(packed)) != bytes_:
        raise ValueError('the archive is damaged')
    return room.raw


def kernels_of(archive, target):
    """Names of the kernels by module, as tools/pack_kernels.c packs them."""
    n_entries, n_frames = struct.unpack_from('<II', archive, 8)
    entries = [struct.unpack_from('<16s16sIIQQ', archive, 16 + 56 * i) for i in range(n_entries)]
    frames = [struct.unpack_from('<QQQ', archive, 16 + 56 * n_entries + 24 * i) for i in range(n_frames)]
    unpacked, found = {}, {}
    for name, module, frame, _, offset, size in entries:
        if name.rstrip(b'\0').decode() != target:
            continue
        if frame not in unpacked:
            at, packed, full = frames[frame]
            unpacked[frame] = unpack(archive[at : at + packed], full)
        with tempfile.NamedTemporaryFile() as f:
            f.write(unpacked[frame][offset : offset + size])
            f.flush()
            found[module.rstrip(b'\0').decode()] = sorted(CodeObject(f.name).kernels)
    return found


def main():
    path, target, folder = sys.argv[1:4]
    with open(path, 'rb') as f:
        modules = kernels_of(f.read(), target)
    if not modules:
        print('skipped: the archive has no code for %s' % target)
        return 77
    launches, records, types = collections.Counter(), 0, []
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        record = os.path.join(folder, name)
        if not name.startswith(target + '-') or os.path.getmtime(record) < os.path.getmtime(path):
            continue
        records += 1
        types += [t for t in TYPES if name == '%s-ops-%s' % (target, t)]
        with open(record) as f:
            for line in f:
                kernel, n = line.split()
                launches[kernel] += int(n)
    if not records:
        print('skipped: no test has run for %s' % target)
        return 77
    others = set(TYPES) - set(types)
    wanted = [(m, k) for m in modules for k in modules[m] if not others & set(k.split('_'))]
    missing = [(m, k) for m, k in wanted if not launches[k]]
    for m, k in missing:
        print('never launched: %s of module %s' % (k, m))
    print('%s: %d of %d kernels launched (%s) by %d tests' % (
        target, len(wanted) - len(missing), len(wanted), ', '.join(types), records))
    return 1 if missing else 0


if __name__ == '__main__':
    sys.exit(main())
