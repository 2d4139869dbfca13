# Part of Onelook, Apache License 2.0.
"""Memory and the instructions that reach it: bounds, races, loads, stores, atomics, lanes that trade values through LDS."""

import re

import numpy as np

from amddecode import parse_opd
from amdvalue import U32, I32, U64, I64, F32, F16, M32, EmuError, bcast, u, sx


class Memory:
    """Global memory: bytes, and which of them are allocated."""
    BASE = 0x7F0000000000

    def __init__(self, size=64 << 20, b=None, ok=None, base=None, top=4096):
        self.b = np.zeros(size, np.uint8) if b is None else b
        self.ok = np.zeros(size, np.uint8) if ok is None else ok
        self.top = top
        self.races = None  # of blocks, made when first wanted
        if base:
            self.BASE = base

    def alloc(self, n, poison=0xCD):
        o = self.top
        self.top = (o + n + 511) & ~255
        if self.top > len(self.b):
            raise EmuError('emulated memory full')
        self.b[o : o + n] = poison
        self.ok[o : o + n] = 1
        return self.BASE + o

    def put(self, arr):
        a = np.ascontiguousarray(arr)
        p = self.alloc(a.nbytes)
        o = p - self.BASE
        self.b[o : o + a.nbytes] = a.reshape(-1).view(np.uint8)
        return p

    def get(self, p, dtype, shape):
        n = int(np.prod(shape)) * np.dtype(dtype).itemsize
        o = p - self.BASE
        return self.b[o : o + n].view(dtype).reshape(shape).copy()

    def free_all(self):
        self.ok[:] = 0
        self.top = 4096



class MemoryInstructions:
    """Loads, stores and atomics on global memory, LDS and the private segment. Part of Launch."""

    def gmem(s, addr, n, act, store=None):
        """addr uint64 (n,L); n bytes a lane; returns the bytes read (lanes, n), or stores such an array"""
        off = addr - U64(s.mem.BASE)
        sel = off[act]
        bad = sel >= U64(len(s.mem.b) - n)
        words = n % 4 == 0 and not bad.any() and not (sel & U64(3)).any()
        if words:  # the usual case: whole aligned words
            idx = (sel >> U64(2)).astype(I64)[:, None] + np.arange(n // 4)
            allowed = (s.mem.ok.view(U32)[idx] == U32(0x01010101)).all()
        else:
            idx = sel.astype(I64)[:, None] + np.arange(n)
            allowed = not bad.any() and s.mem.ok[idx].all()
        if not allowed:
            at = (sel.astype(I64)[:, None] + np.arange(n)).clip(0, len(s.mem.b) - 1)
            a = addr[act][bad | ~(s.mem.ok[at] != 0).all(1)]
            raise EmuError(
                'global %s out of bounds, address %#x (%d lanes)'
                % ('store' if store is not None else 'load', int(a[0]), len(a))
            )
        if s.races is not None and len(sel):
            block = (s.wg[s.w] + s.first_block)[np.nonzero(act)[0]][:, None]
            s.races.access(block, idx, words, store is not None)
        if words:
            if store is None:
                return s.mem.b.view(U32)[idx].view(np.uint8)
            s.store_once(s.mem.b.view(U32), idx, np.ascontiguousarray(store).view(U32))
        elif store is None:
            return s.mem.b[idx]
        else:
            s.store_once(s.mem.b, idx, store)

    @staticmethod
    def store_once(memory, idx, values):
        memory[idx] = values
        if (memory[idx] != values).any():
            raise EmuError('race: two lanes store different values at one address')

    def lmem(s, addr, n, act, store=None):
        wgi = bcast(s.wg[s.w][:, None], addr.shape)[act]
        a = addr[act].astype(I64)
        if len(a) and (a.max() + n > s.ldsz or a.min() < 0):
            raise EmuError('LDS access at %d beyond %d bytes' % (int(a.max()), s.ldsz))
        at = wgi * s.lds_row + a  # in the segments of all blocks, one behind the other
        if s.lds_races and len(a):
            wave = bcast(np.arange(s.NW)[s.w][:, None], addr.shape)[act]
            s.lds_races.access(wgi, at, n, wave, store is not None)
        if n % 4 == 0 and not (a & 3).any():
            idx = (at >> 2)[:, None] + np.arange(n // 4)
            if store is None:
                return s.lds.view(U32)[idx].view(np.uint8)
            s.store_once(s.lds.view(U32), idx, np.ascontiguousarray(store).view(U32))
            return
        idx = at[:, None] + np.arange(n)
        if store is None:
            return s.lds[idx]
        s.store_once(s.lds, idx, store)

    def load_to(s, o, by, n, act, signed=False, d16=None):
        full = np.zeros((s.n, s.L), U32)
        if n >= 4:
            wds = np.ascontiguousarray(by).view(U32).reshape(-1, n // 4)
            for j in range(n // 4):
                full[act] = wds[:, j]
                s.vput(o, full, j)
            return
        v = np.ascontiguousarray(by).view({1: np.uint8, 2: np.uint16}[n]).reshape(-1).astype(U32)
        if signed:
            v = sx(v, 8 * n)
        full[act] = v
        if d16 == 'hi':
            s.vput16(o, full, True)
        elif d16 == 'lo':
            s.vput(o, (s.raw(o) & U32(0xFFFF0000)) | (full & U32(0xFFFF)))
        else:
            s.vput(o, full)

    def store_bytes(s, o, n, act, hi_=False):
        if n >= 4:
            return np.stack([bcast(s.raw(o, j), (s.n, s.L))[act] for j in range(n // 4)], 1).copy().view(np.uint8)
        v = bcast(s.raw(o), (s.n, s.L))[act]
        v = v >> U32(16) if hi_ else v
        return v.copy().view(np.uint8).reshape(-1, 4)[:, :n]

    SZ = {
        'ubyte': (1, 0),
        'u8': (1, 0),
        'sbyte': (1, 1),
        'i8': (1, 1),
        'ushort': (2, 0),
        'u16': (2, 0),
        'sshort': (2, 1),
        'i16': (2, 1),
        'short': (2, 0),
        'byte': (1, 0),
        'b8': (1, 0),
        'b16': (2, 0),
        'dword': (4, 0),
        'b32': (4, 0),
        'dwordx2': (8, 0),
        'b64': (8, 0),
        'dwordx3': (12, 0),
        'b96': (12, 0),
        'dwordx4': (16, 0),
        'b128': (16, 0),
    }

    def gaddr(s, oa, osg, off):
        if osg.k == 'off':
            a = u(s.raw(oa, 0)) | (u(s.raw(oa, 1)) << U64(32))
        else:
            a = (u(s.S[osg.i][s.w]) | (u(s.S[osg.i + 1][s.w]) << U64(32)))[:, None] + u(s.raw(oa))
        return bcast(a + U64(off & 0xFFFFFFFFFFFFFFFF), (s.n, s.L))

    WIDE = {
        'add': lambda a, b: a + b,
        'sub': lambda a, b: a - b,
        'min': min,
        'max': max,
        'and': lambda a, b: a & b,
        'or': lambda a, b: a | b,
        'xor': lambda a, b: a ^ b,
        'swap': lambda a, b: b,
    }
    PK = lambda a, b: (np.array([a], U32).view(F16) + np.array([b], U32).view(F16)).view(U32)[0]
    ATOM = {
        'pk_add_f16': (U32, PK),
        'min_num_f32': (F32, min),
        'max_num_f32': (F32, max),
        'fmin': (F32, min),
        'fmax': (F32, max),
        'min_f32': (F32, min),
        'max_f32': (F32, max),
        'add_f32': (F32, lambda a, b: F32(a + b)),
        'add_u32': (U32, None),
        'add': (U32, None),
        'min_u32': (U32, min),
        'umin': (U32, min),
        'max_u32': (U32, max),
        'umax': (U32, max),
        'min_i32': (I32, min),
        'smin': (I32, min),
        'max_i32': (I32, max),
        'smax': (I32, max),
        'and_b32': (U32, lambda a, b: a & b),
        'or_b32': (U32, lambda a, b: a | b),
        'and': (U32, lambda a, b: a & b),
        'or': (U32, lambda a, b: a | b),
        'xor': (U32, lambda a, b: a ^ b),
        'swap_b32': (U32, lambda a, b: b),
        'swap': (U32, lambda a, b: b),
        'sub_u32': (U32, lambda a, b: U32((int(a) - int(b)) & M32)),
        'sub': (U32, lambda a, b: U32((int(a) - int(b)) & M32)),
    }

    def vmem(s, I, space, kind, ty):
        o, m = I.ops, I.mods
        off = int(m.get('offset', '0'), 0)
        if kind == 'atomic':
            x = re.match(r'(u|s)?(add|sub|min|max|and|or|xor|swap|cmpswap)(?:_x2|_([ubi])64)$', ty)
            wide = (x[2], 'i' if x[1] == 's' or x[3] == 'i' else 'u') if x else None
            if not wide and 'cmpswap' not in ty and ty not in s.ATOM:
                raise EmuError('instruction not known: ' + I.txt)
            ret = m.get('glc') or m.get('sc0') or 'RETURN' in m.get('th', '')
            d = o[0] if ret else None
            a_, v_ = (o[1], o[2]) if ret else (o[0], o[1])
            sg = o[3] if ret and len(o) > 3 else o[2] if not ret and len(o) > 2 else parse_opd('off')

            def f():
                act = s.E[s.w]
                ad = s.gaddr(a_, sg, off)
                old = np.zeros((s.n, s.L), U32)
                if not act.any():
                    return
                if wide:
                    s.gmem(ad, 8, act)
                    R = lambda j: bcast(u(s.raw(v_, j)) | (u(s.raw(v_, j + 1)) << U64(32)), (s.n, s.L))
                    v0, old = R(0), np.zeros((s.n, s.L), U64)
                    v1 = R(2) if 'cmpswap' in ty else None
                    for p, q in np.argwhere(act):
                        i = int(ad[p, q]) - s.mem.BASE
                        cell = s.mem.b[i : i + 8].view(U64)
                        old[p, q] = cell[0]
                        if v1 is not None:
                            cell[0] = v0[p, q] if cell[0] == v1[p, q] else cell[0]
                        else:
                            dt = I64 if wide[1] == 'i' else U64
                            c_ = cell.view(dt)
                            c_[0] = s.WIDE[wide[0]](c_[0], v0[p : p + 1, q].copy().view(dt)[0])
                    if ret:
                        s.vput64(d, old)
                    return
                s.gmem(ad, 4, act)
                mem = s.mem.b
                pos = np.argwhere(act)
                v0 = bcast(s.raw(v_), (s.n, s.L))
                v1 = bcast(s.raw(v_, 1), (s.n, s.L)) if 'cmpswap' in ty else None
                for p, q in pos:
                    i = int(ad[p, q]) - s.mem.BASE
                    cell = mem[i : i + 4].view(U32)
                    cur = cell[0]
                    old[p, q] = cur
                    if v1 is not None:
                        if cur == v1[p, q]:
                            cell[0] = v0[p, q]
                    else:
                        dt, fn = s.ATOM[ty]
                        if fn is None:
                            cell[0] = (int(cur) + int(v0[p, q])) & M32
                        else:
                            mem[i : i + 4].view(dt)[0] = fn(
                                mem[i : i + 4].view(dt)[0], v0[p : p + 1, q].copy().view(dt)[0]
                            )
                if ret:
                    s.vput(d, old)

            return f
        if kind == 'load' and ty.startswith('lds_'):  # lane l of the wave writes LDS at m0 + offset + size*l
            nb = s.SZ[ty[4:]][0]

            def f():
                act = s.E[s.w]
                if not act.any():
                    return
                l = bcast(
                    (s.S[125][s.w] & U32(0xFFFF))[:, None] + U32(off) + U32(nb) * np.arange(s.L, dtype=U32), (s.n, s.L)
                )
                s.lmem(l, nb, act, s.gmem(s.gaddr(o[0], o[1], off), nb, act))

            return f
        d16 = 'hi' if 'd16_hi' in ty else 'lo' if 'd16' in ty else None
        ty = ty.replace('_d16_hi', '').replace('d16_hi_', '').replace('_d16', '').replace('d16_', '')
        nb, sg_ = s.SZ[ty]
        if kind == 'load':

            def f():
                act = s.E[s.w]
                if act.any():
                    s.load_to(
                        o[0],
                        s.gmem(s.gaddr(o[1], o[2] if len(o) > 2 else parse_opd('off'), off), nb, act),
                        nb,
                        act,
                        sg_,
                        d16,
                    )

        else:

            def f():
                act = s.E[s.w]
                if act.any():
                    s.gmem(
                        s.gaddr(o[0], o[2] if len(o) > 2 else parse_opd('off'), off),
                        nb,
                        act,
                        s.store_bytes(o[1], nb, act, d16 == 'hi'),
                    )

        return f

    def rawbuf(s, I, kind, nb, sg_, d16, off):
        """buffer_load/store through a raw descriptor (stride 0): bytes past num_records read as 0 and are not written; word 3 is not checked"""
        o, m = I.ops, I.mods
        r = s.S[o[2].i :][:4, s.w]
        if 'idxen' in m or ((r[1] >> U32(16)) & U32(0x3FFF)).any():
            raise EmuError('buffer form not known')
        base = u(r[0]) | (u(r[1] & U32(0xFFFF)) << U64(32))
        so = u(s.sget(o[3]))[:, None] if o[3].k not in ('off', 'null') else U64(0)
        a = bcast((u(s.raw(o[1])) if 'offen' in m else U64(0)) + U64(off), (s.n, s.L))
        act = s.E[s.w]
        inside = act & (a + so + U64(nb) <= u(r[2])[:, None])
        ad = base[:, None] + a + so
        if kind == 'store':
            s.gmem(ad, nb, inside, s.store_bytes(o[0], nb, inside, d16 == 'hi'))
            return
        by = np.zeros((s.n, s.L, nb), np.uint8)
        by[inside] = s.gmem(ad, nb, inside)
        s.load_to(o[0], by[act], nb, act, sg_, d16)

    def private(s, I, space, kind, ty):
        """scratch_*, and buffer_* as gfx9/gfx10 use it for the private segment (base s[0:3], taken as 0)"""
        o, m = I.ops, I.mods
        off = int(m.get('offset', '0'), 0)
        d16 = 'hi' if 'd16_hi' in ty else 'lo' if 'd16' in ty else None
        ty = ty.replace('_d16_hi', '').replace('d16_hi_', '').replace('_d16', '').replace('d16_', '')
        nb, sg_ = s.SZ[ty]

        def addr():
            va, sa = (
                (o[1], o[2])
                if kind == 'load' and space == 'scratch'
                else (o[0], o[2]) if space == 'scratch' else (o[1], o[3])
            )
            a = np.full((s.n, s.L), off, np.int64)
            if va.k == 'v' and (space == 'scratch' or 'offen' in m):
                a = a + s.raw(va).astype(np.int64)
            if sa.k not in ('off', 'null'):
                a = a + s.raw(sa).view(I32).astype(np.int64)
            return a

        def f():
            act = s.E[s.w]
            if not act.any():
                return
            if space == 'buffer' and s.S[o[1 if o[1].k == 's' else 2].i :][:4, s.w].any():
                return s.rawbuf(I, kind, nb, sg_, d16, off)
            a = addr()[act]
            row = (np.arange(s.NW)[s.w][:, None] * s.L + np.arange(s.L))[act]
            if not s.k.priv or (a < 0).any() or (a + nb > s.k.priv).any():
                raise EmuError('private access outside %d bytes' % s.k.priv)
            idx = a[:, None] + np.arange(nb)
            if kind == 'load':
                s.load_to(o[0], s.priv[row[:, None], idx], nb, act, sg_, d16)
            else:
                s.priv[row[:, None], idx] = s.store_bytes(o[1] if space == 'scratch' else o[0], nb, act, d16 == 'hi')

        return f

    @staticmethod
    def swizzle(t):
        x = re.match(r'swizzle\((\w+),(.*)\)$', t)
        if not x:
            return int(t, 0)
        if x[1] == 'BITMASK_PERM':  # five characters, bit 4 first: 0, 1, p keep, i invert
            c = x[2].strip('"')
            bit = lambda f: sum(1 << (4 - i) for i, q in enumerate(c) if f(q))
            return bit(lambda q: q in 'pi') | bit(lambda q: q == '1') << 5 | bit(lambda q: q == 'i') << 10
        v = [int(q, 0) for q in x[2].split(',')]
        if x[1] == 'QUAD_PERM':
            return 0x8000 | sum(q << (2 * i) for i, q in enumerate(v))
        if x[1] == 'SWAP':
            return 0x1F | v[0] << 10
        if x[1] == 'REVERSE':
            return 0x1F | (v[0] - 1) << 10
        if x[1] == 'BROADCAST':
            return (0x1F & ~(v[0] - 1)) | v[1] << 5
        raise EmuError('swizzle form')

    def ds(s, I):
        n, o, m = I.name, I.ops, I.mods
        off = 0 if n == 'ds_swizzle_b32' else int(m.get('offset', '0'), 0)
        x = re.match(r'ds_(?:read|load)(2|_2addr|2st64|_2addr_stride64)_b(32|64)$', n)
        y = re.match(r'ds_(?:write|store)(2|_2addr|2st64|_2addr_stride64)_b(32|64)$', n)
        if x or y:
            z = x or y
            eb = int(z[2]) // 8
            st = eb * (64 if '64' in z[1] else 1)
            o0, o1 = int(m.get('offset0', '0'), 0) * st, int(m.get('offset1', '0'), 0) * st

            def f():
                act = s.E[s.w]
                if not act.any():
                    return
                a = bcast(s.raw(o[1] if x else o[0]), (s.n, s.L))
                if x:
                    A_, B_ = s.lmem(a + U32(o0), eb, act), s.lmem(a + U32(o1), eb, act)
                    s.load_to(o[0], np.concatenate([A_, B_], 1), 2 * eb, act)
                else:
                    s.lmem(a + U32(o0), eb, act, s.store_bytes(o[1], eb, act))
                    s.lmem(a + U32(o1), eb, act, s.store_bytes(o[2], eb, act))

            return f
        if n in ('ds_bpermute_b32', 'ds_permute_b32'):

            def f():
                ad = bcast(s.raw(o[1]), (s.n, s.L))
                v = bcast(s.raw(o[2]), (s.n, s.L))
                E = s.E[s.w]
                idx = (((ad + U32(off)) >> U32(2)) % U32(s.L)).astype(I64)
                if n == 'ds_bpermute_b32':
                    r = np.where(np.take_along_axis(E, idx, 1), np.take_along_axis(v, idx, 1), U32(0))
                else:
                    r = np.zeros((s.n, s.L), U32)
                    for l in range(s.L):
                        w_ = np.flatnonzero(E[:, l])
                        r[w_, idx[w_, l]] = v[w_, l]
                s.vput(o[0], r)

            return f
        if n == 'ds_swizzle_b32':

            def f():
                pat = s.swizzle(m.get('offset', '0'))
                l = np.arange(s.L)
                src = (
                    ((l & ~31) | ((((l & 31) & (pat & 31)) | ((pat >> 5) & 31)) ^ ((pat >> 10) & 31)))
                    if not pat & 0x8000
                    else (l & ~3) | ((pat >> (2 * (l & 3))) & 3)
                )
                v = bcast(s.raw(o[1]), (s.n, s.L))
                s.vput(o[0], v[:, src])

            return f
        x = re.match(r'ds_(add|min|max|and|or|sub)(_rtn)?_(u32|i32|f32|b32)$', n)
        if x:

            def f():
                act = s.E[s.w]
                ret = bool(x[2])
                d = 1 if ret else 0
                a = bcast(s.raw(o[d]), (s.n, s.L)) + U32(off)
                v = bcast(s.raw(o[d + 1]), (s.n, s.L))
                dt = {'u32': U32, 'i32': I32, 'f32': F32, 'b32': U32}[x[3]]
                old = np.zeros((s.n, s.L), U32)
                if not act.any():
                    return
                s.lmem(a, 4, act)
                wgi = s.wg[s.w]
                fn = {
                    'add': lambda p, q: p + q,
                    'sub': lambda p, q: p - q,
                    'min': min,
                    'max': max,
                    'and': lambda p, q: p & q,
                    'or': lambda p, q: p | q,
                }[x[1]]
                for p, q in np.argwhere(act):
                    at = int(wgi[p]) * s.lds_row + int(a[p, q])
                    c = s.lds[at : at + 4].view(dt)
                    old[p, q] = c.view(U32)[0]
                    c[0] = fn(c[0], v[p : p + 1, q].copy().view(dt)[0])
                if ret:
                    s.vput(o[0], old)

            return f
        x = re.match(r'ds_(read|load|write|store)_(\w+)$', n)
        if not x:
            raise EmuError('instruction not known: ' + I.txt)
        ty = x[2]
        d16 = 'hi' if 'd16_hi' in ty else 'lo' if 'd16' in ty else None
        ty = ty.replace('_d16_hi', '').replace('_d16', '')
        nb, sg_ = s.SZ[ty]
        if x[1] in ('read', 'load'):

            def f():
                act = s.E[s.w]
                if act.any():
                    s.load_to(o[0], s.lmem(bcast(s.raw(o[1]), (s.n, s.L)) + U32(off), nb, act), nb, act, sg_, d16)

        else:

            def f():
                act = s.E[s.w]
                if act.any():
                    s.lmem(
                        bcast(s.raw(o[0]), (s.n, s.L)) + U32(off), nb, act, s.store_bytes(o[1], nb, act, d16 == 'hi')
                    )

        return f
