"""What the emitter of tile programs asks of a target's Config."""

from typing import Protocol

SQUARE = 64  # side of the squares that are transposed on every target: whole cache lines and few pages on both sides


class BlockConfig(Protocol):
    """lanes     elements of one block
    scratch   bytes up to which values of a row are kept in scratch memory between two loops over it (0: never)
    reuse     operations from which on a value is worth keeping
    prefetch  memory is asked for data some time before it is read
    streams   bytes of a result from which on its stores bypass the caches (0: never)
    teams     groups of threads that take turns in the iterations of a loop over columns (1: there are none)
    online    a maximum and the sum of exponentials relative to it are found in one loop
    groups    threads of one program
    wide_sums sums of f32 over many iterations, or over the lanes of a block, are added up in f64
    masked    one masked block covers a chunk, instead of whole blocks and a tail
    apart     blocks that may reach over the edge of an image have loops of their own, so that the others ask for no bounds
    """

    @property
    def lanes(self) -> int: ...
    @property
    def scratch(self) -> int: ...
    @property
    def reuse(self) -> int: ...
    @property
    def prefetch(self) -> bool: ...
    @property
    def streams(self) -> int: ...
    @property
    def masked(self) -> bool: ...
    @property
    def apart(self) -> bool: ...
    @property
    def wide_sums(self) -> bool: ...
    @property
    def teams(self) -> int: ...
    @property
    def online(self) -> bool: ...
    @property
    def groups(self) -> int: ...
