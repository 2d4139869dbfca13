# Part of Onelook, Apache License 2.0.
"""Instructions that a wave executes once."""

import re

import numpy as np

from amddecode import parse_opd
from amdtable import CMP, s5
from amdvalue import (
    U32, I32, U64, I64, F32, F16, M32, EmuError, bf, h16, bh, fma, u, lo, hi, sx, popc, brev, clz, ctz, cvt_u32, cvt_i32,
    fmn, fmx,
)


class ScalarInstructions:
    """Control flow, scalar loads and arithmetic: one value a wave. Part of Launch."""

    def control(s, I):
        """Ends, barriers, branches and scalar loads; None for others."""
        n, o, m = I.name, I.ops, I.mods
        if n == 's_endpgm':

            def f():
                s.st[s.w] = 2
                return True

            return f
        if n in ('s_barrier', 's_barrier_wait'):

            def f():
                s.st[s.w] = 1
                s.pc[s.w] = I.pc + I.size
                return True

            return f
        if n.startswith('s_cbranch') or n == 's_branch':
            off = int(o[0].txt, 0)
            off -= 65536 if off >= 32768 else 0
            tgt = I.pc + 4 + 4 * off
            c = n[10:]

            def f():
                S, w = s.S, s.w
                vcc = S[106][w] if s.L == 32 else S[106][w] | S[107][w]
                ex = S[126][w] if s.L == 32 else S[126][w] | S[127][w]
                t = (
                    {
                        'scc0': lambda: ~s.scc[w],
                        'scc1': lambda: s.scc[w],
                        'vccz': lambda: vcc == 0,
                        'vccnz': lambda: vcc != 0,
                        'execz': lambda: ex == 0,
                        'execnz': lambda: ex != 0,
                    }[c]()
                    if c
                    else np.ones(s.n, bool)
                )
                s.pc[w] = np.where(t, tgt, I.pc + I.size)
                return True

            return f
        if n == 's_getpc_b64':
            return lambda: s.sput(o[0], np.full(s.n, s.base + I.pc + 4, U64), True)
        if n in ('s_setpc_b64', 's_swappc_b64'):

            def f():
                t = (s.sget(o[-1], True) - U64(s.base)).astype(np.int64)
                if n == 's_swappc_b64':
                    s.sput(o[0], np.full(s.n, s.base + I.pc + 4, U64), True)
                s.pc[s.w] = t
                return True

            return f
        if n.startswith('s_load_'):
            nw = {
                'dword': 1,
                'b32': 1,
                'dwordx2': 2,
                'b64': 2,
                'b96': 3,
                'dwordx4': 4,
                'b128': 4,
                'dwordx8': 8,
                'b256': 8,
                'dwordx16': 16,
                'b512': 16,
                'u8': 0,
                'i8': 0,
                'u16': 0,
                'i16': 0,
            }[n[7:]]

            def f():
                a = s.sget(o[1], True)
                b = a + u(s.sget(o[2])) + U64(int(m.get('offset', '0'), 0) & 0xFFFFFFFFFFFFFFFF)
                nb = nw * 4 if nw else (1 if n.endswith('8') else 2)
                by = s.gmem(b[:, None], nb, np.ones((s.n, 1), bool))
                if nw:
                    wd = np.ascontiguousarray(by).view(U32).reshape(s.n, nw)
                    for j in range(nw):
                        s.S[o[0].i + j][s.w] = wd[:, j]
                else:
                    v = np.ascontiguousarray(by).view(np.uint8 if nb == 1 else np.uint16).reshape(-1).astype(U32)
                    s.S[o[0].i][s.w] = sx(v, nb * 8) if n[7] == 'i' else v

            return f
        return None

    def salu(s, I):
        n, o = I.name[2:], I.ops
        G, P = s.sget, s.sput

        def setscc(c):
            s.scc[s.w] = c

        x = re.match(r'cmpk?_(eq|lg|gt|ge|lt|le|neq|nlt|nge|ngt|nle)_(u32|i32|u64|f32)$', n)
        if x:

            def f():
                a, b = G(o[0], x[2] == 'u64'), G(o[1], x[2] == 'u64')
                if x[2] == 'i32':
                    a, b = a.view(I32), b.view(I32)
                if x[2] == 'f32':
                    a, b = a.view(F32), b.view(F32)
                setscc(CMP['ne' if x[1] == 'lg' and x[2] != 'f32' else x[1]](a, b))

            return f
        if n in ('bitcmp0_b32', 'bitcmp1_b32'):
            return lambda: setscc(((G(o[0]) >> (G(o[1]) & s5)) & U32(1)) == int(n[6]))
        x = re.match(r'(and|or|xor|andn2|and_not1|orn2|or_not1|and_not0|or_not0|andn1|orn1)_saveexec_b(32|64)$', n)
        L = {
            'and': lambda a, b: a & b,
            'or': lambda a, b: a | b,
            'xor': lambda a, b: a ^ b,
            'nand': lambda a, b: ~(a & b),
            'nor': lambda a, b: ~(a | b),
            'xnor': lambda a, b: ~(a ^ b),
            'andn2': lambda a, b: a & ~b,
            'and_not1': lambda a, b: a & ~b,
            'orn2': lambda a, b: a | ~b,
            'or_not1': lambda a, b: a | ~b,
            'andn1': lambda a, b: ~a & b,
            'and_not0': lambda a, b: ~a & b,
            'orn1': lambda a, b: ~a | b,
            'or_not0': lambda a, b: ~a | b,
        }
        if x:
            W = x[2] == '64'
            ex = parse_opd('exec_lo')

            def f():
                e = G(ex, W)
                r = L[x[1]](G(o[1], W), e)
                P(o[0], e, W)
                P(ex, r, W)
                s.exec_changed()
                setscc(r != 0)

            return f
        x = re.match(r'(\w+?)_b(32|64)$', n)
        if x and x[1] in L:
            W = x[2] == '64'

            def f():
                r = L[x[1]](G(o[1], W), G(o[2], W))
                P(o[0], r, W)
                setscc(r != 0)

            return f
        W = n.endswith('64')

        def un(fn, scc=False, w_in=W, w_out=W):
            def f():
                r = fn(G(o[1], w_in))
                P(o[0], r, w_out)
                if scc:
                    setscc(r != 0)

            return f

        def bn(fn, scc=None, w=W, wb=None):
            def f():
                a, b = G(o[1], w), G(o[2], w if wb is None else wb)
                r = fn(a, b)
                P(o[0], r, w)
                if scc == 'nz':
                    setscc(r != 0)
                elif scc:
                    setscc(scc(a, b, r))

            return f

        if n in ('memtime', 'memrealtime', 'getreg_b32'):
            return lambda: P(o[0], np.full(s.n, s.count, U64 if n != 'getreg_b32' else U32), n != 'getreg_b32')
        if n in ('mov_b32', 'mov_b64'):
            return un(lambda a: a)
        if n in ('cmov_b32', 'cmov_b64'):
            return lambda: P(o[0], np.where(s.scc[s.w], G(o[1], W), G(o[0], W)), W)
        if n == 'movk_i32':
            return lambda: P(o[0], np.full(s.n, ((o[1].i & 0xFFFF) ^ 0x8000) - 0x8000 & M32, U32))
        if n in ('addk_i32', 'addk_co_i32'):
            return lambda: P(o[0], G(o[0]) + U32((((o[1].i & 0xFFFF) ^ 0x8000) - 0x8000) & M32))
        if n == 'mulk_i32':
            return lambda: P(o[0], G(o[0]) * U32((((o[1].i & 0xFFFF) ^ 0x8000) - 0x8000) & M32))
        if n in ('not_b32', 'not_b64'):
            return un(lambda a: ~a, True)
        if n in ('brev_b32',):
            return un(brev)
        if n == 'brev_b64':
            return un(lambda a: brev(a, 64))
        if n in ('bcnt1_i32_b32', 'bcnt1_i32_b64'):
            return un(popc, True, n.endswith('64'), False)
        if n in ('ff1_i32_b32', 'ff1_i32_b64', 'ctz_i32_b32', 'ctz_i32_b64'):
            return un(ctz, False, n.endswith('64'), False)
        if n in ('flbit_i32_b32', 'clz_i32_u32', 'clz_i32_u64', 'flbit_i32_b64'):
            return un(lambda a: clz(a, 64 if W else 32), False, W, False)
        if n == 'abs_i32':
            return un(lambda a: np.abs(a.view(I32)).view(U32), True)
        if n == 'sext_i32_i16':
            return un(lambda a: sx(a, 16))
        if n == 'sext_i32_i8':
            return un(lambda a: sx(a, 8))
        if n in ('add_u32', 'add_co_u32'):
            return bn(lambda a, b: a + b, lambda a, b, r: r < a)
        if n in ('add_i32', 'add_co_i32'):
            return bn(lambda a, b: a + b, lambda a, b, r: ((~(a ^ b) & (a ^ r)) >> U32(31)) != 0)
        if n in ('sub_u32', 'sub_co_u32'):
            return bn(lambda a, b: a - b, lambda a, b, r: b > a)
        if n in ('sub_i32', 'sub_co_i32'):
            return bn(lambda a, b: a - b, lambda a, b, r: (((a ^ b) & (a ^ r)) >> U32(31)) != 0)
        if n in ('addc_u32', 'add_co_ci_u32'):

            def f():
                t = u(G(o[1])) + u(G(o[2])) + s.scc[s.w].astype(U64)
                P(o[0], lo(t))
                setscc(hi(t) != 0)

            return f
        if n in ('subb_u32', 'sub_co_ci_u32'):

            def f():
                a, b = u(G(o[1])), u(G(o[2])) + s.scc[s.w].astype(U64)
                P(o[0], lo(a - b))
                setscc(b > a)

            return f
        if n in ('add_nc_u64', 'add_u64'):
            return bn(lambda a, b: a + b)
        if n in ('sub_nc_u64', 'sub_u64'):
            return bn(lambda a, b: a - b)
        if n == 'mul_i32':
            return bn(lambda a, b: a * b)
        if n == 'mul_u64':
            return bn(lambda a, b: a * b)
        if n == 'mul_hi_u32':
            return bn(lambda a, b: hi(u(a) * u(b)))
        if n == 'mul_hi_i32':
            return bn(
                lambda a, b: ((a.view(I32).astype(I64) * b.view(I32).astype(I64)) >> I64(32)).astype(U64).astype(U32)
            )
        if n == 'lshl_b32':
            return bn(lambda a, b: a << (b & s5), 'nz')
        if n == 'lshr_b32':
            return bn(lambda a, b: a >> (b & s5), 'nz')
        if n == 'lshl_b64':
            return bn(lambda a, b: a << (u(b) & U64(63)), 'nz', True, False)
        if n == 'lshr_b64':
            return bn(lambda a, b: a >> (u(b) & U64(63)), 'nz', True, False)
        if n == 'ashr_i32':
            return bn(lambda a, b: (a.view(I32) >> (b & s5).astype(I32)).view(U32), 'nz')
        if n == 'ashr_i64':
            return bn(lambda a, b: (a.view(I64) >> (u(b) & U64(63)).astype(I64)).view(U64), 'nz', True, False)
        x = re.match(r'lshl([1234])_add_u32$', n)
        if x:
            return bn(
                lambda a, b: (a << U32(int(x[1]))) + b, lambda a, b, r: (u(a) << U64(int(x[1]))) + u(b) > U64(M32)
            )
        if n == 'bfm_b32':
            return bn(lambda a, b: ((U32(1) << (a & s5)) - U32(1)) << (b & s5))
        if n == 'bfe_u32':
            return bn(lambda a, b: (a >> (b & s5)) & lo((U64(1) << ((u(b) >> U64(16)) & U64(127))) - U64(1)), 'nz')
        if n == 'bfe_i32':

            def bfe(a, b):
                wd = ((b >> U32(16)) & U32(127)).astype(I64)
                x_ = (a >> (b & s5)).astype(I64) & ((I64(1) << wd) - 1)
                return (
                    np.where((wd > 0) & ((x_ >> np.maximum(wd - 1, 0)) & 1 == 1), x_ - (I64(1) << wd), x_)
                    .astype(U64)
                    .astype(U32)
                )

            return bn(bfe, 'nz')
        if n == 'bfe_u64':
            return bn(
                lambda a, b: (a >> (u(b) & U64(63))) & ((U64(1) << ((u(b) >> U64(16)) & U64(63))) - U64(1)),
                'nz',
                True,
                False,
            )
        for nm, fn, v in (
            ('min_i32', np.minimum, I32),
            ('max_i32', np.maximum, I32),
            ('min_u32', np.minimum, U32),
            ('max_u32', np.maximum, U32),
        ):
            if n == nm:
                return bn(lambda a, b, fn=fn, v=v: fn(a.view(v), b.view(v)).view(U32), lambda a, b, r: r == a)
        if n in ('cselect_b32', 'cselect_b64'):
            return lambda: P(o[0], np.where(s.scc[s.w], G(o[1], W), G(o[2], W)), W)
        x = re.match(r'pack_(ll|lh|hh|hl)_b32_b16$', n)
        if x:
            return bn(
                lambda a, b: ((a >> U32(16 if x[1][0] == 'h' else 0)) & U32(0xFFFF))
                | (((b >> U32(16 if x[1][1] == 'h' else 0)) & U32(0xFFFF)) << U32(16))
            )
        F = {
            'add_f32': lambda a, b: a + b,
            'sub_f32': lambda a, b: a - b,
            'mul_f32': lambda a, b: a * b,
            'min_num_f32': fmn,
            'max_num_f32': fmx,
            'min_f32': fmn,
            'max_f32': fmx,
        }
        if n in F:
            return bn(lambda a, b: F[n](a.view(F32), b.view(F32)).astype(F32).view(U32))
        if n == 'fmac_f32':
            return lambda: P(o[0], bf(fma(G(o[1]).view(F32), G(o[2]).view(F32), G(o[0]).view(F32))))
        if n in ('fmaak_f32', 'fmamk_f32'):
            return lambda: P(o[0], bf(fma(*[G(q).view(F32) for q in o[1:4]])))
        C = {
            'cvt_f32_u32': lambda a: bf(a.astype(F32)),
            'cvt_f32_i32': lambda a: bf(a.view(I32).astype(F32)),
            'cvt_u32_f32': lambda a: cvt_u32(a.view(F32)),
            'cvt_i32_f32': lambda a: cvt_i32(a.view(F32)),
            'trunc_f32': lambda a: bf(np.trunc(a.view(F32))),
            'floor_f32': lambda a: bf(np.floor(a.view(F32))),
            'ceil_f32': lambda a: bf(np.ceil(a.view(F32))),
            'rndne_f32': lambda a: bf(np.rint(a.view(F32))),
            'cvt_f16_f32': lambda a: bh(a.view(F32).astype(F16)),
            'cvt_f32_f16': lambda a: bf(h16(a).astype(F32)),
        }
        if n in C:
            return un(C[n], False, False, False)
        raise EmuError('instruction not known: ' + I.txt)
