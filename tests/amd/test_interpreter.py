# Part of Onelook, Apache License 2.0.
"""Errors planted in kernels are found by the interpreter of tools/amd, and right kernels pass.
usage: test_interpreter.py CLANG TARGET   (clang-19 or later; the folder of amdemu.py in PYTHONPATH)"""
import os
import subprocess
import sys
import tempfile

import numpy as np

from amdco import CodeObject
from amdemu import launch
from amdmemory import Memory
from amdvalue import EmuError

OUTSIDE, LDS, LDS_RACE, RACE, LANES = 'out of bounds', 'LDS access at', 'LDS race', 'global race', 'two lanes store'
WANTED = {  # kernel: words of the message, None where it must pass
    'copy_right': None,
    'read_outside': OUTSIDE,
    'read_before': OUTSIDE,
    'write_outside': OUTSIDE,
    'write_half_outside': OUTSIDE,
    'neighbour_right': None,
    'barrier_missing': LDS_RACE,
    'overwritten_too_soon': LDS_RACE,
    'shared_outside': LDS,
    'shared_lanes_differ': LANES,
    'shared_lanes_agree': None,
    'shared_halves_right': None,
    'shared_halves_read_too_soon': LDS_RACE,
    'blocks_write_one': RACE,
    'block_reads_what_another_writes': RACE,
    'blocks_share_words_right': None,
    'blocks_share_bytes_right': None,
    'blocks_share_a_half': RACE,
    'half_read_while_word_is_written': RACE,
    'word_read_while_half_is_written': RACE,
    'lanes_differ': LANES,
    'counted_right': None,
    'pairs_moved_right': None,
}
BLOCKS, THREADS = 4, 128


def message_of(co, memory, kernel, arguments, chunk):
    try:
        launch(co, kernel, memory, arguments, (BLOCKS,), (THREADS,), chunk=chunk)
    except EmuError as e:
        return str(e)
    return None


def main():
    clang, target = sys.argv[1:3]
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'planted.hip')
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'planted')
        subprocess.run([clang, '-x', 'hip', '--cuda-device-only', '--no-gpu-bundle-output', '--offload-arch=' + target, '-nogpulib',
                        '-nogpuinc', '-O2', '-std=c++17', '-Wno-unused-parameter', source, '-o', path], check=True)
        co = CodeObject(path)
        unnamed = set(co.kernels) ^ set(WANTED)
        if unnamed:
            print('kernels and expectations differ: %s' % ', '.join(sorted(unnamed)))
            failed += 1
        for chunk in (1024, 1):  # all blocks at once, and one after the other
            for kernel in sorted(set(co.kernels) & set(WANTED)):
                memory = Memory(size=1 << 20)
                x = memory.put(np.arange(THREADS * BLOCKS, dtype=np.float32))
                y = memory.put(np.zeros(THREADS * BLOCKS, np.float32))
                said, wanted = message_of(co, memory, kernel, [x, y], chunk), WANTED[kernel]
                if wanted is None and said or wanted and (not said or wanted not in said):
                    print('%s: %s instead of %s' % (kernel, said or 'nothing said', wanted or 'nothing'))
                    failed += 1
    print('%s: %d kernels, %d findings' % (target, len(WANTED), failed))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
