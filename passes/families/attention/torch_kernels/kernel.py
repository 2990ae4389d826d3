"""Describes torch's fused attention kernels: which cases each computes, and in which form it needs operands. The front end imports
this, too, so it must not import MLIR."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class Case:
    """The properties of a call of attention that decide which kernels compute it.

    dtype         of queries, keys and values: "f16", "bf16", "f32", "f64"
    scores        batch, heads, queries, keys
    size, values  elements of a head of queries and keys, and of values
    masked        there is a mask
    trains_mask   the mask needs a gradient
    causal        query i sees keys 0 to i
    backward      the call computes the gradients
    """

    dtype: str
    scores: tuple[int, int, int, int]
    size: int
    values: int
    masked: bool = False
    trains_mask: bool = False
    causal: bool = False
    backward: bool = False


@dataclass(frozen=True)
class TorchKernelOperands:
    """The operands of a kernel's call in the form that it needs, besides queries, keys and values (and the result's gradient).

    mask     the tensor that is added to the scores
    sums     whether the log-sum-exps are a result; for gradients, their value
    out      for gradients: the result of the forward pass
    seeds    for gradients: placeholders for the state of dropout
    lengths  numbers of queries and keys
    trains   the mask needs a gradient
    """

    causal: bool
    mask: Any
    sums: Any
    out: Any = None
    seeds: Sequence[Any] = ()
    lengths: Sequence[int] = ()
    trains: bool = False


class TorchKernel:
    """A fused attention kernel of torch, and the one for its gradients.

    name           the name in the list of kernels that torch's settings allow
    callee         the name of torch's op
    results        the number of the overload's results
    head_multiple  elements that head sizes are padded to a multiple of
    repeats_heads  keys and values need as many heads as queries, so they are repeated for grouped queries
    expands_mask   a mask needs all four dimensions and rows that begin at multiples of 16 bytes; its gradient is among the results
    sums_multiple  queries that log-sum-exps are padded to a multiple of
    sums_as_column        log-sum-exps have a last dimension of size 1
    sums_heads_innermost  the heads of log-sum-exps are innermost in memory
    heads_side_by_side    whether the heads of a position lie side by side in memory: in the forward result, in gradients
    result_side_by_side   gradients read the forward result as if the heads of a position lay side by side
    like_query     the result has the query's order of dimensions in memory
    seeds          the shapes of the placeholders for the state of dropout
    keeps_dropout  calls with dropout and without a mask stay torch's: Lamina's gradients were not compared with this kernel's
    """

    name: ClassVar[str]
    callee: ClassVar[str]
    results: ClassVar[int]
    head_multiple: ClassVar[int] = 1
    repeats_heads: ClassVar[bool] = False
    expands_mask: ClassVar[bool] = False
    sums_multiple: ClassVar[int] = 1
    sums_as_column: ClassVar[bool] = False
    sums_heads_innermost: ClassVar[bool] = False
    heads_side_by_side: ClassVar[tuple[bool, bool]] = (False, False)
    result_side_by_side: ClassVar[bool] = False
    like_query: ClassVar[bool] = False
    seeds: ClassVar[Sequence[Sequence[int]]] = ((), ())
    keeps_dropout: ClassVar[bool] = False

    @property
    def overloads(self) -> tuple[str, str]:
        """The overloads of the forward and the backward pass."""
        return f"aten.{self.callee}.default", f"aten.{self.callee}_backward.default"

    def is_allowed(self) -> bool:
        """Returns whether torch's settings (torch.nn.attention.sdpa_kernel) allow the kernel."""
        raise NotImplementedError

    def computes(self, case: Case, capability: int | None) -> bool:
        """Returns whether the kernel computes an attention. capability: of the GPU, 90 for sm_90a; None on CPUs."""
        raise NotImplementedError

    def arguments(self, operands: TorchKernelOperands) -> Sequence[Any]:
        """Returns the forward call's arguments after queries, keys and values."""
        raise NotImplementedError

    def gradient_arguments(self, operands: TorchKernelOperands) -> Sequence[Any]:
        """Returns the backward call's arguments after the result's gradient, queries, keys and values."""
        raise NotImplementedError

    def named(self, operands: TorchKernelOperands) -> dict[str, Any]:
        """Returns arguments that are passed by name."""
        return {}
