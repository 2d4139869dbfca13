# Part of Onelook, Apache License 2.0.
"""From the text of llvm-objdump to instructions: names, operands, modifiers."""

import copy
import os
import re
import shutil
import subprocess
import tempfile

from amdvalue import EmuError


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
