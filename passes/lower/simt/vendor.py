"""The protocol of a GPU vendor: ops beyond the gpu dialect, for clusters of CTAs and for launches that overlap."""

from typing import Protocol

from torch_mlir import ir

from .threads import IndexBuilder


class Vendor(Protocol):
    """Emits a vendor's ops at the current insertion point. `lamina-distribute` takes one; passes/lower/nvvm has NVIDIA's."""

    def attributes(self, cluster: int, resident: int) -> dict[str, ir.Attribute]:
        """Returns a kernel's attributes: its CTAs in a cluster, and how many CTAs a multiprocessor shall hold (0: any number)."""

    def start(self) -> None:
        """Signals that this CTA runs: others may access its shared memory once they have waited."""

    def wait(self) -> None:
        """Waits for all CTAs of the cluster to arrive."""

    def synchronize(self) -> None:
        """Emits a cluster barrier: all CTAs see afterwards what any stored before."""

    def send(self, value: ir.Value, slot: ir.Value, place: ir.Value, to: ir.Value, index_ops: IndexBuilder) -> None:
        """Stores `value` into element `place` of the buffer `slot`, in the shared memory of the CTA of rank `to`."""

    def wait_for_previous_kernel(self) -> None:
        """Waits until all work before is done and visible, then lets the next kernel be launched, which waits for this one
        likewise."""
