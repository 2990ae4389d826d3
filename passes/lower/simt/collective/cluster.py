"""CTAs that share one program: barriers of a cluster, and stores into each other's shared memory (sm_90 and newer)."""

from torch_mlir import ir
from torch_mlir.dialects import arith, memref

from ..threads import Indices


def start() -> None:
    """This CTA runs: others may reach it once they have waited."""
    ir.Operation.create("nvvm.cluster.arrive.relaxed")


def wait() -> None:
    ir.Operation.create("nvvm.cluster.wait")


def synchronize() -> None:
    """All that was stored before is seen by all afterwards."""
    ir.Operation.create("nvvm.cluster.arrive")
    wait()


def send(value: ir.Value, slot: ir.Value, place: ir.Value, to: ir.Value, at: Indices) -> None:
    """Stores into element `place` of `slot` as the CTA of rank `to` has it."""
    i64, i32 = ir.IntegerType.get_signless(64), ir.IntegerType.get_signless(32)
    address = at.add(memref.extract_aligned_pointer_as_index(slot), at.times(place, value.type.width // 8))
    pointer = _make("llvm.inttoptr", "!llvm.ptr<3>", arith.index_cast(i64, address))
    remote = _make("nvvm.mapa", "!llvm.ptr<7>", pointer, arith.index_cast(i32, to))
    ir.Operation.create("llvm.store", operands=[value, remote])


def _make(name: str, type_: str, *operands: ir.Value) -> ir.Value:
    return ir.Operation.create(name, results=[ir.Type.parse(type_)], operands=list(operands)).results[0]
