# Part of Onelook, Apache License 2.0.
"""amdemu: run AMD GPU code objects (ELF made by clang for gfx9*/gfx11*/gfx12*) on the CPU, with numpy.

Decoding is done by llvm-objdump (any version that knows the target); this file
gives the instructions their meaning.  All waves of the launch that stand at the
same instruction are executed together, so small grids run in well under a second.
Every global and LDS access is bounds checked; LDS and registers start poisoned.
Meant for tests of compiled kernels: no timing, no caches, no images, no traps.
"""

import copy, os, re, shutil, struct, subprocess, tempfile
import numpy as np
from amdcheck import GlobalRaces, LdsRaces, Race
from amdco import CodeObject, kernarg, place

U32, I32, U64, I64, F32, F16, F64 = np.uint32, np.int32, np.uint64, np.int64, np.float32, np.float16, np.float64
M32 = 0xFFFFFFFF


class EmuError(Exception):
    pass


# ------------------------------------------------------------------ memory
class Memory:
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


# ------------------------------------------------------------------ decoding
def find_objdump():
    for n in ([os.environ['LLVM_OBJDUMP']] if 'LLVM_OBJDUMP' in os.environ else []) + [
        'llvm-objdump-22',
        'llvm-objdump-19',
        'llvm-objdump',
    ]:
        if shutil.which(n):
            return n
    raise EmuError('llvm-objdump not found')


LINE = re.compile(r'^\s+(.*?)\s*// ([0-9A-F]+): ((?:[0-9A-F]{8} ?)+)')
MOD = re.compile(
    r'\s+((?:offset|offset0|offset1|op_sel|op_sel_hi|neg_lo|neg_hi|row_\w+|quad_perm|row_mask|bank_mask|bound_ctrl|fi|dst_sel|dst_unused|src0_sel|src1_sel|mul|div|scope|th|cbsz|abid|blgp|dpp8|wait_\w+|format|byte_sel|bitop3)(?::(?:\[[^\]]*\]|\S+))|glc|slc|dlc|scc|sc0|offen|idxen|lds|sc1|nt|clamp|gds|nv|row_mirror|row_half_mirror)(?=\s|$)'
)
SREG = {
    'vcc_lo': 106,
    'vcc_hi': 107,
    'm0': 125,
    'exec_lo': 126,
    'exec_hi': 127,
    'flat_scratch_lo': 102,
    'flat_scratch_hi': 103,
    'xnack_mask_lo': 104,
    'xnack_mask_hi': 105,
}
NSG = 128 + 16


class Opd:
    __slots__ = ('k', 'i', 'n', 'neg', 'abs', 'h', 'txt')


def parse_opd(t):
    o = Opd()
    o.neg = o.abs = False
    o.h = None
    o.txt = t
    o.n = 1
    o.i = 0
    s = t.strip()
    m = re.fullmatch(r'neg\((.*)\)', s)
    if m:
        o.neg = True
        s = m[1]
    if s.startswith('-') and not re.match(r'-[\d.]', s):
        o.neg = True
        s = s[1:]
    if s.startswith('|') and s.endswith('|'):
        o.abs = True
        s = s[1:-1]
    m = re.fullmatch(r'abs\((.*)\)', s)
    if m:
        o.abs = True
        s = m[1]
    m = re.fullmatch(r'([vsa]|ttmp)(\d+)(?:\.([lh]))?', s)
    if m:
        o.k = m[1]
        o.i = int(m[2])
        o.h = m[3]
        if o.k == 'ttmp':
            o.k = 's'
            o.i += 128 if False else 108
        return o
    m = re.fullmatch(r'([vsa]|ttmp)\[(\d+)(?::(\d+))?\]', s)
    if m:
        o.k = m[1]
        o.i = int(m[2])
        o.n = int(m[3] or m[2]) - o.i + 1
        if o.k == 'ttmp':
            o.k = 's'
            o.i += 108
        return o
    if s in SREG:
        o.k = 's'
        o.i = SREG[s]
        return o
    if s in ('vcc', 'exec', 'flat_scratch'):
        o.k = 's'
        o.i = SREG[s + '_lo']
        o.n = 2
        return o
    if s in ('off', 'null'):
        o.k = s
        return o
    if s in ('src_scc', 'scc'):
        o.k = 'scc'
        return o
    if s in ('src_shared_base', 'src_private_base'):
        o.k = 'c'
        o.i = 0x1000000000000 if 'shared' in s else 0x2000000000000
        return o
    if re.fullmatch(r'-?\d+', s) or re.fullmatch(r'-?0x[0-9a-fA-F]+', s):
        o.k = 'c'
        o.i = int(s, 0)
        return o
    if re.fullmatch(r'-?\d*\.\d+(e[-+]?\d+)?', s):
        o.k = 'f'
        o.i = float(s)
        return o
    m = re.fullmatch(r'lit\((.*)\)', s)
    if m:
        o.k = 'c'
        o.i = int(m[1], 0)
        return o
    o.k = 'txt'
    return o


class Ins:
    __slots__ = ('pc', 'size', 'name', 'ops', 'mods', 'txt', 'fn', 'dual', 'raw')


def parse_ins(txt):
    I = Ins()
    I.txt = txt
    I.dual = None
    I.mods = {}
    I.fn = None
    if '::' in txt:
        a, b = txt.split('::')
        I.name = 'dual'
        I.ops = []
        I.dual = [parse_ins(x.strip().replace('v_dual_', 'v_', 1)) for x in (a, b)]
        return I
    name, _, rest = txt.partition(' ')
    while True:
        m = MOD.search(' ' + rest)
        if not m:
            break
        k, _, v = m[1].partition(':')
        I.mods[k] = v or '1'
        rest = (' ' + rest)[: m.start()] + (' ' + rest)[m.end() :]
        rest = rest.strip()
    I.name = re.sub(r'_(e32|e64|sdwa|dpp|e64_dpp|dpp8|e64_dpp8)$', '', name)
    I.name = re.sub(r'_e64$', '', I.name)
    I.ops = [parse_opd(x) for x in re.split(r',\s*(?![^\[]*\])', rest)] if rest.strip() else []
    return I


def load_text(co):
    if not hasattr(co, 'dis'):
        with tempfile.TemporaryFile() as text:  # a pipe would be read in very small pieces
            subprocess.run([find_objdump(), '-d', co.path], stdout=text, check=True)
            text.seek(0)
            out = text.read().decode()
        co.dis, co.ins = {}, {}
        for ln in out.splitlines():
            m = LINE.match(ln)
            if m:
                co.dis[int(m[2], 16)] = (m[1].strip(), len(m[3].split()) * 4)


def disassemble(co, k):
    load_text(co)

    class Prog(dict):
        def __missing__(s, pc):
            if pc not in co.dis:
                raise EmuError('no instruction at %#x' % pc)
            if pc not in co.ins:
                t, n = co.dis[pc]
                I = parse_ins(t)
                I.pc, I.size = pc, n
                co.ins[pc] = I
            I = copy.copy(co.ins[pc])
            s[pc] = I
            return I

    return Prog()


# ------------------------------------------------------------------ helpers on arrays
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


# name -> (source types, fn); types: f float32, h float16, u uint32, i int32, U uint64, I int64, D double; result type first
T = {}


def op(names, sig, fn):
    for n in names.split():
        T[n] = (sig[0], sig[2:], fn)


op('v_mov_b32', 'u:u', lambda a: a)
op('v_mov_b64', 'U:U', lambda a: a)
op('v_not_b32', 'u:u', lambda a: ~a)
op('v_bfrev_b32', 'u:u', brev)
op('v_cvt_f32_u32', 'f:u', lambda a: a.astype(F32))
op('v_cvt_f32_i32', 'f:i', lambda a: a.astype(F32))
op('v_cvt_u32_f32', 'u:f', cvt_u32)
op('v_cvt_i32_f32', 'u:f', cvt_i32)
op('v_cvt_i32_f64', 'u:D', cvt_i32)
op('v_cvt_f16_f32', 'h:f', lambda a: a.astype(F16))
op('v_cvt_f32_f16', 'f:h', lambda a: a.astype(F32))
op('v_cvt_f64_f32', 'D:f', lambda a: a.astype(F64))
op('v_cvt_f32_f64', 'f:D', lambda a: a.astype(F32))
op('v_cvt_f64_u32', 'D:u', lambda a: a.astype(F64))
op('v_cvt_f64_i32', 'D:i', lambda a: a.astype(F64))
op('v_cvt_f16_u16', 'h:u', lambda a: (a & U32(0xFFFF)).astype(F16))
op('v_cvt_f16_i16', 'h:u', lambda a: sx(a, 16).view(I32).astype(F16))
for j in range(4):
    op('v_cvt_f32_ubyte%d' % j, 'f:u', lambda a, j=j: ((a >> U32(8 * j)) & U32(255)).astype(F32))
op('v_rcp_f32 v_rcp_iflag_f32', 'f:f', lambda a: d64(lambda x: 1 / x, a))
op('v_rcp_f64', 'D:D', lambda a: 1 / a)
op('v_rsq_f32', 'f:f', lambda a: d64(lambda x: 1 / np.sqrt(x), a))
op('v_sqrt_f32', 'f:f', lambda a: d64(np.sqrt, a))
op('v_exp_f32', 'f:f', lambda a: d64(np.exp2, a))
op('v_log_f32', 'f:f', lambda a: d64(np.log2, a))
op('v_sin_f32', 'f:f', lambda a: d64(lambda x: np.sin(2 * np.pi * x), a))
op('v_cos_f32', 'f:f', lambda a: d64(lambda x: np.cos(2 * np.pi * x), a))
op('v_trunc_f32', 'f:f', np.trunc)
op('v_floor_f32', 'f:f', np.floor)
op('v_floor_f64', 'D:D', np.floor)
op('v_ceil_f32', 'f:f', np.ceil)
op('v_rndne_f32', 'f:f', np.rint)
op('v_fract_f32', 'f:f', lambda a: a - np.floor(a))
op('v_frexp_mant_f32', 'f:f', lambda a: np.frexp(a)[0])
op('v_frexp_exp_i32_f32', 'i:f', lambda a: np.frexp(a)[1].astype(I32))
for n, fn in (
    ('rcp', lambda x: 1 / x),
    ('sqrt', np.sqrt),
    ('rsq', lambda x: 1 / np.sqrt(x)),
    ('exp', np.exp2),
    ('log', np.log2),
    ('trunc', np.trunc),
    ('floor', np.floor),
    ('ceil', np.ceil),
    ('rndne', np.rint),
):
    op('v_%s_f16' % n, 'h:h', lambda a, fn=fn: fn(a.astype(F64)).astype(F16))
op('v_ffbh_u32 v_clz_i32_u32', 'u:u', clz)
op('v_ffbl_b32 v_ctz_i32_b32', 'u:u', ctz)
op('v_bcnt_u32_b32', 'u:uu', lambda a, b: popc(a) + b)
for s_, c, cv in (('f32', 'f', F32), ('f16', 'h', F16)):
    op('v_add_' + s_, c + ':' + c * 2, lambda a, b: a + b)
    op('v_sub_' + s_, c + ':' + c * 2, lambda a, b: a - b)
    op('v_subrev_' + s_, c + ':' + c * 2, lambda a, b: b - a)
    op('v_mul_%s v_mul_legacy_%s v_mul_dx9_zero_%s' % (s_, s_, s_), c + ':' + c * 2, lambda a, b: a * b)
    op('v_max_%s v_max_num_%s' % (s_, s_), c + ':' + c * 2, fmx)
    op('v_min_%s v_min_num_%s' % (s_, s_), c + ':' + c * 2, fmn)
    op(
        'v_fma_%s v_mad_%s' % (s_, s_),
        c + ':' + c * 3,
        lambda a, b, d, cv=cv: (a.astype(F64) * b.astype(F64) + d.astype(F64)).astype(cv),
    )
    op('v_max3_%s v_max3_num_%s' % (s_, s_), c + ':' + c * 3, lambda a, b, d: fmx(fmx(a, b), d))
    op('v_min3_%s v_min3_num_%s' % (s_, s_), c + ':' + c * 3, lambda a, b, d: fmn(fmn(a, b), d))
    op('v_med3_%s v_med3_num_%s' % (s_, s_), c + ':' + c * 3, lambda a, b, d: fmx(fmn(a, b), fmn(fmx(a, b), d)))
    op('v_maxmin_%s v_maxmin_num_%s' % (s_, s_), c + ':' + c * 3, lambda a, b, d: fmn(fmx(a, b), d))
    op('v_minmax_%s v_minmax_num_%s' % (s_, s_), c + ':' + c * 3, lambda a, b, d: fmx(fmn(a, b), d))
op('v_ldexp_f32', 'f:fi', lambda a, b: np.ldexp(a.astype(F64), b).astype(F32))
op('v_add_f64', 'D:DD', lambda a, b: a + b)
op('v_mul_f64', 'D:DD', lambda a, b: a * b)
op('v_fma_f64', 'D:DDD', lambda a, b, c: a * b + c)
op('v_fmaak_f32 v_fmamk_f32', 'f:fff', fma)
T['v_fmamk_f32'] = ('f', 'fff', lambda a, k, c: fma(a, k, c))
op('v_add_u32 v_add_nc_u32 v_add_i32 v_add_nc_i32', 'u:uu', lambda a, b: a + b)
op('v_sub_u32 v_sub_nc_u32 v_sub_i32 v_sub_nc_i32', 'u:uu', lambda a, b: a - b)
op('v_subrev_u32 v_subrev_nc_u32', 'u:uu', lambda a, b: b - a)
op('v_mul_lo_u32', 'u:uu', lambda a, b: a * b)
op('v_mul_hi_u32', 'u:uu', lambda a, b: hi(u(a) * u(b)))
op('v_mul_hi_i32', 'u:ii', lambda a, b: ((a.astype(I64) * b.astype(I64)) >> I64(32)).astype(U64).astype(U32))
m24 = U32(0xFFFFFF)
op('v_mul_u32_u24', 'u:uu', lambda a, b: (a & m24) * (b & m24))
op('v_mul_i32_i24', 'u:uu', lambda a, b: sx(a, 24) * sx(b, 24))
op('v_mul_hi_u32_u24', 'u:uu', lambda a, b: hi(u(a & m24) * u(b & m24)))
op('v_mad_u32_u24', 'u:uuu', lambda a, b, c: (a & m24) * (b & m24) + c)
op('v_mad_i32_i24', 'u:uuu', lambda a, b, c: sx(a, 24) * sx(b, 24) + c)
op('v_and_b32', 'u:uu', lambda a, b: a & b)
op('v_or_b32', 'u:uu', lambda a, b: a | b)
op('v_xor_b32', 'u:uu', lambda a, b: a ^ b)
op('v_xnor_b32', 'u:uu', lambda a, b: ~(a ^ b))
s5 = U32(31)
op('v_lshlrev_b32', 'u:uu', lambda a, b: b << (a & s5))
op('v_lshrrev_b32', 'u:uu', lambda a, b: b >> (a & s5))
op('v_ashrrev_i32', 'u:ui', lambda a, b: (b >> (a & s5).astype(I32)).view(U32))
op('v_lshlrev_b64', 'U:uU', lambda a, b: b << (u(a) & U64(63)))
op('v_lshrrev_b64', 'U:uU', lambda a, b: b >> (u(a) & U64(63)))
op('v_ashrrev_i64', 'I:uI', lambda a, b: b >> (u(a) & U64(63)).astype(I64))
op('v_lshlrev_b16', 's:uu', lambda a, b: (b << (a & U32(15))) & U32(0xFFFF))
op('v_lshrrev_b16', 's:uu', lambda a, b: (b & U32(0xFFFF)) >> (a & U32(15)))
op('v_add_u16 v_add_nc_u16', 's:uu', lambda a, b: (a + b) & U32(0xFFFF))
op('v_sub_u16 v_sub_nc_u16', 's:uu', lambda a, b: (a - b) & U32(0xFFFF))
op('v_mul_lo_u16', 's:uu', lambda a, b: (a * b) & U32(0xFFFF))
op('v_mov_b16', 's:u', lambda a: a & U32(0xFFFF))
op('v_and_b16', 's:uu', lambda a, b: a & b & U32(0xFFFF))
op('v_xor_b16', 's:uu', lambda a, b: (a ^ b) & U32(0xFFFF))
op('v_not_b16', 's:u', lambda a: ~a & U32(0xFFFF))
op(
    'v_ashrrev_i16',
    's:uu',
    lambda a, b: (sx(b & U32(0xFFFF), 16).view(I32) >> (a & U32(15)).astype(I32)).view(U32) & U32(0xFFFF),
)
op('v_max_u16', 's:ww', np.maximum)
op('v_min_u16', 's:ww', np.minimum)
op('v_max_f64 v_max_num_f64', 'D:DD', fmx)
op('v_min_f64 v_min_num_f64', 'D:DD', fmn)
op('v_or_b16', 's:uu', lambda a, b: (a | b) & U32(0xFFFF))
op('v_min_i32', 'i:ii', np.minimum)
op('v_max_i32', 'i:ii', np.maximum)
op('v_min_u32', 'u:uu', np.minimum)
op('v_max_u32', 'u:uu', np.maximum)
op('v_med3_i32', 'i:iii', lambda a, b, c: np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c)))
op('v_med3_u32', 'u:uuu', lambda a, b, c: np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c)))
op('v_max3_u32', 'u:uuu', lambda a, b, c: np.maximum(np.maximum(a, b), c))
op('v_min3_u32', 'u:uuu', lambda a, b, c: np.minimum(np.minimum(a, b), c))
op('v_max3_i32', 'i:iii', lambda a, b, c: np.maximum(np.maximum(a, b), c))
op('v_min3_i32', 'i:iii', lambda a, b, c: np.minimum(np.minimum(a, b), c))
op('v_lshl_add_u32', 'u:uuu', lambda a, b, c: (a << (b & s5)) + c)
op('v_add_lshl_u32', 'u:uuu', lambda a, b, c: (a + b) << (c & s5))
op('v_lshl_or_b32', 'u:uuu', lambda a, b, c: (a << (b & s5)) | c)
op('v_and_or_b32', 'u:uuu', lambda a, b, c: (a & b) | c)
op('v_or3_b32', 'u:uuu', lambda a, b, c: a | b | c)
op('v_xor3_b32', 'u:uuu', lambda a, b, c: a ^ b ^ c)
op('v_add3_u32', 'u:uuu', lambda a, b, c: a + b + c)
op('v_xad_u32', 'u:uuu', lambda a, b, c: (a ^ b) + c)


def dot2(a, b, c):
    f = lambda x, k: h16((x >> U32(16)) if k else (x & U32(0xFFFF))).astype(F64)
    return (f(a, 0) * f(b, 0) + f(a, 1) * f(b, 1) + c.astype(F64)).astype(F32)


op('v_lshl_add_u64', 'U:UuU', lambda a, b, c: (a << (u(b) & U64(7))) + c)
op('v_bfe_u32', 'u:uuu', lambda a, b, c: (a >> (b & s5)) & ((U32(1) << (c & s5)) - U32(1)))
op(
    'v_bfe_i32',
    'u:uuu',
    lambda a, b, c: np.where(
        (c & s5) == 0,
        U32(0),
        (
            (((a >> (b & s5)) << (U32(32) - (c & s5)) % U32(32)).view(I32))
            >> ((U32(32) - (c & s5)) % U32(32)).astype(I32)
        ).view(U32),
    ),
)
op('v_bfi_b32', 'u:uuu', lambda a, b, c: (a & b) | (~a & c))
op('v_perm_b32', 'u:uuu', perm)
op('v_alignbit_b32', 'u:uuu', lambda a, b, c: lo(((u(a) << U64(32)) | u(b)) >> (u(c) & U64(31))))
op('v_alignbyte_b32', 'u:uuu', lambda a, b, c: lo(((u(a) << U64(32)) | u(b)) >> ((u(c) & U64(3)) * U64(8))))
op('v_bfm_b32', 'u:uu', lambda a, b: ((U32(1) << (a & s5)) - U32(1)) << (b & s5))
op('v_pack_b32_f16', 'u:hh', lambda a, b: bh(a) | (bh(b) << U32(16)))
op('v_cvt_pkrtz_f16_f32 v_cvt_pk_rtz_f16_f32', 'u:ff', lambda a, b: bh(rtz16(a)) | (bh(rtz16(b)) << U32(16)))
op('v_cvt_pk_u16_u32', 'u:uu', lambda a, b: np.minimum(a, 65535) | (np.minimum(b, 65535) << U32(16)))


def rtz16(a):
    h = a.astype(F16)
    over = np.abs(h.astype(F32)) > np.abs(a)
    v = h.view(np.uint16).copy()
    v[bcast(over, v.shape)] -= 1
    return v.view(F16)


def divfix(q, d, n):
    r = q.copy() if q.shape else q
    ref = (n.astype(F64) / d.astype(F64)).astype(F32)
    return np.where(np.isfinite(ref) & (ref != 0) & np.isfinite(d), r, ref).astype(F32)


op('v_div_fixup_f32', 'f:fff', divfix)
op('v_div_fixup_f16', 'h:hhh', lambda q, d, n: (n.astype(F32) / d.astype(F32)).astype(F16))
op('v_div_fmas_f32', 'f:fff', fma)
# products are not fused here, so the quotient is made anew where the sequence ends
op('v_div_fmas_f64', 'D:DDD', lambda a, b, c: a * b + c)
op('v_div_fixup_f64', 'D:DDD', lambda q, d, n: n / d)
CMP = {
    'lt': lambda a, b: a < b,
    'le': lambda a, b: a <= b,
    'gt': lambda a, b: a > b,
    'ge': lambda a, b: a >= b,
    'eq': lambda a, b: a == b,
    'ne': lambda a, b: a != b,
    'neq': lambda a, b: a != b,
    'lg': lambda a, b: (a < b) | (a > b),
    'nlt': lambda a, b: ~(a < b),
    'nle': lambda a, b: ~(a <= b),
    'ngt': lambda a, b: ~(a > b),
    'nge': lambda a, b: ~(a >= b),
    'nlg': lambda a, b: ~((a < b) | (a > b)),
    'o': lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    'u': lambda a, b: np.isnan(a) | np.isnan(b),
}
TY = {'f32': 'f', 'f16': 'h', 'u32': 'u', 'i32': 'i', 'u64': 'U', 'i64': 'I', 'u16': 'w', 'i16': 'W', 'f64': 'D'}
NOPS = re.compile(
    r's_(nop|delay_alu|clause|waitcnt\w*|wait_\w+|sendmsg|set_inst_prefetch_distance|setprio|sleep|inst_prefetch|icache_inv|dcache_\w+|code_end|barrier_signal|denorm_mode|round_mode|setreg\w*|ttracedata\w*|incperflevel|version)$|buffer_(gl[01]_inv|wbl2|inv|wbinvl1\w*|wbinvl1_vol)$|global_(wb|inv|wbinv)$'
)


# ------------------------------------------------------------------ machine
class Launch:
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
                except (EmuError, Race) as e:
                    raise EmuError('%s: %s at %#x: %s' % (s.k.name, e, pc, I.txt)) from None
                if r is None:
                    pc += I.size
                    if pc >= stop:
                        s.pc[w] = pc
                        break
                else:
                    break  # control flow: pcs and states already set

    # -- scalar and vector access
    def set_exec_from_E(s, w):
        b = s.E[w].astype(U64) << np.arange(s.L, dtype=U64)
        v = b.sum(1, dtype=U64)
        s.S[126][w] = lo(v)
        s.S[127][w] = hi(v)
        s.all_on = bool(s.E.all())

    def exec_changed(s):
        v = u(s.S[126][s.w]) | (u(s.S[127][s.w]) << U64(32)) if s.L == 64 else u(s.S[126][s.w])
        s.E[s.w] = ((v[:, None] >> np.arange(s.L, dtype=U64)) & U64(1)).astype(bool)
        s.all_on = bool(s.E.all())

    def mask64(s, o):  # per-lane bool from an sgpr mask operand
        v = u(s.S[o.i][s.w]) | (u(s.S[o.i + 1][s.w]) << U64(32)) if s.L == 64 else u(s.S[o.i][s.w])
        return ((v[:, None] >> np.arange(s.L, dtype=U64)) & U64(1)).astype(bool)

    def put_mask(s, o, m, w=None):
        if o.k == 'null':
            return
        b = (m & s.E[s.w]).astype(U64) << np.arange(s.L, dtype=U64)
        v = b.sum(1, dtype=U64)
        s.S[o.i][s.w] = lo(v)
        if s.L == 64:
            s.S[o.i + 1][s.w] = hi(v)
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

    # -- memory
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
            (s.races.words if words else s.races.bytes)(idx, block, store is not None)
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
            wave = bcast(np.arange(s.NW)[s.w][:, None], addr.shape)[act][:, None]
            s.lds_races.access(wgi[:, None], at[:, None] + np.arange(n), wave, store is not None)
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

    # -- translate one instruction into a closure
    def compile(s, I):
        n, o, m = I.name, I.ops, I.mods
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
        l = np.arange(16)

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

    def valu(s, I):
        n, o, m = I.name, I.ops, I.mods
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
        if re.match(r'v_cmpx?_class_f(32|16)$', n):

            def f():
                pre()
                A_ = s.src(o[-2], 'f' if n.endswith('32') else 'h', 0)
                mk = s.src(o[-1], 'u', 1)
                a = A_.astype(F64)
                tiny = 2.0**-126 if n.endswith('32') else 2.0**-14
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
        x = re.match(
            r'v_pk_(fma|add|mul|max|min|fmac|max_num|min_num|mov|lshlrev|add_u|sub_u)_(f16|f32|b32|b16|16|u16|i16)$', n
        )
        if x:
            nsrc = len(o) - 1
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
                        sel = (hs if hh else os_)[j]
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
        if n.startswith('v_wmma'):
            return s.wmma(I)
        if n.startswith('v_mfma'):
            return s.mfma(I)
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
