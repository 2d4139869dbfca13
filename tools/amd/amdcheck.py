# Part of Onelook, Apache License 2.0.
"""What the interpreter watches beyond bounds: two waves that use one LDS byte, two blocks that use one byte of global memory, and
two lanes that store different values at one address, without anything that orders them. Atomics count as
reads. Tags are numbers that grow, so that nothing needs to be cleared between barriers and launches.
"""

import numpy as np

I64 = np.int64


class Race(Exception):
    pass


def _note(tags, at, tag, many):
    """Sets tags[at]; where one instruction sets a cell to two tags, it becomes `many`."""
    tags[at] = tag
    lost = tags[at] != tag
    if lost.any():
        tags[at[lost]] = np.broadcast_to(many, at.shape)[lost]


class LdsRaces:
    """Bytes of LDS touched by two waves between two barriers, one of them writing. A byte's last writer and reader are kept as
    epoch * K + wave, an epoch being the time between two barriers of the block; wave K - 1 stands for several readers."""

    def __init__(s, n_bytes, n_waves, n_blocks, row):
        s.writers, s.readers = np.zeros(n_bytes, I64), np.zeros(n_bytes, I64)
        s.epoch = np.ones(n_blocks, I64)
        s.K, s.row = n_waves + 2, row

    def barrier(s, block):
        s.epoch[block] += 1

    def access(s, block, at, wave, store):
        """block, wave: (accesses, 1); at: (accesses, bytes), in the segments of all blocks, one behind the other."""
        before = s.epoch[block] * s.K
        mine, many = before + wave + 1, before + s.K - 1
        writer = s.writers[at]
        bad = (writer > before) & (writer != mine)
        if store:
            reader = s.readers[at]
            bad |= (reader > before) & (reader != mine)
            s.writers[at] = mine
            bad |= s.writers[at] != mine
        else:
            reader = s.readers[at]
            _note(s.readers, at, np.where((reader > before) & (reader != mine), many, mine), many)
        if bad.any():
            i = tuple(np.argwhere(bad)[0])
            raise Race(
                'LDS race: byte %d is %s by one wave while another used it since the last barrier'
                % (int(at[i]) % s.row, 'written' if store else 'read')
            )


class GlobalRaces:
    """Global memory touched by two blocks of one launch, one of them writing: blocks run in any order. Tags are kept a word: odd
    ones for whole words, even ones for parts, which are settled by tags a byte, since blocks may own the halves of a word."""

    def __init__(s, n_bytes):
        s.writers, s.readers = np.zeros(n_bytes // 4, I64), np.zeros(n_bytes // 4, I64)
        s.byte_writers, s.byte_readers = np.zeros(n_bytes, np.int32), np.zeros(n_bytes, np.int32)
        s.next = 0

    def launch(s, n_blocks):
        if s.next + 2 * n_blocks + 2 > 2**31 - 1:  # the tags of bytes are narrow
            for tags in (s.byte_writers, s.byte_readers, s.writers, s.readers):
                tags[:] = 0
            s.next = 0
        s.before, s.next = s.next, s.next + 2 * n_blocks + 2
        s.many_words, s.many_parts = s.next - 1, s.next

    def _others(s, tag, mine):
        return (tag > s.before) & (tag != mine) & (tag != mine + 1)

    def _fail(s, bad, at, scale, store):
        i = tuple(np.argwhere(bad)[0])
        raise Race(
            'global race: offset %#x is %s by one block while another used it in the same launch'
            % (int(at[i]) * scale, 'written' if store else 'read')
        )

    def words(s, at, block, store):
        """Accesses of whole words. at: (accesses, words), numbers of words; block: (accesses, 1)."""
        mine = s.before + 1 + 2 * block
        bad = s._others(s.writers[at], mine)
        if store:
            bad |= s._others(s.readers[at], mine)
            s.writers[at] = mine
            bad |= s.writers[at] != mine
        else:
            _note(s.readers, at, np.where(s._others(s.readers[at], mine), s.many_words, mine), s.many_words)
        if bad.any():
            s._fail(bad, at, 4, store)

    def bytes(s, at, block, store):
        """Accesses of less than a word, or across two. at: (accesses, bytes)."""
        mine, word = s.before + 1 + 2 * block, at >> 2
        writer, reader = s.writers[word], s.readers[word]
        bad = s._others(writer, mine) & (writer & 1 == 1) | s._others(s.byte_writers[at], mine)
        tags = s.writers if store else s.readers
        known = writer if store else reader
        if store:
            bad |= s._others(reader, mine) & (reader & 1 == 1) | s._others(s.byte_readers[at], mine)
            s.byte_writers[at] = mine
            bad |= s.byte_writers[at] != mine
        else:
            _note(s.byte_readers, at, np.where(s._others(s.byte_readers[at], mine), s.many_parts, mine), s.many_parts)
        several = np.where(known & 1 == 1, s.many_words, s.many_parts)
        _note(tags, word, np.where(s._others(known, mine), several, np.where(known == mine, mine, mine + 1)), s.many_parts)
        if bad.any():
            s._fail(bad, at, 1, store)
