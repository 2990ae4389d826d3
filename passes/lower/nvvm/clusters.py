"""NVIDIA's thread block clusters, whose CTAs share one program (cluster barriers, distributed shared memory), and programmatic
dependent launch, both of sm_90 and newer."""

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, nvvm

from ..simt.threads import IndexBuilder


class Nvidia:
    """The ops of NVIDIA's GPUs that lamina-distribute emits (simt.vendor.Vendor)."""

    def attributes(self, cluster: int, resident: int) -> dict[str, ir.Attribute]:
        """Returns the cluster's size, and the bound on registers with which a multiprocessor holds `resident` CTAs."""
        attributes: dict[str, ir.Attribute] = {}
        if cluster > 1:
            attributes["nvvm.cluster_dim"] = ir.DenseI32ArrayAttr.get([cluster, 1, 1])
        if resident:
            attributes["nvvm.minctasm"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), resident)
        return attributes

    def start(self) -> None:
        """Arrives at the first cluster barrier."""
        ir.Operation.create("nvvm.cluster.arrive.relaxed")

    def wait(self) -> None:
        """Waits at a cluster barrier."""
        ir.Operation.create("nvvm.cluster.wait")

    def synchronize(self) -> None:
        """Emits a cluster barrier."""
        ir.Operation.create("nvvm.cluster.arrive")
        self.wait()

    def send(self, value: ir.Value, slot: ir.Value, place: ir.Value, to: ir.Value, index_ops: IndexBuilder) -> None:
        """Stores into distributed shared memory."""
        i64, i32 = ir.IntegerType.get_signless(64), ir.IntegerType.get_signless(32)
        address = index_ops.add(memref.extract_aligned_pointer_as_index(slot), index_ops.times(place, value.type.width // 8))
        pointer = _make("llvm.inttoptr", "!llvm.ptr<3>", arith.index_cast(i64, address))
        remote = _make("nvvm.mapa", "!llvm.ptr<7>", pointer, arith.index_cast(i32, to))
        ir.Operation.create("llvm.store", operands=[value, remote])

    def wait_for_previous_kernel(self) -> None:
        """Waits until the memory that the kernel before has written is visible, and lets the next kernel launch. Emitted ahead of
        the first access to memory, it hides the launch behind the end of the kernel before (CUDA C++ programming guide,
        "Programmatic dependent launch and synchronization")."""
        nvvm.griddepcontrol(nvvm.GridDepActionKind.wait)
        nvvm.griddepcontrol(nvvm.GridDepActionKind.launch_dependents)


def _make(name: str, type_: str, *operands: ir.Value) -> ir.Value:
    return ir.Operation.create(name, results=[ir.Type.parse(type_)], operands=list(operands)).results[0]
