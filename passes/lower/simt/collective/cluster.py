"""Thread block clusters, whose CTAs share one program: cluster barriers and stores to distributed shared memory (sm_90 and
newer)."""

from torch_mlir import ir
from torch_mlir.dialects import arith, memref

from ..threads import Indices


def start() -> None:
    """Signals that this CTA runs: others may access its shared memory once they have waited."""
    ir.Operation.create("nvvm.cluster.arrive.relaxed")


def wait() -> None:
    """Waits for all CTAs of the cluster to arrive."""
    ir.Operation.create("nvvm.cluster.wait")


def synchronize() -> None:
    """Emits a cluster barrier: all CTAs see afterwards what any stored before."""
    ir.Operation.create("nvvm.cluster.arrive")
    wait()


def send(value: ir.Value, slot: ir.Value, place: ir.Value, to: ir.Value, at: Indices) -> None:
    """Stores `value` into element `place` of the buffer `slot`, in the shared memory of the CTA of rank `to`."""
    i64, i32 = ir.IntegerType.get_signless(64), ir.IntegerType.get_signless(32)
    address = at.add(memref.extract_aligned_pointer_as_index(slot), at.times(place, value.type.width // 8))
    pointer = _make("llvm.inttoptr", "!llvm.ptr<3>", arith.index_cast(i64, address))
    remote = _make("nvvm.mapa", "!llvm.ptr<7>", pointer, arith.index_cast(i32, to))
    ir.Operation.create("llvm.store", operands=[value, remote])


def _make(name: str, type_: str, *operands: ir.Value) -> ir.Value:
    return ir.Operation.create(name, results=[ir.Type.parse(type_)], operands=list(operands)).results[0]
