# Part of Onelook, Apache License 2.0.
"""amdemu: run AMD GPU code objects (ELF made by clang for gfx9*/gfx11*/gfx12*) on the CPU, with numpy.

Decoding is done by llvm-objdump (any version that knows the target); this file
gives the instructions their meaning.  All waves of the launch that stand at the
same instruction are executed together, so small grids run in well under a second.
Every global and LDS access is bounds checked; LDS and registers start poisoned.
Meant for tests of compiled kernels: no timing, no caches, no images, no traps.
"""

import os
import re
import struct

import numpy as np

from amdcheck import GlobalRaces, LdsRaces
from amdco import kernarg, place
from amddecode import NSG, disassemble
from amdmatrix import MatrixInstructions
from amdmemory import MemoryInstructions
from amdscalar import ScalarInstructions
from amdvalue import U32, U64, M32, EmuError, u, lo, hi
from amdvector import VectorInstructions

NOPS = re.compile(
    r's_(nop|delay_alu|clause|waitcnt\w*|wait_\w+|sendmsg|set_inst_prefetch_distance|setprio|sleep|inst_prefetch|icache_inv|dcache_\w+|code_end|barrier_signal|denorm_mode|round_mode|setreg\w*|ttracedata\w*|incperflevel|version)$|buffer_(gl[01]_inv|wbl2|inv|wbinvl1\w*|wbinvl1_vol)$|global_(wb|inv|wbinv)$'
)


class Launch(ScalarInstructions, VectorInstructions, MemoryInstructions, MatrixInstructions):
    """One launch: its waves, their registers, and the order in which they run."""

    def __init__(s, co, name, mem, args, grid, block, trace=False, dyn_lds=0):
        s.co, s.k, s.mem = co, co.kernels[name], mem
        k = s.k
        s.gfx = co.gfx
        s.L = k.wave
        s.g12 = s.gfx.startswith('gfx12')
        s.g9 = s.gfx.startswith('gfx9')
        s.trace = trace
        s.grid, s.block = tuple(grid) + (1,) * (3 - len(grid)), tuple(block) + (1,) * (3 - len(block))
        nthr = int(np.prod(s.block))
        if nthr > k.meta.get('.max_flat_workgroup_size', 1024):
            raise EmuError('block of %d threads, kernel allows %d' % (nthr, k.meta['.max_flat_workgroup_size']))
        if getattr(co, 'home', None) is not mem:  # load the image once per memory
            co.home = mem
            co.base = mem.alloc(len(co.image))
            o = co.base - mem.BASE
            mem.b[o : o + len(co.image)] = np.frombuffer(bytes(place(co, co.base)), np.uint8)
        s.base = co.base
        s.ldsz = k.lds + dyn_lds
        if s.ldsz > 65536 + 98304 * (s.gfx == 'gfx950'):
            raise EmuError('%d bytes of LDS' % s.ldsz)
        s.ka = mem.put(np.frombuffer(kernarg(k, args, s.grid, s.block, dyn_lds) + b'\0' * 8, np.uint8))
        s.pk = mem.put(np.zeros(64, np.uint8))
        o = s.pk - mem.BASE
        mem.b[o + 4 : o + 10] = np.array(s.block, np.uint16).view(np.uint8)
        mem.b[o + 12 : o + 24] = np.array([s.grid[i] * s.block[i] for i in range(3)], U32).view(np.uint8)
        s.prog = disassemble(co, k)
        s.wpg = (nthr + s.L - 1) // s.L
        s.nthr = nthr
        s.count = 0
        s.seen = set()

    def run(s, chunk):
        wgs = [(x, y, z) for z in range(s.grid[2]) for y in range(s.grid[1]) for x in range(s.grid[0])]
        per = max(1, chunk // s.wpg)
        s.races = None
        if len(wgs) > 1 and os.environ.get('AMDEMU_RACE', '1') != '0':
            s.mem.races = s.races = s.mem.races or GlobalRaces(len(s.mem.b))
            s.races.launch(len(wgs))
        with np.errstate(all='ignore'):
            for i in range(0, len(wgs), per):
                s.first_block = i
                s.run_chunk(wgs[i : i + per])
        return s

    def run_chunk(s, wgs):
        k, L = s.k, s.L
        s.NW = NW = len(wgs) * s.wpg
        nv = max(int(k.meta.get('.vgpr_count', 256)), 4) + 8
        s.V = np.full((max(nv, 64), NW, L), 0xDEADBEEF, U32)
        s.A = np.full((256 if s.g9 else 1, NW, L), 0xDEADBEEF, U32)
        s.S = np.full((NSG, NW), 0xBADC0DE5, U32)
        s.scc = np.zeros(NW, bool)
        s.S[125] = 0
        s.lds_row = (max(s.ldsz, 4) + 3) & ~3  # bytes of a block's segment
        s.lds = np.full(len(wgs) * s.lds_row, 0xCD, np.uint8)
        s.wg = np.repeat(np.arange(len(wgs)), s.wpg)
        watched = s.wpg > 1 and s.ldsz > 0 and os.environ.get('AMDEMU_RACE', '1') != '0'
        s.lds_races = LdsRaces(len(s.lds), NW, len(wgs), s.lds_row) if watched else None
        s.priv = np.full((NW * L, k.priv), 0xCD, np.uint8) if k.priv else None
        lane = np.arange(L)
        t = (np.arange(NW) % s.wpg)[:, None] * L + lane[None]
        bx, by = s.block[0], s.block[1]
        ids = (t % bx, (t // bx) % by, t // (bx * by))
        act = t < s.nthr
        packed = s.gfx in ('gfx90a', 'gfx940', 'gfx942', 'gfx950') or not s.g9 and not s.gfx.startswith('gfx10')
        if packed:
            s.V[0] = (ids[0] | ids[1] << 10 | ids[2] << 20).astype(U32)
        else:
            for i in range(1 + ((k.rsrc2 >> 11) & 3)):
                s.V[i] = ids[i].astype(U32)
        n = 0

        def put64(v):
            nonlocal n
            s.S[n] = v & M32
            s.S[n + 1] = v >> 32
            n += 2

        if k.props & 1:
            s.S[0:4] = 0
            n += 4
        if k.props & 2:
            put64(s.pk)
        if k.props & 4:
            put64(0)
        if k.props & 8:
            put64(s.ka)
        if k.props & 16:
            put64(0)
        if k.props & 32:
            put64(0)
        if k.props & 64:
            s.S[n] = k.priv
            n += 1
        pl, po = k.preload & 0x7F, k.preload >> 7
        if pl:
            d = s.mem.get(s.ka + po * 4, U32, (pl,))
            for q in range(pl):
                s.S[n + q] = d[q]
        n = (k.rsrc2 >> 1) & 31
        w = np.array(wgs)[s.wg]
        if s.g12:
            s.S[108 + 9] = w[:, 0]
            s.S[108 + 7] = (w[:, 1] & 0xFFFF) | (w[:, 2] << 16)
        else:
            for i in range(3):
                if k.rsrc2 & (1 << (7 + i)):
                    s.S[n] = w[:, i]
                    n += 1
            if k.rsrc2 & (1 << 10):
                s.S[n] = 0
                n += 1
            if k.rsrc2 & 1:
                s.S[n] = 0  # private segment wave offset
        s.E = act.copy()
        s.set_exec_from_E(slice(None))
        s.pc = np.full(NW, k.entry, np.int64)
        s.st = np.zeros(NW, np.int8)
        while True:
            run = np.flatnonzero(s.st == 0)
            if not len(run):
                if (s.st == 2).all():
                    return
                for g in range(len(wgs)):
                    m = s.wg == g
                    if (s.st[m] >= 1).all():
                        s.st[m & (s.st == 1)] = 0
                        if s.lds_races:
                            s.lds_races.barrier(g)
                continue
            p = s.pc[run]
            pc = int(p.min())
            w = run[p == pc]
            others = p[p > pc]
            stop = int(others.min()) if len(others) else 1 << 62
            s.w = w if len(w) < NW else slice(None)
            s.n = len(w)
            while True:
                I = s.prog[pc]
                if I.fn is None:
                    I.fn = s.compile(I)
                s.count += 1
                if s.trace:
                    print('%6x %5d  %s' % (pc, s.n, I.txt))
                s.I = I
                try:
                    r = I.fn()
                except EmuError as e:
                    raise EmuError('%s: %s at %#x: %s' % (s.k.name, e, pc, I.txt)) from None
                if r is None:
                    pc += I.size
                    if pc >= stop:
                        s.pc[w] = pc
                        break
                else:
                    break  # control flow: pcs and states already set

    # -- scalar and vector access
    def lanes_of(s, i):
        """The mask in scalar registers i and, for 64 lanes, i + 1: a bool a lane."""
        v = np.empty((s.n, s.L // 32), '<u4')
        for j in range(s.L // 32):
            v[:, j] = s.S[i + j][s.w]
        return np.unpackbits(v.view(np.uint8), axis=1, bitorder='little').view(bool)

    def put_lanes(s, i, m, w):
        v = np.packbits(m, axis=1, bitorder='little').view('<u4')
        for j in range(s.L // 32):
            s.S[i + j][w] = v[:, j]

    def set_exec_from_E(s, w):
        s.S[127][w] = 0
        s.put_lanes(126, s.E[w], w)
        s.all_on = bool(s.E.all())

    def exec_changed(s):
        s.E[s.w] = s.lanes_of(126)
        s.all_on = bool(s.E.all())

    def mask64(s, o):  # per-lane bool from an sgpr mask operand
        return s.lanes_of(o.i)

    def put_mask(s, o, m, w=None):
        if o.k == 'null':
            return
        s.put_lanes(o.i, m & s.E[s.w], s.w)
        if o.i in (126, 127):
            s.exec_changed()

    def sget(s, o, wide=False):
        if o.k == 's':
            return (u(s.S[o.i][s.w]) | (u(s.S[o.i + 1][s.w]) << U64(32))) if wide else s.S[o.i][s.w].copy()
        if o.k == 'c':
            return np.full(s.n, o.i & (0xFFFFFFFFFFFFFFFF if wide else M32), U64 if wide else U32)
        if o.k == 'f':
            return np.full(s.n, struct.unpack('<I', struct.pack('<f', o.i))[0], U64 if wide else U32)
        if o.k == 'null':
            return np.zeros(s.n, U64 if wide else U32)
        if o.k == 'scc':
            return s.scc[s.w].astype(U64 if wide else U32)
        raise EmuError('scalar operand %r' % o.txt)

    def sput(s, o, v, wide=False):
        if o.k == 'null':
            return
        if wide:
            s.S[o.i][s.w] = lo(v)
            s.S[o.i + 1][s.w] = hi(v)
        else:
            s.S[o.i][s.w] = v
        if o.i in (126, 127) or wide and o.i == 125:
            s.exec_changed()

    def raw(s, o, j=0):
        if o.k == 'v':
            return s.V[o.i + j][s.w]
        if o.k == 'a':
            return s.A[o.i + j][s.w]
        if o.k == 's':
            return s.S[o.i + j][s.w][:, None]
        if o.k == 'c':
            return np.full((1, 1), (o.i >> (32 * j)) & M32, U32)
        if o.k == 'f':
            return np.full((1, 1), struct.unpack('<I', struct.pack('<f', o.i))[0], U32)
        if o.k == 'null':
            return np.zeros((1, 1), U32)
        if o.k == 'scc':
            return s.scc[s.w].astype(U32)[:, None]
        raise EmuError('operand %r' % o.txt)

    # -- translate one instruction into a closure
    def compile(s, I):
        n = I.name
        if NOPS.match(n):
            return lambda: None
        if I.dual:
            a, b = I.dual
            for q in (a, b):
                q.pc, q.size = I.pc, I.size
            fa, fb = s.compile(a), s.compile(b)

            def dual():
                buf = []
                keep = s.vput
                s.vput = lambda o_, v, j=0: buf.append((o_, v, j))
                try:
                    fa()
                    fb()
                finally:
                    s.vput = keep
                for x in buf:
                    s.vput(*x)

            return dual
        f = s.control(I)
        if f is not None:
            return f
        if n.startswith('s_'):
            return s.salu(I)
        if n.startswith('ds_'):
            return s.ds(I)
        g = re.match(r'(buffer|scratch)_(load|store)_(.*)$', n)
        if g:
            return s.private(I, *g.groups())
        g = re.match(r'(global|flat)_(load|store|atomic)_(.*)$', n)
        if g:
            return s.vmem(I, *g.groups())
        return s.valu(I)


def launch(co, name, mem, args, grid, block, chunk=1024, **kw):
    """Runs one kernel, `chunk` waves at a time. A later launch of the same kernel reuses the translated instructions, so it returns the same object."""
    if not hasattr(co, 'launches'):
        co.launches = {}
    L = co.launches.setdefault(name, Launch.__new__(Launch))
    prog = getattr(L, 'prog', None)
    L.__init__(co, name, mem, args, grid, block, **kw)
    if prog is not None:
        L.prog = prog
    return L.run(chunk)
