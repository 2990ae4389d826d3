"""lamina-distribute: lowers block programs to SIMT code, the code of one GPU thread."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from ..infra.base import Pass
from ..ir.sizes import KERNEL_SIZES, i64, read_size, size_attribute
from .nvvm.clusters import Nvidia
from .simt.parts import fill
from .simt.threads import Shape

MODULE = "kernels"
VENDOR = Nvidia()  # of every GPU so far


@dataclass(frozen=True)
class Distribute(Pass):
    """Spread every block program over the threads of a CTA.

    Before: functions with `tile.threads` and `tile.vec` (see lamina-tile), math expanded. After: `gpu.module @kernels` with one
    `gpu.func` each, which has the same arguments and holds what one thread does: lane l of a block is element l % vec of access l
    / (threads * vec) of thread (l / vec) % threads. A block is one vector of `vec` elements for each access; reductions go
    through registers, shuffles and shared memory; loads are whole accesses, stores are predicated at the ends of rows. `gpu.grid`
    says how many CTAs to launch. Where a function consists of several tile.part, each CTA runs the part that it belongs to.

        %x = vector.transfer_read %m[%i], %z : memref<65536xf32>, vector<1024xf32>     {tile.threads = 128, tile.vec = 4}
     -> %x0 = vector.load %m[%i + %t * 4] : vector<4xf32> ; %x1 = vector.load %m[%i + %t * 4 + 512] : vector<4xf32>

    lanes  threads of a warp, which exchange values by shuffles: 32 on NVIDIA's GPUs
    """

    name: ClassVar[str] = "lamina-distribute"
    lanes: int = 32

    def run(self, module: ir.Module) -> None:
        """Replaces every function with `tile.threads` by a gpu.func in one gpu.module."""
        functions = [o.operation for o in module.body.operations if "tile.threads" in o.operation.attributes]
        if not functions:
            return
        module.operation.attributes["gpu.container_module"] = ir.UnitAttr.get()
        with ir.InsertionPoint(module.body):
            target = ir.Operation.create("gpu.module", regions=1, attributes={"sym_name": ir.StringAttr.get(MODULE)})
        body = target.regions[0].blocks.append()
        for tile in functions:
            with tile.location, ir.InsertionPoint(body):
                _kernel(tile, self.lanes)
            tile.erase()


def _kernel(tile: ir.Operation, lanes: int) -> None:
    """Creates the gpu.func of a tile function at the insertion point."""
    shape = Shape.of(tile, lanes)
    type_ = ir.TypeAttr(tile.attributes["function_type"])
    arguments = ir.FunctionType(type_.value).inputs
    grid = read_size(tile.attributes["tile.grid"])
    copied = {
        a: tile.attributes[a]
        for a in ("tile.align", "tile.alias", "tile.dependent", "tile.consistent", "tile.outputs", KERNEL_SIZES)
        if a in tile.attributes
    }
    resident = ir.IntegerAttr(tile.attributes["tile.resident"]).value if "tile.resident" in tile.attributes else 0
    new = ir.Operation.create(
        "gpu.func",
        regions=1,
        attributes={
            "function_type": type_, "sym_name": tile.attributes["sym_name"], "kernel": ir.UnitAttr.get(),
            "known_block_size": ir.DenseI32ArrayAttr.get([shape.cta, 1, 1]),
            **VENDOR.attributes(shape.cluster, resident),
            "gpu.grid": size_attribute(shape.ctas(grid)), **copied,
        },
    )  # fmt: skip
    entry = new.regions[0].blocks.append(*arguments)
    new.attributes["workgroup_attributions"] = i64(fill(tile, entry, lanes, VENDOR))
    with ir.InsertionPoint(entry):
        ir.Operation.create("gpu.return")
