# Part of Onelook, Apache License 2.0.
"""Matrix instructions: how lanes and registers hold the tiles, and the products."""

import re

import numpy as np

from amdvalue import U32, F32, F16, EmuError, bcast, vf, bf16f


class MatrixInstructions:
    """WMMA and MFMA. Part of Launch."""

    def mat(s, o, lanes_first=True):
        return (
            np.stack([bcast(s.raw(o, j), (s.n, s.L)) for j in range(o.n)], -1)
            if o.k in 'va'
            else np.zeros((s.n, s.L, 1), U32)
        )

    def halves(s, o, bf16):
        r = s.mat(o)
        r = np.ascontiguousarray(r).view(np.uint16)  # (n, L, 2*regs)
        return bf16f(r) if bf16 else r.view(F16).astype(F32)

    def accum(s, o, regs):
        if o.k in 'va':
            return s.mat(o).view(F32)
        v = vf(np.full(1, o.i if o.k == 'c' else 0, np.int64).astype(U32)) if o.k == 'c' else np.array([o.i], F32)
        return bcast(v, (s.n, s.L, regs))

    def wmma(s, I):
        x = re.match(r'v_wmma_f32_16x16x16_(f16|bf16)$', I.name)
        if not x:
            raise EmuError('instruction not known: ' + I.txt)
        d, a, b, c = I.ops

        def f():
            A, B, C = s.halves(a, x[1] == 'bf16'), s.halves(b, x[1] == 'bf16'), s.accum(c, 8)
            if (
                s.g12
            ):  # lane = row (A) or column (B); k = 8*(lane/16) + element; C: row = 8*(lane/16)+register, column = lane%16
                MA = np.concatenate([A[:, :16], A[:, 16:]], 2)
                MB = np.concatenate([B[:, :16], B[:, 16:]], 2)
                D = np.matmul(MA, MB.transpose(0, 2, 1))
                CC = np.concatenate([C[:, :16].transpose(0, 2, 1), C[:, 16:].transpose(0, 2, 1)], 1)
                R = (D + CC).astype(F32)
                out = np.concatenate([R[:, :8].transpose(0, 2, 1), R[:, 8:].transpose(0, 2, 1)], 1)
            else:  # gfx11: both half-waves hold the same A row and B column; C: row = 2*register + lane/16
                if not (
                    np.array_equal(s.mat(a)[:, :16], s.mat(a)[:, 16:])
                    and np.array_equal(s.mat(b)[:, :16], s.mat(b)[:, 16:])
                ):
                    raise EmuError('WMMA operands differ between half-waves')
                D = np.matmul(A[:, :16], B[:, :16].transpose(0, 2, 1))
                CC = np.zeros((s.n, 16, 16), F32)
                CC[:, 0::2] = C[:, :16].transpose(0, 2, 1)
                CC[:, 1::2] = C[:, 16:].transpose(0, 2, 1)
                R = (D + CC).astype(F32)
                out = np.concatenate([R[:, 0::2].transpose(0, 2, 1), R[:, 1::2].transpose(0, 2, 1)], 1)
            out = np.ascontiguousarray(out).view(U32)
            if not s.E[s.w].all():
                raise EmuError('WMMA with inactive lanes')
            for j in range(8):
                s.vput(d, out[:, :, j], j)

        return f

    def mfma(s, I):
        x = re.match(r'v_mfma_f32_(16x16|32x32)x(\d+)_?(f16|bf16|f32)(?:_1k)?$', I.name)
        if not x:
            raise EmuError('instruction not known: ' + I.txt)
        d, a, b, c = I.ops
        N = int(x[1][:2])
        regs = N * N // 64
        e = int(x[2]) * N // 64  # e elements of k a lane
        if a.n * (1 if x[3] == 'f32' else 2) != e:
            raise EmuError('instruction not known (several blocks): ' + I.txt)

        def f():
            A, B = (
                (s.mat(a).view(F32), s.mat(b).view(F32))
                if x[3] == 'f32'
                else (s.halves(a, x[3] == 'bf16'), s.halves(b, x[3] == 'bf16'))
            )
            C = s.accum(c, regs)
            g = 64 // N  # lane = row, k = e*(lane/N)+element
            MA = np.concatenate([A[:, N * i : N * i + N] for i in range(g)], 2)
            MB = np.concatenate([B[:, N * i : N * i + N] for i in range(g)], 2)
            D = np.matmul(MA, MB.transpose(0, 2, 1))
            out = np.empty((s.n, 64, regs), F32)
            for j in range(regs):
                for q in range(g):
                    out[:, q * N : q * N + N, j] = D[:, (j // 4) * 4 * g + q * 4 + j % 4, :]
            out = np.ascontiguousarray((out + C).astype(F32)).view(U32)
            for j in range(regs):
                s.vput(d, out[:, :, j], j)

        return f
