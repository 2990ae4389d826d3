"""The shared memory of a kernel."""

from torch_mlir import ir


class Workgroup:
    """Buffers in it, which are arguments of the kernel's entry block. Parts of a kernel never run in the same CTA, so that they
    take turns in buffers of one type."""

    def __init__(self, entry: ir.Block) -> None:
        self.entry = entry
        self.buffers: list[ir.Value] = []
        self._free: list[ir.Value] = []

    def next_part(self) -> None:
        self._free = list(self.buffers)

    def buffer(self, type_: ir.MemRefType) -> ir.Value:
        for i, b in enumerate(self._free):
            if b.type == type_:
                return self._free.pop(i)
        self.buffers.append(self.entry.add_argument(type_, ir.Location.unknown()))
        return self.buffers[-1]
