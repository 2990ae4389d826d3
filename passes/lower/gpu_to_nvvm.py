"""lamina-gpu-to-nvvm: rewrites the code of one thread into a form that upstream's conversion to NVVM lowers whole and well."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from ..infra.base import Pass
from ..ir.reading import by_name, element_of, ops_in
from .gpu_math import LATE, hardware
from .nvvm import atomics, guarded_loads, halves, indices, lanes
from .nvvm.remainder import lower_remainder
from .nvvm.signature import annotate

Rewrite = Callable[[ir.Operation], None]


@dataclass(frozen=True)
class GpuToNvvm(Pass):
    """Rewrite in gpu.func what upstream's conversion to NVVM does not lower, or lowers badly.

    Before: the distributed level (see lamina-distribute). After: the same dialects, with

    - hardware approximations (`fastmath<afn>`), lane by lane, as NVPTX intrinsics; sin, cos and tan as polynomials;
    - sums, products and differences marked `contract`, so that they become fused multiply-adds (not in a function that is
      `tile.consistent`: the same expression may be fused in one place and not in another);
    - vector.reduction as a tree of scalar ops; vector.extract_strided_slice as vector.shuffle;
    - arith.mului_extended of i32, which has both halves of a product, as PTX's wide product;
    - absf, floor, sqrt and other instructions as LLVM's intrinsics, where upstream calls libdevice;
    - f16 and bf16 computed in f32; f64 and integers converted to and from them through f32; pairs of bf16 converted to f32 by
      shifts and masks;
    - arith.remf as an exact loop;
    - loads of one element under a guard as loads under a predicate;
    - atomic sums of neighbors in memory as one of a vector;
    - the user's i64 indices saturated to 32 bits, where indices will have no more;
    - kernel arguments with noalias, readonly, nonnull and their alignment (`tile.alias`, `tile.align`,
      `tile.dependent`);
    - workgroup memory aligned to 16 bytes.

    contract    allow fused multiply-adds
    index_bits  of an index after conversion: 64, or 32 where passes/lower/nvvm/indices.py finds these enough
    join        neighbors' atomic sums, which takes sm_90

        %y = math.exp2 %x fastmath<afn> : vector<2xf32>
    ->  %e = vector.extract %x[0] ... ; llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"(%e) ... ; vector.from_elements
    """

    name: ClassVar[str] = "lamina-gpu-to-nvvm"
    contract: bool = True
    index_bits: int = 64
    join: bool = True

    def run(self, module: ir.Module) -> None:
        """Rewrites every gpu.func of the module's gpu.modules."""
        with module.context:
            for outer in ops_in(module.body, "gpu.module"):
                for inner in ops_in(outer.regions[0].blocks[0], "gpu.func"):
                    self._lower(inner)

    def _lower(self, function: ir.Operation) -> None:
        ops, consistent = by_name(function), "tile.consistent" in function.attributes
        guarded_loads.lower(function, ops, self.index_bits)
        ops = by_name(function)
        annotate(function, ops)
        if self.index_bits == indices.NARROW:
            for op in ops.get("arith.index_cast", ()):
                if indices.from_long(op):
                    indices.saturate(op)
        for applies, rewrites in STEPS:
            wanted = [(rewrite, op) for name, rewrite in rewrites.items() for op in ops.get(name, ()) if applies(op)]
            for rewrite, op in wanted:
                rewrite(op)
            if wanted:
                ops = by_name(function)
        if self.join:
            atomics.join_neighbors(ops.get("memref.atomic_rmw", []), self.index_bits)
        if self.contract and not consistent:
            _contract(ops)


def _contract(ops: dict[str, list[ir.Operation]]) -> None:
    """Allows fused multiply-adds: marks sums, differences and products that have no fast-math flags, or `reassoc`."""
    none, alone, tree = (ir.Attribute.parse(f"#arith.fastmath<{names}>") for names in ("none", "contract", "reassoc,contract"))
    for name in ("arith.addf", "arith.subf", "arith.mulf"):
        for op in ops.get(name, ()):
            flags = op.attributes.get("fastmath", none)
            op.attributes["fastmath"] = alone if flags == none else tree if "reassoc" in str(flags) else flags


def _always(_: ir.Operation) -> bool:
    return True


def _is_word(op: ir.Operation) -> bool:
    """Returns whether an op's result is of i32."""
    return element_of(op.results[0].type) == ir.IntegerType.get_signless(32)


# Each step sees what the ones before it made: f16 and bf16 become f32, remainders and angles hold divisions and reductions.
STEPS: tuple[tuple[Callable[[ir.Operation], bool], dict[str, Rewrite]], ...] = (
    (halves.is_on_halves, dict.fromkeys(halves.NAMES, halves.lower)),
    (halves.holds_pairs, {"arith.extf": halves.lower_pairs}),
    (_always, {"arith.remf": lower_remainder, **dict.fromkeys(LATE, lanes.lower_angle)}),
    (_always, {"vector.reduction": lanes.lower_reduction, "vector.extract_strided_slice": lanes.lower_slice}),
    (hardware.is_marked, dict.fromkeys(lanes.MARKED, lanes.lower_marked)),
    (_always, dict.fromkeys(lanes.INSTRUCTIONS, lanes.lower_instruction)),
    (_is_word, {"arith.mului_extended": lanes.lower_product}),
)
