# Part of Onelook, Apache License 2.0.
"""Read an AMDGPU (amdhsa, code object v3+) ELF: kernels, descriptors, metadata,
and build the kernarg block.  Standard library only."""

import struct


# ---------------------------------------------------------------- msgpack (the subset the notes use)
def _mp(b, o):
    t = b[o]
    o += 1
    if t < 0x80:
        return t, o
    if t < 0x90:
        return _mpmap(b, o, t & 15)
    if t < 0xA0:
        return _mparr(b, o, t & 15)
    if t < 0xC0:
        n = t & 31
        return b[o : o + n].decode(), o + n
    if t >= 0xE0:
        return t - 256, o
    if t == 0xC0:
        return None, o
    if t == 0xC2:
        return False, o
    if t == 0xC3:
        return True, o
    for code, fmt in (
        (0xCC, '>B'),
        (0xCD, '>H'),
        (0xCE, '>I'),
        (0xCF, '>Q'),
        (0xD0, '>b'),
        (0xD1, '>h'),
        (0xD2, '>i'),
        (0xD3, '>q'),
        (0xCA, '>f'),
        (0xCB, '>d'),
    ):
        if t == code:
            n = struct.calcsize(fmt)
            return struct.unpack_from(fmt, b, o)[0], o + n
    for code, fmt in ((0xD9, '>B'), (0xDA, '>H'), (0xDB, '>I')):
        if t == code:
            k = struct.calcsize(fmt)
            n = struct.unpack_from(fmt, b, o)[0]
            o += k
            return b[o : o + n].decode(), o + n
    if t == 0xDC:
        return _mparr(b, o + 2, struct.unpack_from('>H', b, o)[0])
    if t == 0xDD:
        return _mparr(b, o + 4, struct.unpack_from('>I', b, o)[0])
    if t == 0xDE:
        return _mpmap(b, o + 2, struct.unpack_from('>H', b, o)[0])
    if t == 0xDF:
        return _mpmap(b, o + 4, struct.unpack_from('>I', b, o)[0])
    raise ValueError('msgpack type %#x' % t)


def _mparr(b, o, n):
    r = []
    for _ in range(n):
        v, o = _mp(b, o)
        r.append(v)
    return r, o


def _mpmap(b, o, n):
    r = {}
    for _ in range(n):
        k, o = _mp(b, o)
        v, o = _mp(b, o)
        r[k] = v
    return r, o


MACH = {
    0x20: 'gfx600',
    0x2C: 'gfx900',
    0x2F: 'gfx906',
    0x30: 'gfx908',
    0x33: 'gfx1010',
    0x34: 'gfx1011',
    0x35: 'gfx1012',
    0x36: 'gfx1030',
    0x37: 'gfx1031',
    0x38: 'gfx1032',
    0x3F: 'gfx90a',
    0x40: 'gfx940',
    0x41: 'gfx1100',
    0x44: 'gfx1103',
    0x46: 'gfx1101',
    0x47: 'gfx1102',
    0x48: 'gfx1200',
    0x4A: 'gfx1151',
    0x4C: 'gfx942',
    0x4E: 'gfx1201',
    0x4F: 'gfx950',
    0x43: 'gfx1150',
    0x55: 'gfx1152',
}


class Kernel:
    pass


class CodeObject:
    def __init__(self, path):
        raw = open(path, 'rb').read()
        assert raw[:4] == b'\x7fELF' and struct.unpack_from('<H', raw, 18)[0] == 224, 'not an AMDGPU ELF'
        self.path, self.raw = path, raw
        phoff, shoff = struct.unpack_from('<QQ', raw, 32)
        (self.flags,) = struct.unpack_from('<I', raw, 48)
        self.gfx = MACH.get(self.flags & 0xFF, '?')
        phes, phn, shes, shn, shstr = struct.unpack_from('<HHHHH', raw, 54)
        # memory image
        segs = [struct.unpack_from('<IIQQQQQQ', raw, phoff + i * phes) for i in range(phn)]
        top = max(s[3] + s[6] for s in segs if s[0] == 1)
        self.image = bytearray((top + 4095) & ~4095)
        for s in segs:
            if s[0] == 1:
                self.image[s[3] : s[3] + s[5]] = raw[s[2] : s[2] + s[5]]
        self.meta = None
        for s in segs:  # PT_NOTE
            if s[0] != 4:
                continue
            o = s[2]
            while o < s[2] + s[5]:
                n, d, t = struct.unpack_from('<III', raw, o)
                o += 12
                name = raw[o : o + n]
                o += (n + 3) & ~3
                if t == 32 and name[:6] == b'AMDGPU':
                    self.meta, _ = _mp(raw[o : o + d], 0)
                o += (d + 3) & ~3
        secs = [struct.unpack_from('<IIQQQQIIQQ', raw, shoff + i * shes) for i in range(shn)]
        self.syms = {}
        for s in secs:
            if s[1] not in (2, 11):
                continue  # SYMTAB, DYNSYM
            st = secs[s[6]]
            for i in range(s[5] // 24):
                nm, info, oth, shx, val, sz = struct.unpack_from('<IBBHQQ', raw, s[4] + 24 * i)
                e = raw.index(0, st[4] + nm)
                self.syms[raw[st[4] + nm : e].decode()] = (val, sz, shx)
        self.rel = []  # (offset, type, symbol value, addend) of .rela.dyn
        for s in secs:
            if s[1] != 4:
                continue
            st = secs[s[6]]
            for i in range(s[5] // 24):
                off, info, add = struct.unpack_from('<QQq', raw, s[4] + 24 * i)
                val = struct.unpack_from('<Q', raw, st[4] + 24 * (info >> 32) + 8)[0] if info >> 32 else 0
                self.rel.append((off, info & 0xFFFFFFFF, val, add))
        self.kernels = {}
        for m in self.meta['amdhsa.kernels']:
            k = Kernel()
            k.name, k.meta = m['.name'], m
            kd = self.syms[m['.symbol']][0]
            d = bytes(self.image[kd : kd + 64])
            k.lds, k.priv, k.kasize = struct.unpack_from('<III', d, 0)
            k.entry = kd + struct.unpack_from('<q', d, 16)[0]
            k.end = k.entry + self.syms[k.name][1]
            k.rsrc3, k.rsrc1, k.rsrc2 = struct.unpack_from('<III', d, 44)
            k.props, k.preload = struct.unpack_from('<HH', d, 56)
            k.wave = m['.wavefront_size']
            self.kernels[k.name] = k


def place(co, base):
    """The memory image of the code object as it looks when loaded at base."""
    im = bytearray(co.image)
    for off, ty, val, add in co.rel:
        if ty == 13:
            v = base + add  # R_AMDGPU_RELATIVE64
        elif ty == 3:
            v = base + val + add  # R_AMDGPU_ABS64
        else:
            raise ValueError('relocation type %d' % ty)
        im[off : off + 8] = struct.pack('<Q', v & 0xFFFFFFFFFFFFFFFF)
    return im


def kernarg(k, args, grid, block, dyn_lds=0):
    """args: ints (addresses or scalars) and floats, in order. Returns the kernarg bytes, hidden args filled."""
    b = bytearray(max(k.kasize, 8))
    it = iter(args)

    def put(o, n, v):
        b[o : o + n] = int(v).to_bytes(n, 'little', signed=v < 0)

    nd = 3 if grid[2] * block[2] > 1 else 2 if grid[1] * block[1] > 1 else 1
    for a in k.meta.get('.args', []):
        vk, o, n = a['.value_kind'], a['.offset'], a['.size']
        if not vk.startswith('hidden_'):
            v = next(it)
            if isinstance(v, bytes):
                b[o : o + n] = v
            elif isinstance(v, float):
                b[o : o + n] = struct.pack('<f' if n == 4 else '<d', v)
            else:
                put(o, n, v)
        elif vk.startswith('hidden_block_count_'):
            put(o, n, grid['xyz'.index(vk[-1])])
        elif vk.startswith('hidden_group_size_'):
            put(o, n, block['xyz'.index(vk[-1])])
        elif vk == 'hidden_grid_dims':
            put(o, n, nd)
        elif vk == 'hidden_dynamic_lds_size':
            put(o, n, dyn_lds)
    return bytes(b)
