# Part of Onelook, Apache License 2.0.
"""What the interpreter watches beyond bounds: two waves that use one byte of LDS, or two blocks that use one byte of global memory,
one of them writing, without anything that orders them. Atomics count as reads.

Every cell has the tag of its last writer and of its last reader. Tags grow with every barrier or launch, so that nothing is
cleared: what is not above `before` is past. Cells are words; the tag of a user is odd for whole words and the next even number for
parts of a word, which are settled by tags a byte, since two users may own the halves of a word. `many` stands for several readers
of whole words, the next number for several users of parts.
"""

import numpy as np

from amdvalue import I64, EmuError


def _note(tags, at, tag, many):
    """Sets tags[at]; where one instruction sets a cell to two tags, it becomes `many`."""
    tags[at] = tag
    lost = tags[at] != tag
    if lost.any():
        tags[at[lost]] = np.broadcast_to(many, at.shape)[lost]


class Use:
    """The tags of a memory. mine, before, many: (accesses, 1) or numbers."""

    def __init__(s, n_bytes):
        s.writers, s.readers = np.zeros(n_bytes // 4, I64), np.zeros(n_bytes // 4, I64)
        s.byte_writers, s.byte_readers = np.zeros(n_bytes, np.int32), np.zeros(n_bytes, np.int32)

    def clear(s):
        for tags in (s.writers, s.readers, s.byte_writers, s.byte_readers):
            tags[:] = 0

    @staticmethod
    def _others(tag, mine, before):
        recent = tag > before
        return recent & (tag != mine) & (tag != mine + 1) if recent.any() else recent

    def words(s, at, mine, before, many, store):
        """at: (accesses, words), numbers of words. Which of them clash."""
        bad = s._others(s.writers[at], mine, before)
        other = s._others(s.readers[at], mine, before)
        if not store:
            _note(s.readers, at, np.where(other, many, mine), many)
            return bad
        s.writers[at] = mine
        return bad | other | (s.writers[at] != mine)

    def bytes(s, at, mine, before, many, store):
        """Accesses of less than a word, or across two. at: (accesses, bytes). Which of them clash."""
        word, parts = at >> 2, many + 1
        writer, reader = s.writers[word], s.readers[word]
        bad = s._others(writer, mine, before) & (writer & 1 == 1) | s._others(s.byte_writers[at], mine, before)
        read = s._others(s.byte_readers[at], mine, before)
        if store:
            bad |= s._others(reader, mine, before) & (reader & 1 == 1) | read
            s.byte_writers[at] = mine
            bad |= s.byte_writers[at] != mine
        else:
            _note(s.byte_readers, at, np.where(read, parts, mine), parts)
        known = writer if store else reader
        several = np.where(known & 1 == 1, many, parts)
        tag = np.where(s._others(known, mine, before), several, np.where(known == mine, mine, mine + 1))
        _note(s.writers if store else s.readers, word, tag, parts)
        return bad


def _fail(what, user, since, bad, at, row, store):
    place = int(at[tuple(np.argwhere(bad)[0])]) % row
    raise EmuError(
        '%s race: byte %#x is %s by one %s while another used it %s' % (what, place, 'written' if store else 'read', user, since)
    )


class LdsRaces:
    """The users are waves, between two barriers of their block. Addresses are in the segments of all blocks, one behind the other,
    `row` bytes each."""

    def __init__(s, n_bytes, n_waves, n_blocks, row):
        s.use, s.row = Use(n_bytes), row
        s.step, s.many = 2 * n_waves + 2, 2 * n_waves + 1
        s.before = np.zeros(n_blocks, I64)

    def barrier(s, block):
        s.before[block] += s.step

    def access(s, block, at, n, wave, store):
        """block, at, wave: (accesses,); n bytes each."""
        before = s.before[block][:, None]
        mine, many = before + 1 + 2 * wave[:, None], before + s.many
        if n % 4 == 0 and not (at & 3).any():
            bad, scale = s.use.words((at >> 2)[:, None] + np.arange(n // 4), mine, before, many, store), 4
        else:
            bad, scale = s.use.bytes(at[:, None] + np.arange(n), mine, before, many, store), 1
        if bad.any():
            _fail('LDS', 'wave', 'since the last barrier', bad, at[:, None] + scale * np.arange(bad.shape[1]), s.row, store)


class GlobalRaces:
    """The users are the blocks of one launch: they run in any order."""

    def __init__(s, n_bytes):
        s.use, s.next, s.n_bytes = Use(n_bytes), 0, n_bytes

    def launch(s, n_blocks):
        if s.next + 2 * n_blocks + 2 > 2**31 - 1:  # the tags of bytes are narrow
            s.use.clear()
            s.next = 0
        s.before, s.next = s.next, s.next + 2 * n_blocks + 2
        s.many = s.next - 1

    def access(s, block, at, words, store):
        """at: (accesses, words or bytes); block: (accesses, 1)."""
        watch = s.use.words if words else s.use.bytes
        bad = watch(at, s.before + 1 + 2 * block, s.before, s.many, store)
        if bad.any():
            _fail('global', 'block', 'in the same launch', bad, at * 4 if words else at, s.n_bytes, store)
