# Part of Onelook, Apache License 2.0.
"""The other half of the test double hipemu.c: loads code objects and runs kernels in the interpreter.

Started as: amdserve.py SOCKET MEMORY SIZE BASE OWN. Device memory is the first SIZE bytes of the shared file MEMORY, at
device address BASE; the second SIZE bytes say which of them are allocated; the last OWN bytes are ours (code, arguments).
One line comes in, one goes out ("ok ..." or "err ..."):
    L path                                  load a code object: number, architecture
    F number kernel                         a kernel's arguments: count, LDS bytes, largest block, sizes
    G number symbol                         address and size of a variable
    K number kernel gx gy gz bx by bz lds arguments_in_hex      run
Kernels are counted and timed by name; AMDEMU_PROFILE=file appends the table at the end, AMDEMU_COVERAGE=file the kernels and
their launches for amdcover.py.
"""
import collections
import hashlib
import mmap
import os
import sys
import time

import numpy as np

from amdco import CodeObject, place
from amddecode import load_text
from amdemu import launch
from amdmemory import Memory


def visible_arguments(kernel):
    return [a for a in kernel.meta.get('.args', []) if not a['.value_kind'].startswith('hidden_')]


class Server:
    def __init__(self, memory):
        self.memory = memory
        self.objects = []
        self.by_content = {}  # a program that opens its device again finds the translated instructions
        self.spent = collections.defaultdict(lambda: [0, 0.0, 0])

    def load(self, path):
        with open(path, 'rb') as f:
            key = hashlib.sha256(f.read()).digest()
        if key not in self.by_content:
            co, mem = CodeObject(path), self.memory
            load_text(co)
            co.home, co.base = mem, mem.alloc(len(co.image))
            at = co.base - mem.BASE
            mem.b[at : at + len(co.image)] = np.frombuffer(bytes(place(co, co.base)), np.uint8)
            self.objects.append(co)
            self.by_content[key] = len(self.objects)
        number = self.by_content[key]
        return '%d %s' % (number, self.objects[number - 1].gfx)

    def function(self, number, name):
        k = self.objects[int(number) - 1].kernels[name]
        args = visible_arguments(k)
        numbers = [len(args), k.lds, k.meta.get('.max_flat_workgroup_size', 1024)] + [a['.size'] for a in args]
        return ' '.join(str(n) for n in numbers)

    def variable(self, number, name):
        co = self.objects[int(number) - 1]
        return '%d %d' % (co.base + co.syms[name][0], co.syms[name][1])

    def run(self, number, name, gx, gy, gz, bx, by, bz, lds, packed=''):
        co, mem, start = self.objects[int(number) - 1], self.memory, time.process_time()
        raw, args, at = bytes.fromhex(packed), [], 0
        for a in visible_arguments(co.kernels[name]):
            args.append(raw[at : at + a['.size']])
            at += a['.size']
        top = mem.top
        try:
            grid, block = (int(gx), int(gy), int(gz)), (int(bx), int(by), int(bz))
            count = launch(co, name, mem, args, grid, block, dyn_lds=int(lds)).count
        finally:  # what the launch took of our memory
            mem.ok[top : mem.top] = 0
            mem.top = top
        row = self.spent[name]
        row[0] += 1
        row[1] += time.process_time() - start
        row[2] += count
        return '%d' % count

    def answer(self, words):
        calls = {'L': self.load, 'F': self.function, 'G': self.variable, 'K': self.run}
        try:
            return 'ok ' + calls[words[0]](*words[1:])
        except KeyError as e:
            return 'err not found: %s' % e
        except Exception as e:  # the double turns it into a launch failure
            return 'err ' + ('%s: %s' % (type(e).__name__, e)).replace('\n', ' ')

    def profile(self, path):
        with open(path, 'a') as f:
            for name, (n, seconds, steps) in sorted(self.spent.items(), key=lambda x: -x[1][1]):
                f.write('%-36s %5d launches %8.2f s %9d instructions\n' % (name, n, seconds, steps))

    def coverage(self, path):
        with open(path, 'a') as f:
            for name, (n, _, _) in sorted(self.spent.items()):
                f.write('%s %d\n' % (name, n))


def main():
    socket, shared, size, base, own = (int(x) for x in sys.argv[1:6])
    both = np.frombuffer(mmap.mmap(shared, size * 2), np.uint8)
    server = Server(Memory(b=both[:size], ok=both[size:], base=base, top=size - own))
    replies = os.fdopen(socket, 'r+b', buffering=0)
    for line in os.fdopen(os.dup(socket), 'rb'):
        replies.write((server.answer(line.decode().split()) + '\n').encode())
    if os.environ.get('AMDEMU_PROFILE'):
        server.profile(os.environ['AMDEMU_PROFILE'])
    if os.environ.get('AMDEMU_COVERAGE'):
        server.coverage(os.environ['AMDEMU_COVERAGE'])


main()
