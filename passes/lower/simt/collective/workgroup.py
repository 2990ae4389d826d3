"""Allocates the shared memory of a kernel."""

from torch_mlir import ir

WORKGROUP = "#gpu.address_space<workgroup>"


class Workgroup:
    """Buffers in shared memory, which are arguments of the kernel's entry block. Parts of a kernel never run in the same CTA, so
    that they reuse each other's buffers of the same type."""

    def __init__(self, entry: ir.Block) -> None:
        self.entry = entry
        self.buffers: list[ir.Value] = []
        self._free: list[ir.Value] = []

    def next_part(self) -> None:
        """Makes all buffers available again, to another part of the kernel."""
        self._free = list(self.buffers)

    def buffer(self, type_: ir.MemRefType) -> ir.Value:
        """Returns a free buffer of this type, or a new one."""
        for i, b in enumerate(self._free):
            if b.type == type_:
                return self._free.pop(i)
        self.buffers.append(self.entry.add_argument(type_, ir.Location.unknown()))
        return self.buffers[-1]
