"""Records which threads have read and written each element of a buffer, to find races."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

Array = np.ndarray
_NOBODY, _MANY = -1, -2


@dataclass
class Threads:
    """The threads of one access, one entry an element: who, in which CTA and cluster, and the CTA's epoch (batch.epoch)."""

    who: Array
    epoch: Array
    per_cta: int
    per_cluster: int

    @cached_property
    def cta(self) -> Array:
        return self.who // self.per_cta

    def after(self, who: Array, epoch: Array) -> Array:
        """Returns whether a barrier lies between an access by `who` and this one."""
        cta = (who // self.per_cta == self.cta) & (epoch != self.epoch)
        if self.per_cluster == self.per_cta:
            return cta
        cluster = (who // self.per_cluster == self.who // self.per_cluster) & (epoch >> 32 != self.epoch >> 32)
        return cta | cluster


class Words:
    """The last write of every element, and its reads since then: one thread, or several of one CTA, or of several CTAs."""

    def __init__(self, size: int) -> None:
        self.writer, self.written_at = np.full(size, _NOBODY), np.zeros(size, np.int64)
        self.reader, self.read_at = np.full(size, _NOBODY), np.zeros(size, np.int64)
        self.reader_cta = np.full(size, _NOBODY)

    def read(self, at: Array, threads: Threads) -> Array:
        """Records reads. Returns which of them race with a write."""
        writer = self.writer[at]
        race = (writer >= 0) & (writer != threads.who) & ~threads.after(writer, self.written_at[at])
        cta = threads.cta
        old, old_cta = self.reader[at], self.reader_cta[at]
        gone = (old == _NOBODY) | ((old_cta == cta) & (self.read_at[at] != threads.epoch))  # a barrier lies between
        reader = np.where(gone | (old == threads.who), threads.who, _MANY)
        reader_cta = np.where(gone | (old_cta == cta), cta, _MANY)
        self.reader[at], self.reader_cta[at], self.read_at[at] = reader, reader_cta, threads.epoch
        self.reader[at[self.reader[at] != reader]] = _MANY  # several threads read it at once
        self.reader_cta[at[self.reader_cta[at] != reader_cta]] = _MANY
        return race

    def races_with_reads(self, at: Array, threads: Threads) -> Array:
        """Returns which of these writes race with a read."""
        reader, cta = self.reader[at], self.reader_cta[at]
        first = np.where(cta >= 0, cta, 0) * threads.per_cta
        ordered = (cta >= 0) & threads.after(first, self.read_at[at])
        return (reader != _NOBODY) & (reader != threads.who) & ~ordered

    def write(self, at: Array, threads: Threads) -> tuple[Array, Array, Array]:
        """Notes writes. Of each: who wrote there before; is it ordered after that; did another write of the same op win?"""
        before = self.writer[at]
        ordered = (before < 0) | (before == threads.who) | threads.after(before, self.written_at[at])
        self.writer[at], self.written_at[at] = threads.who, threads.epoch
        return before, ordered, self.writer[at] != threads.who
