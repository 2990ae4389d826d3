"""lamina-select-attention: moves attention and its gradients from library calls to Lamina's kernels.

The choice for each call is its `graph.choice`, as tuning writes it, or the cost model's default (schedules/attention_cost.py).
"""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.core.target import Target
from lamina.schedules import attention_backward_cost, attention_cost
from lamina.schedules.attention import Backward, Config, Forward, Specialised, Split, read

from ...infra.base import Pass
from ...ir.locations import where
from ...ir.reading import producer
from ..select import LIBRARY
from ..surroundings import CHOICE, calls
from .backward import LIBRARY_BACKWARD, Gradients
from .forward import LIBRARY_ATTENTION, Attention, strides_of_results
from .mask_operands import Masks
from .mask_parts import Values
from .operands import drop


@dataclass(frozen=True)
class SelectAttention(Pass):
    """Turn calls of attention into Lamina's kernels where `graph.choice` on the call says so.

    Before: @main holds groups and externs. After: every attention whose `graph.choice` is a schedule (schedules/attention.py) is
    one call of a kernel of lamina.kernels.attention, or two where the keys are split; these write into the plan's memory. Its
    gradients, in a backward graph, are two calls. A call without the attribute, or with "library", stays.

        %0:2 = "graph.extern"(%q, %k, %v) {callee = "aten._scaled_dot_product_flash_attention.default",
                                           graph.choice = "forward{m=64 n=64}", ...}
     -> %0 = "graph.extern"(%q, %k, %v) {callee = "lamina.attention_forward", reason = "custom", kwargs = {schedule = ...}, ...}

    A mask is not materialized where the ops that compute it show what it means: causal, a sliding window, the keys that a sequence
    has (padding), or a bias per head that is linear in the distance (ALiBi). Lamina's kernels then take flags, bounds of keys
    (computed by a small kernel, once for all calls with the mask) and slopes, and skip blocks of hidden keys.

        %m = "graph.group"() ({ positions compared, %there among them, as numbers to add })
        %0:2 = "graph.extern"(%q, %k, %v, %m) {callee = "aten._scaled_dot_product_efficient_attention.default", ...}
     -> %1 = "graph.extern"(%there) {callee = "lamina.attention_bounds", ...}
        %0 = "graph.extern"(%q, %k, %v, %there, %1) {kwargs = {causal = true, window = 8, reads = "mask bounds", ...}, ...}

    With `blocks=1` a separate kernel lists, once for all calls with a mask that has to be read, which blocks of keys each block of
    queries sees; the others are skipped. Gradients have such lists, too: of blocks of keys for the first kernel, and for the second
    of the blocks of queries that see each block of keys. It is an error where no mask is read.

        %0:2 = "graph.extern"(%q, %k, %v, %m) {graph.choice = "forward{m=64 n=64 blocks=1}", ...}
     -> %1 = "graph.extern"(%m) {callee = "lamina.attention_blocks", ...}
        %0 = "graph.extern"(%q, %k, %v, %m, %1) {kwargs = {reads = "mask blocks", ...}, ...}

    Attention with dropout by Lamina's random numbers, and its gradients, become Lamina's kernels by default: these draw the numbers
    where they need them, from the seed.

        %0:2 = "graph.extern"(%q, %k, %v, %seed) {callee = "lamina.dropped_attention.default", ...}
     -> %0:2 = "graph.extern"(%q, %k, %v, %seed) {kwargs = {dropout = 0.1, reads = "seed", ...}, ...}

    target    the GPU whose cost model decides on attention without graph.choice (none: it stays)
    schedule  the choice for all attention without graph.choice that it suits ("": the cost model decides)
    """

    name: ClassVar[str] = "lamina-select-attention"
    target: Target | None = None
    schedule: str = ""

    def run(self, module: ir.Module) -> None:
        """Rewrites the calls; raises CompileError where a `graph.choice` cannot compute its call."""
        masks, ops = Masks(), calls(module)
        for op in ops:
            if (found := _read(op, masks)) is not None:
                _ = found.work  # analyzes all masks before the module changes
        masks.values = Values()
        for op in ops:
            if CHOICE in op.attributes:
                config = _chosen(op, masks)
            elif (found := _read(op, masks)) is not None:
                config = self._config(found)
            else:
                continue
            if config is not None:
                _take(op, config, masks)

    def _config(self, found: Attention | Gradients) -> Config | None:
        """Returns the schedule of a call without graph.choice; None for the library."""
        if self.schedule:
            config = _known(self.schedule)
            return config if config is not None and not _unfit(config, found) else None
        if self.target is None:
            return None
        gpu = self.target.gpu
        if isinstance(found, Gradients):
            return attention_backward_cost.unmeasured(found.work, gpu)
        return attention_cost.unmeasured(found.work, gpu)


def _read(op: ir.Operation, masks: Masks) -> Attention | Gradients | None:
    return Attention.read(op, masks) or Gradients.read(op, masks)


def _unfit(config: Config, found: Attention | Gradients) -> str:
    """Returns why a schedule does not suit a call; "" where it does."""
    if isinstance(config, Backward) != isinstance(found, Gradients):
        return "for gradients alone" if isinstance(config, Backward) else "not for gradients"
    if isinstance(config, Forward | Backward) and config.blocks and not _reads_mask(found):
        return "for masks that are read for each score alone"
    if isinstance(config, Specialised) and (found.work.masked or found.work.slopes or found.work.drops):
        return "for attention without dropout and with nothing that is read or added for each score"
    return "for few queries, without causal and training" if isinstance(config, Split) and not found.work.is_few else ""


def _reads_mask(found: Attention | Gradients) -> bool:
    return found.meaning.rest if isinstance(found, Attention) else found.of.mask is not None


def _known(choice: str) -> Config | None:
    """Parses a choice; None for the library. Raises CompileError for unknown ones."""
    return None if choice == LIBRARY else read(choice)


def _chosen(op: ir.Operation, masks: Masks) -> Config | None:
    """Returns the schedule in graph.choice; None for other calls and the library. Raises CompileError where it does not suit."""
    callee, choice = (ir.StringAttr(op.attributes[name]).value for name in ("callee", CHOICE))
    if callee not in (*LIBRARY_ATTENTION, *LIBRARY_BACKWARD):
        return None
    try:
        config = _known(choice)
    except CompileError as e:
        raise CompileError(e.message, where=where(op.location), remedy=e.remedy) from None
    if config is None:
        return None
    found = _read(op, masks)
    if found is None:
        raise CompileError(
            f"{choice} cannot compute this {callee}",
            where=where(op.location),
            remedy="kernels of ours are for f16 and bf16, heads of up to 256 elements, without dropout by a library",
        )
    if why := _unfit(config, found):
        raise CompileError(f"{choice} is {why}: {found.what}", where=where(op.location), remedy="drop graph.choice")
    return config


def _take(op: ir.Operation, config: Config, masks: Masks) -> None:
    found, strides = _read(op, masks), strides_of_results(op)
    with op.location, ir.InsertionPoint(op):
        if isinstance(found, Gradients):
            assert isinstance(config, Backward)
            made = found.emit(config, strides, masks)
        else:
            assert found is not None
            made = dict(zip((found.result, *found.more), found.emit(config, strides, masks), strict=True))
    for old, new in made.items():
        old.replace_all_uses_with(new)
    sources = [producer(v) for v in op.operands]
    op.erase()
    for source in {o.results[0]: o for o in sources if o is not None}.values():
        drop(source)
