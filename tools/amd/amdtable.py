# Part of Onelook, Apache License 2.0.
"""Vector instructions that are a function of their operands, and comparisons: name, types, function."""

import numpy as np

from amdvalue import (
    U32, I32, U64, I64, F32, F16, F64, bcast, h16, bh, bf, fma, u, lo, hi, sx, popc, brev, clz, ctz, cvt_u32, cvt_i32, d64,
    fmn, fmx, perm,
)

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
op('v_rsq_f64', 'D:D', lambda a: 1 / np.sqrt(a))
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
op('v_ldexp_f64', 'D:Di', np.ldexp)
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
op('v_cvt_pk_f16_f32', 'u:ff', lambda a, b: bh(a.astype(F16)) | (bh(b.astype(F16)) << U32(16)))  # gfx950
op('v_cvt_pk_bf16_f32', 'u:ff', lambda a, b: bf16_bits(a) | (bf16_bits(b) << U32(16)))
op('v_cvt_pk_u16_u32', 'u:uu', lambda a, b: np.minimum(a, 65535) | (np.minimum(b, 65535) << U32(16)))


def bf16_bits(a):
    """Rounded to nearest even; not-a-number stays one."""
    bits = bf(a)
    near = (bits + U32(0x7FFF) + ((bits >> U32(16)) & U32(1))) >> U32(16)
    return np.where(np.isnan(a), (bits >> U32(16)) | U32(0x40), near)


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
