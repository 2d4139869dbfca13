# Part of Onelook, Apache License 2.0.
"""Instructions that every lane executes: sources and their modifiers, results, arithmetic."""

import re

import numpy as np

from amddecode import parse_opd
from amdtable import CMP, T, TY, dot2
from amdvalue import U32, I32, U64, I64, F32, F16, F64, M32, EmuError, bcast, vf, bf, bi, h16, bh, fma, u, lo, hi, sx, popc, fmn, fmx


class VectorInstructions:
    """One value a lane. Part of Launch."""

    def src(s, o, t, j=None, opsel=0):
        I = s.cur
        if t in 'UID':
            if o.k == 'f':
                x = np.full((1, 1), o.i, F64).view(U64)
            elif o.k == 'c':
                x = np.full((1, 1), (o.i << 32 if t == 'D' and abs(o.i) > 64 else o.i) & 0xFFFFFFFFFFFFFFFF, U64)
            else:
                x = u(s.raw(o, 0)) | (u(s.raw(o, 1)) << U64(32))
            if t == 'I':
                return x.view(I64)
            if t == 'D':
                x = x.view(F64)
                x = np.abs(x) if o.abs else x
                return -x if o.neg else x
            return x
        if o.k == 'f' and t == 'h':
            x = np.full((1, 1), int(np.float16(o.i).view(np.uint16)), U32)
        else:
            x = s.raw(o)
        if j == 0 and s.dpp is not None:
            x = s.do_dpp(x, I)
        if j is not None and s.sdwa:
            x = s.do_sdwa(x, I.mods.get('src%d_sel' % j, 'DWORD'), False)
        if o.h == 'h' or opsel:
            x = x >> U32(16)
        if t in 'hwW' or o.h == 'l':
            x = x & U32(0xFFFF)
        if t == 'u' or t == 'w':
            return -x if False else x
        if t == 'i':
            return np.ascontiguousarray(x).view(I32)
        if t == 'W':
            return sx(x, 16).view(I32)
        f = np.ascontiguousarray(x).view(F32) if t == 'f' else h16(x)
        if o.abs:
            f = np.abs(f)
        return -f if o.neg else f

    def vput(s, o, v, j=0):
        a = s.A if o.k == 'a' else s.V
        v = bcast(np.asarray(v).astype(U32, copy=False), (s.n, s.L))
        if s.all_on:
            a[o.i + j][s.w] = v
            return
        E = s.E[s.w]
        if isinstance(s.w, slice):
            np.copyto(a[o.i + j], v, where=E)
        else:
            a[o.i + j][s.w] = np.where(E, v, a[o.i + j][s.w])

    def vput16(s, o, v, hi_=False):
        v = bcast(np.asarray(v, U32) & U32(0xFFFF), (s.n, s.L))
        old = s.raw(o)
        if o.h == 'h' or hi_:
            s.vput(o, (old & U32(0xFFFF)) | (v << U32(16)))
        elif s.g9:
            s.vput(o, v)
        else:
            s.vput(o, (old & U32(0xFFFF0000)) | v)

    def vput64(s, o, v):
        v = np.asarray(v).view(U64) if np.asarray(v).dtype != U64 else v
        s.vput(o, lo(v), 0)
        s.vput(o, hi(v), 1)

    def do_dpp(s, x, I):
        x = bcast(x, (s.n, s.L))
        l = np.arange(s.L)
        m = I.mods
        ok = np.ones(s.L, bool)
        row = l & ~15
        p = l & 15
        if 'quad_perm' in m:
            q = [int(z) for z in m['quad_perm'].strip('[]').split(',')]
            src = (l & ~3) + np.array(q)[l & 3]
        elif 'row_shl' in m:
            d = p + int(m['row_shl'])
            ok = d < 16
            src = row + np.minimum(d, 15)
        elif 'row_shr' in m:
            d = p - int(m['row_shr'])
            ok = d >= 0
            src = row + np.maximum(d, 0)
        elif 'row_ror' in m:
            src = row + ((p - int(m['row_ror'])) & 15)
        elif 'row_mirror' in m:
            src = row + 15 - p
        elif 'row_half_mirror' in m:
            src = (l & ~7) + 7 - (l & 7)
        elif 'row_xmask' in m:
            src = row + (p ^ int(m['row_xmask'], 0))
        elif 'row_share' in m or 'row_newbcast' in m:
            src = row + int(m.get('row_share', m.get('row_newbcast')))
        elif 'row_bcast' in m:
            b = int(m['row_bcast'])
            ok = l > b
            src = np.where(ok, (row - 1) if b == 15 else 31 + 0 * l, 0)
            src = np.maximum(src, 0)
        else:
            raise EmuError('dpp form')
        s.dppok = ok & s.E[s.w][:, src] if True else ok
        bc = m.get('bound_ctrl', '0') in ('1', '0x1')
        rm, bm = int(m.get('row_mask', '0xf'), 0), int(m.get('bank_mask', '0xf'), 0)
        s.dppw = ((rm >> (l >> 4)) & 1).astype(bool) & ((bm >> ((l & 15) >> 2)) & 1).astype(bool)
        s.dppkeep = None if bc else s.dppok
        return np.where(s.dppok, x[:, src], U32(0))

    def do_sdwa(s, x, sel, _):
        if sel.startswith('BYTE_'):
            return (x >> U32(8 * int(sel[5]))) & U32(255)
        if sel.startswith('WORD_'):
            return (x >> U32(16 * int(sel[5]))) & U32(0xFFFF)
        return x

    def forms(s, I):
        """What all vector instructions share: what to do before the sources are read, how a result is written, op_sel, clamp."""
        n, m = I.name, I.mods
        isdpp = any(q.startswith(('row_', 'quad_perm')) and q not in ('row_mask',) for q in m)
        sd = 'dst_sel' in m or 'src0_sel' in m

        def pre():
            s.cur = I
            s.dpp = True if isdpp else None
            s.sdwa = sd

        osel = [int(q) for q in m['op_sel'].strip('[]').split(',')] if 'op_sel' in m else []
        clamp = 'clamp' in m
        omul = {'2': 2.0, '4': 4.0}.get(m.get('mul'), 1.0) * (0.5 if m.get('div') == '2' else 1.0)

        def finish(rt, v, d):
            if rt in 'fhD':
                if omul != 1:
                    v = v * v.dtype.type(omul)
                if clamp:
                    v = np.clip(v, 0, 1)
            if rt == 'f':
                v = bf(v)
            elif rt == 'i':
                v = bi(v)
            if rt in 'UID':
                s.vput64(d, v)
                return
            if isdpp:
                v = bcast(v if rt != 'h' else bh(v), (s.n, s.L))
                old = s.raw(d)
                keep = s.dppw if s.dppkeep is None else (s.dppw & s.dppkeep)
                s.vput(d, np.where(keep, v, old))
                return
            if sd and m.get('dst_sel', 'DWORD') != 'DWORD':
                v = bh(v) if rt == 'h' else v
                ds_ = m['dst_sel']
                sh = 16 * int(ds_[5]) if ds_[0] == 'W' else 8 * int(ds_[5])
                mk = (0xFFFF if ds_[0] == 'W' else 0xFF) << sh
                base = s.raw(d) if m.get('dst_unused') == 'UNUSED_PRESERVE' else U32(0)
                s.vput(d, (base & U32(~mk & M32)) | ((v << U32(sh)) & U32(mk)))
                return
            if rt == 'h':
                s.vput16(d, bh(v), bool(osel) and n in T and len(osel) == len(T[n][1]) + 1 and osel[-1])
                return
            if rt == 's':
                s.vput16(d, v, bool(osel and osel[-1] and len(osel) == len(T[n][1]) + 1))
                return
            s.vput(d, v)

        return pre, finish, osel, clamp

    def compares(s, I, forms):
        """v_cmp and v_cmp_class: a mask."""
        n, o = I.name, I.ops
        pre, _, osel, _ = forms
        x = re.match(r'v_cmp(x)?_(\w+?)_(f32|f16|u32|i32|u64|i64|u16|i16|f64)$', n)
        if x and x[2] in CMP:
            cx, fn, ty = bool(x[1]), CMP[x[2]], TY[x[3]]
            nodst = cx and not s.g9
            d = parse_opd('exec_lo') if nodst else o[0]
            A_, B_ = (o[0], o[1]) if nodst else (o[1], o[2])

            def f():
                pre()
                r = bcast(
                    fn(s.src(A_, ty, 0, opsel=osel[0] if osel else 0), s.src(B_, ty, 1, opsel=osel[1] if osel else 0)),
                    (s.n, s.L),
                )
                s.put_mask(d, r)
                if cx and not nodst:
                    s.put_mask(parse_opd('exec_lo'), r)

            return f
        x = re.match(r'v_cmpx?_class_f(64|32|16)$', n)
        if x:

            def f():
                pre()
                A_ = s.src(o[-2], {'64': 'D', '32': 'f', '16': 'h'}[x[1]], 0)
                mk = s.src(o[-1], 'u', 1)
                a = A_.astype(F64)
                tiny = {'64': 2.0**-1022, '32': 2.0**-126, '16': 2.0**-14}[x[1]]
                neg = np.signbit(a)
                cls = np.where(
                    np.isnan(a),
                    2,
                    np.where(
                        np.isinf(a),
                        np.where(neg, 4, 512),
                        np.where(
                            a == 0,
                            np.where(neg, 32, 64),
                            np.where(np.abs(a) < tiny, np.where(neg, 16, 128), np.where(neg, 8, 256)),
                        ),
                    ),
                )
                r = bcast((cls & mk.astype(I64)) != 0, (s.n, s.L))
                s.put_mask(o[0] if len(o) == 3 else parse_opd('exec_lo'), r)

            return f
        return None

    def selects(s, I, forms):
        """Selection by a mask, carries, wide multiplication."""
        n, o = I.name, I.ops
        pre, _, _, _ = forms
        if n == 'v_cndmask_b32':

            def f():
                pre()
                c = s.mask64(o[3] if len(o) > 3 else parse_opd('vcc_lo'))
                a, b = [s.src(q, 'f' if q.neg or q.abs else 'u', j) for j, q in enumerate(o[1:3])]
                s.vput(o[0], np.where(c, bf(b) if b.dtype == F32 else b, bf(a) if a.dtype == F32 else a))

            return f
        if n == 'v_cndmask_b16':

            def f():
                pre()
                c = s.mask64(o[3])
                s.vput16(o[0], np.where(c, s.src(o[2], 'w'), s.src(o[1], 'w')))

            return f
        x = re.match(r'v_(add|sub|subrev)(_co_ci|c_co|b_co|brev_co|_co)_u32$', n)
        if x:
            sub = x[1].startswith('sub')
            rev = 'rev' in x[0]
            cin = x[2] != '_co'

            def f():
                pre()
                a, b = u(s.src(o[2], 'u', 0)), u(s.src(o[3], 'u', 1))
                c = s.mask64(o[4]).astype(U64) if cin else U64(0)
                if rev:
                    a, b = b, a
                if sub:
                    r = a - b - c
                    co_ = b + c > a
                else:
                    r = a + b + c
                    co_ = r > U64(M32)
                s.vput(o[0], lo(r))
                s.put_mask(o[1], bcast(co_, (s.n, s.L)))

            return f
        if n in ('v_mad_u64_u32', 'v_mad_co_u64_u32', 'v_mad_i64_i32', 'v_mad_co_i64_i32'):
            sg_ = '_i64' in n

            def f():
                pre()
                a, b, c = (
                    (s.src(o[2], 'i').astype(I64).view(U64), s.src(o[3], 'i').astype(I64).view(U64), s.src(o[4], 'U'))
                    if sg_
                    else (u(s.src(o[2], 'u')), u(s.src(o[3], 'u')), s.src(o[4], 'U'))
                )
                p = a * b
                r = p + c
                s.vput64(o[0], bcast(r, (s.n, s.L)))
                s.put_mask(o[1], bcast(r < p, (s.n, s.L)))

            return f
        return None

    def fused(s, I, forms):
        """Division steps, accumulation, dot products, permutations of rows."""
        n, o, m = I.name, I.ops, I.mods
        pre, finish, osel, _ = forms
        if n == 'v_div_scale_f32':

            def f():
                pre()
                s.vput(o[0], bf(s.src(o[2], 'f')))
                s.put_mask(o[1], np.zeros((s.n, s.L), bool))

            return f
        if n == 'v_div_scale_f64':

            def f():
                pre()
                s.vput64(o[0], bcast(s.src(o[2], 'D'), (s.n, s.L)).copy())
                s.put_mask(o[1], np.zeros((s.n, s.L), bool))

            return f
        if n in ('v_fmac_f32', 'v_mac_f32', 'v_pk_fmac_f16', 'v_fmac_f16') and n[-1] == '2':

            def f():
                pre()
                finish('f', fma(s.src(o[1], 'f', 0), s.src(o[2], 'f', 1), vf(s.raw(o[0]))), o[0])

            return f
        if n in ('v_dot2_f32_f16', 'v_dot2c_f32_f16', 'v_dot2acc_f32_f16'):
            if osel or 'neg_lo' in m or 'neg_hi' in m or m.get('op_sel_hi', '[1,1,1]') != '[1,1,1]':
                raise EmuError('modifiers not known: ' + I.txt)

            def f():
                pre()
                finish('f', dot2(s.src(o[1], 'u'), s.src(o[2], 'u'), s.src(o[3] if len(o) > 3 else o[0], 'f')), o[0])

            return f
        x = re.match(r'v_permlane(x?)16_b32$', n)
        if x:
            if osel and any(osel):
                raise EmuError('modifiers not known: ' + I.txt)

            def f():
                pre()
                v = bcast(s.raw(o[1]), (s.n, s.L))
                q = (u(s.sget(o[2])) | (u(s.sget(o[3])) << U64(32)))[:, None]
                l = np.arange(s.L)
                idx = ((q >> u((l & 15) * 4)) & U64(15)).astype(I64) + ((l & ~15) ^ (16 if x[1] else 0))
                s.vput(o[0], np.take_along_axis(v, idx, 1))

            return f
        if n == 'v_fmac_f64':

            def f():
                pre()
                d = o[0]
                acc = (u(s.raw(d, 0)) | (u(s.raw(d, 1)) << U64(32))).view(F64)
                finish('D', s.src(o[1], 'D') * s.src(o[2], 'D') + acc, d)

            return f
        if n == 'v_fmac_f16':

            def f():
                pre()
                finish(
                    'h',
                    (
                        s.src(o[1], 'h', 0).astype(F64) * s.src(o[2], 'h', 1)
                        + h16(s.raw(o[0]) & U32(0xFFFF)).astype(F64)
                    ).astype(F16),
                    o[0],
                )

            return f
        return None

    def mixed(s, I, forms):
        """Fused products of operands of both precisions."""
        n, o, m = I.name, I.ops, I.mods
        pre, _, osel, clamp = forms
        x = re.match(r'v_(?:fma|mad)_mix(lo|hi)?_(f32|f16)$', n)
        if x:
            hs = [int(q) for q in m.get('op_sel_hi', '[0,0,0]').strip('[]').split(',')]
            os_ = (osel or [0, 0, 0]) + [0] * 3

            def f():
                pre()
                v = [
                    s.src(q, 'h' if hs[j] else 'f', opsel=os_[j] if hs[j] else 0).astype(F32)
                    for j, q in enumerate(o[1:4])
                ]
                r = fma(*v)
                r = np.clip(r, 0, 1) if clamp else r
                if not x[1]:
                    s.vput(o[0], bf(r))
                else:
                    w_ = bcast(bh(r.astype(F16)), (s.n, s.L))
                    old = s.raw(o[0])
                    s.vput(
                        o[0], (old & U32(0xFFFF)) | (w_ << U32(16)) if x[1] == 'hi' else (old & U32(0xFFFF0000)) | w_
                    )

            return f
        return None

    def packed(s, I, forms):
        """Two halves or two floats at once."""
        n, o, m = I.name, I.ops, I.mods
        pre, _, osel, _ = forms
        x = re.match(
            r'v_pk_(fma|add|mul|max|min|fmac|max_num|min_num|mov|lshlrev|add_u|sub_u)_(f16|f32|b32|b16|16|u16|i16)$', n
        )
        if x:
            hs = [int(q) for q in m.get('op_sel_hi', '[1,1,1]').strip('[]').split(',')] + [1] * 3
            os_ = (osel or [0, 0, 0]) + [0] * 3
            nl = [int(q) for q in m.get('neg_lo', '[0,0,0]').strip('[]').split(',')] + [0] * 3
            nh = [int(q) for q in m.get('neg_hi', '[0,0,0]').strip('[]').split(',')] + [0] * 3
            w32 = x[2] in ('f32', 'b32')
            FN = {
                'fma': lambda a, b, c: a.astype(F64) * b.astype(F64) + c.astype(F64),
                'add': lambda a, b: a + b,
                'mul': lambda a, b: a * b,
                'max': fmx,
                'min': fmn,
                'max_num': fmx,
                'min_num': fmn,
            }

            def f():
                pre()
                res = []
                for hh in (0, 1):
                    v = []
                    for j, q in enumerate(o[1:]):
                        sel = (hs if hh and x[1] != 'mov' else os_)[j]  # a move takes its high half by op_sel too
                        neg = (nh if hh else nl)[j]
                        if w32:
                            a = s.raw(q, sel) if q.k in 'vsa' and q.n > 1 else s.raw(q)
                            a = a.copy().view(F32) if x[2] == 'f32' else a
                        else:
                            a = s.raw(q) if q.k != 'f' else np.full((1, 1), int(F16(q.i).view(np.uint16)), U32)
                            a = (a >> U32(16)) if sel and q.k in 'vsa' else a & U32(0xFFFF)
                            if x[2] == 'f16':
                                a = h16(a)
                        v.append(-a if neg else a)
                    if x[1] == 'mov':
                        r = v[0] if not hh else v[1]
                    elif x[1] == 'lshlrev':
                        r = (v[1] << (v[0] & U32(15))) & U32(0xFFFF)
                    elif x[1] in ('add_u',) or x[2] in ('u16', 'i16'):
                        r = (v[0] + v[1]) & U32(0xFFFF)
                    else:
                        r = FN[x[1]](*v).astype(F32 if w32 else F16)
                    res.append(bf(r) if x[2] == 'f32' else bh(r) if x[2] == 'f16' else r)
                if w32:
                    res = [bcast(q, (s.n, s.L)).copy() for q in res]
                    s.vput(o[0], res[0], 0)
                    s.vput(o[0], res[1], 1)
                else:
                    s.vput(o[0], res[0] | (res[1] << U32(16)))

            return f
        return None

    def lanes(s, I, forms):
        """Lane numbers, moves between lanes and scalars, accumulator registers, bit tables."""
        n, o, m = I.name, I.ops, I.mods
        pre, _, _, _ = forms
        if n in ('v_mbcnt_lo_u32_b32', 'v_mbcnt_hi_u32_b32'):
            l = np.arange(64)[: s.L]
            mk = np.array(
                [(1 << min(int(q), 32)) - 1 if 'lo' in n else (1 << max(int(q) - 32, 0)) - 1 for q in l], U64
            ).astype(U32)
            return lambda: (pre(), s.vput(o[0], popc(bcast(s.src(o[1], 'u'), (s.n, s.L)) & mk) + s.src(o[2], 'u')))[0]
        x = re.match(r'v_s_(\w+_f(?:32|16))$', n)  # gfx12: on scalars
        if x and 'v_' + x[1] in T:
            rt, st, fn = T['v_' + x[1]]

            def f():
                pre()
                v = bcast(fn(s.src(o[1], st)), (s.n, 1))[:, 0]
                s.sput(o[0], bf(v) if rt == 'f' else bh(v))

            return f
        if n == 'v_readfirstlane_b32':

            def f():
                v = bcast(s.raw(o[1]), (s.n, s.L))
                E = s.E[s.w]
                i = np.where(E.any(1), E.argmax(1), 0)
                s.sput(o[0], v[np.arange(s.n), i])

            return f
        if n == 'v_readlane_b32':

            def f():
                v = bcast(s.raw(o[1]), (s.n, s.L))
                s.sput(o[0], v[np.arange(s.n), s.sget(o[2]).astype(I64) % s.L])

            return f
        if n == 'v_writelane_b32':

            def f():
                l = s.sget(o[2]).astype(I64) % s.L
                t = s.V[o[0].i][s.w].copy()
                t[np.arange(s.n), l] = s.sget(o[1])
                s.V[o[0].i][s.w] = t

            return f
        if n in ('v_accvgpr_read_b32', 'v_accvgpr_write_b32', 'v_accvgpr_mov_b32'):
            return lambda: s.vput(o[0], s.raw(o[1]))
        if n in ('v_bitop3_b32', 'v_bitop3_b16'):  # bit = table[4*a + 2*b + c]
            tt = int(m.get('bitop3', '0'), 0)

            def f():
                pre()
                a, b, c = [s.src(q, 'u') for q in o[1:4]]
                r = np.zeros((s.n, s.L), U32)
                for j in range(8):
                    if (tt >> j) & 1:
                        r = r | ((a if j & 4 else ~a) & (b if j & 2 else ~b) & (c if j & 1 else ~c))
                s.vput(o[0], r) if n.endswith('32') else s.vput16(o[0], r)

            return f
        if n == 'v_swap_b32':

            def f():
                a, b = s.raw(o[0]).copy(), s.raw(o[1]).copy()
                s.vput(o[0], b)
                s.vput(o[1], a)

            return f
        return None

    def valu(s, I):
        n, o = I.name, I.ops
        if n.startswith('v_wmma'):
            return s.wmma(I)
        if n.startswith('v_mfma'):
            return s.mfma(I)
        forms = s.forms(I)
        for part in (s.compares, s.selects, s.fused, s.mixed, s.packed, s.lanes):
            f = part(I, forms)
            if f is not None:
                return f
        pre, finish, osel, _ = forms
        if n in T:
            rt, st, fn = T[n]

            def f():
                pre()
                finish(
                    rt,
                    fn(
                        *[
                            s.src(
                                o[1 + j],
                                t,
                                j,
                                osel[j] if osel and j < len(osel) and t in 'hu' and (rt in 'hs' or t == 'h') else 0,
                            )
                            for j, t in enumerate(st)
                        ]
                    ),
                    o[0],
                )

            return f
        raise EmuError('instruction not known: ' + I.txt)
