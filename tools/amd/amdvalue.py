# Part of Onelook, Apache License 2.0.
"""Numbers of the interpreter: types, bit patterns as floats and back, the odd functions of the instruction sets; its error."""

import numpy as np

U32, I32, U64, I64, F32, F16, F64 = np.uint32, np.int32, np.uint64, np.int64, np.float32, np.float16, np.float64
M32 = 0xFFFFFFFF


class EmuError(Exception):
    pass


def bcast(x, shape):
    x = np.asarray(x)
    return x if x.shape == shape else np.broadcast_to(x, shape)


def vf(x):
    return np.asarray(x, U32).view(F32)


def vi(x):
    return np.asarray(x, U32).view(I32)


def bf(x):
    return np.asarray(x, F32).view(U32)


def bi(x):
    return np.asarray(x).astype(I64).astype(U64).astype(U32) if np.asarray(x).dtype != I32 else np.asarray(x).view(U32)


def h16(x):
    return np.asarray(x, U32).astype(np.uint16).view(F16)


def bh(x):
    return np.asarray(x, F16).view(np.uint16).astype(U32)


def fma(a, b, c):
    return (a.astype(F64) * b.astype(F64) + c.astype(F64)).astype(F32)


def u(x):
    return np.asarray(x).astype(U64)


def lo(x):
    return (np.asarray(x, U64) & U64(M32)).astype(U32)


def hi(x):
    return (np.asarray(x, U64) >> U64(32)).astype(U32)


def sx(x, n):
    x = np.asarray(x, U32)
    s = U32(32 - n)
    return ((x << s).view(I32) >> I32(32 - n)).view(U32)


def popc(x):
    x = np.asarray(x)
    return np.array([bin(int(q)).count('1') for q in x.ravel()], U32).reshape(x.shape)


def brev(x, n=32):
    x = np.asarray(x)
    return np.array([int(format(int(q), '0%db' % n)[::-1], 2) for q in x.ravel()], U64 if n == 64 else U32).reshape(
        x.shape
    )


def clz(x, n=32):
    return np.array([n - int(q).bit_length() if q else M32 for q in np.asarray(x).ravel()], U32).reshape(
        np.asarray(x).shape
    )


def ctz(x):
    return np.array([(int(q) & -int(q)).bit_length() - 1 if q else M32 for q in np.asarray(x).ravel()], U32).reshape(
        np.asarray(x).shape
    )


def cvt_u32(a):
    return np.where(np.isnan(a), 0, np.clip(np.trunc(a.astype(F64)), 0, M32)).astype(U64).astype(U32)


def cvt_i32(a):
    return (
        np.where(np.isnan(a), 0, np.clip(np.trunc(a.astype(F64)), -(2**31), 2**31 - 1))
        .astype(I64)
        .astype(I32)
        .view(U32)
    )


def d64(fn, a):
    return fn(a.astype(F64)).astype(F32)


def fmn(a, b):
    return np.fmin(a, b)


def fmx(a, b):
    return np.fmax(a, b)


def bf16f(x):
    return (np.asarray(x, U32) << U32(16)).view(F32)


def perm(a, b, s):
    src = u(b) | (u(a) << U64(32))
    r = np.zeros(np.broadcast(a, b, s).shape, U32)
    for i in range(4):
        sel = (np.asarray(s, U32) >> U32(8 * i)) & U32(0xFF)
        by = ((src >> (u(np.minimum(sel, 7)) * U64(8))) & U64(0xFF)).astype(U32)
        sg = np.zeros_like(by)
        for q, sh in ((8, 15), (9, 31), (10, 47), (11, 63)):
            sg = np.where(sel == q, np.where((src >> U64(sh)) & U64(1), U32(255), U32(0)), sg)
        by = np.where(sel >= 13, U32(255), np.where(sel == 12, U32(0), np.where(sel >= 8, sg, by)))
        r |= by.astype(U32) << U32(8 * i)
    return r
