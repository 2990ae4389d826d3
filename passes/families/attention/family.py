"""The family of attention kernels: attention and its gradients."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch_mlir import ir

from lamina.core.gpu import Gpu
from lamina.core.target import Target
from lamina.kernels.library import ATTENTION

from ...ir.reading import producer
from ...space.contraction import Unfit
from ..choice import LIBRARY, Choice
from ..problem import Family, Problem, Reported
from ..surroundings import calls
from .backward import Gradients
from .cost import candidates, default_schedule
from .forward import Attention, strides_of_results
from .launches import SOURCES
from .masks.dropped import erase_unused
from .masks.operands import Masks
from .masks.parts import Values
from .schedules import SCHEDULES, Backward, Config, Forward, Specialized, Split
from .torch_kernels.calls import hand_over, has_dropout
from .torch_kernels.registry import KERNELS

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class AttentionProblem(Problem):
    """A call of attention, or of its gradients, which has no epilogue. masks: the analyzed masks of the module."""

    op: ir.Operation
    call: Attention | Gradients
    masks: Masks

    @property
    def ops(self) -> Sequence[ir.Operation]:
        """The call."""
        return (self.op,)

    @property
    def before(self) -> Sequence[ir.Operation]:
        """Ops that Lamina's kernels do not need: those that make a known mask."""
        return self.call.attention.before

    @property
    def results(self) -> Sequence[ir.Value]:
        """The result and the log-sum-exp, or the gradients, as far as they have users."""
        return [v for v in self.call.results if v is not None]

    @property
    def what(self) -> str:
        """The sizes and the mask's meaning."""
        return self.call.what

    def default(self, gpu: Gpu | None) -> Choice:
        """Returns the cost model's choice."""
        if gpu is None:
            return LIBRARY
        config = default_schedule(self.call.work, gpu)
        return LIBRARY if config is None else Choice(config)

    def candidates(self, gpu: Gpu) -> Sequence[Choice]:
        """Returns the schedules that suit, the most promising first; none for symbolic sizes, at which nothing can be measured."""
        return [] if self.call.attention.is_symbolic else [Choice(config) for config in candidates(self.call.work, gpu)]

    def take(self, choice: Choice, target: Target | None) -> None:
        """Replaces the call by calls of Lamina's kernels. Raises Unfit if the schedule does not suit."""
        if not isinstance(choice.kernel, Config) or choice.cover:
            raise Unfit("no schedule of attention")
        if why := _unfit(choice.kernel, self.call):
            raise Unfit(f"it is {why}: {self.call.what}")
        op, strides = self.op, strides_of_results(self.op)
        with op.location, ir.InsertionPoint(op):
            replacements = self.call.emit(choice.kernel, strides, self.masks)
        for old, new in replacements.items():
            old.replace_all_uses_with(new)
        sources = [producer(v) for v in op.operands]
        op.erase()
        for source in {o.results[0]: o for o in sources if o is not None}.values():
            erase_unused(source)

    def settle(self, inputs: "Sequence[Tensor]") -> None:
        """Makes random inputs fit to measure: hides half of the blocks of a mask that kernels read, and runs the forward pass whose
        results gradients read."""
        from .inputs import run_forward, settle_mask

        if isinstance(self.call, Gradients):
            run_forward(self.op, self.call, inputs)
        elif self.call.mask is not None and self.call.meaning.needs_mask:
            settle_mask(self.op, self.call, inputs)


class AttentionFamily(Family):
    """Attention and its gradients."""

    computes = "attention of f16 and bf16 with heads of up to 256 elements"
    schedules, sources = SCHEDULES, SOURCES
    reported = Reported(
        "attention op", (*ATTENTION, *(name for kernel in KERNELS for name in kernel.overloads)), slice(2),
        ("attention_join", "attention_backward_keys"), has_dropout,
        "with dropout, whose random numbers only that knows: both passes are its own",
    )  # fmt: skip

    def reads(self, op: ir.Operation) -> bool:
        """Returns whether Lamina's kernels can compute a call."""
        return _read(op, Masks()) is not None

    def problems(self, module: ir.Module) -> Iterator[AttentionProblem]:
        """Yields a problem for each call. All masks are analyzed before the module changes."""
        masks, ops = Masks(), calls(module, symbolic=True)
        for op in ops:
            if (call := _read(op, masks)) is not None:
                _ = call.work
        masks.values = Values()
        for op in ops:
            if (call := _read(op, masks)) is not None:
                yield AttentionProblem(op, call, masks)

    def hand_over(self, module: ir.Module, target: Target | None) -> None:
        """Replaces the calls that are left by calls of torch's fused kernels."""
        hand_over(module, target)


def _read(op: ir.Operation, masks: Masks) -> Attention | Gradients | None:
    """Reads a call that Lamina's kernels can compute; None for others."""
    found = Attention.read(op, masks) or Gradients.read(op, masks)
    return found if found is not None and found.fits() else None


def _unfit(config: Config, call: Attention | Gradients) -> str:
    """Returns why a schedule does not suit a call; "" if it does."""
    if isinstance(config, Backward) != isinstance(call, Gradients):
        return "for gradients alone" if isinstance(config, Backward) else "not for gradients"
    if isinstance(config, Forward | Backward) and config.blocks and not call.attention.meaning.needs_mask:
        return "for masks that are read for each score alone"
    if call.attention.is_symbolic and (isinstance(config, Specialized) or getattr(config, "blocks", 0) == 1):
        return "of symbolic sizes, which kernels with specialized warps or lists of blocks are not for"
    if isinstance(config, Specialized) and (call.work.masked or call.work.slopes or call.work.has_dropout or call.work.has_cap):
        return "for attention without dropout or soft cap and with nothing that is read or added for each score"
    return "for few queries, without causal and training" if isinstance(config, Split) and not call.work.is_few else ""
