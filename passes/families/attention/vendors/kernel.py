"""Describes vendors' attention kernels: what they compute, and how well. The front end reads this, too, without MLIR."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class Case:
    """What decides which kernels compute an attention.

    dtype         of queries, keys and values: "f16", "bf16", "f32", "f64"
    scores        batch, heads, queries, keys
    size, values  elements of a head of queries and keys, and of values
    masked        there is a mask
    trains_mask   the mask needs a gradient
    causal        query i sees keys 0 to i
    backward      the gradients are asked for
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
class VendorOperands:
    """The operands of a kernel's call besides queries, keys and values (for gradients, also the result's gradient), in its form.

    mask     what is added to the scores
    sums     whether the log-sum-exps are a result; for gradients, their value
    out      for gradients: the result
    seeds    for gradients: what stands for dropout's state
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


class VendorKernel:
    """A kernel of torch's for attention, with one for the gradients.

    name           in the list of kernels that torch's settings allow
    callee         the name of torch's op
    results        number of the overload's results
    unit           elements that heads are a multiple of
    repeats        there are as many heads of keys as of queries
    spreads        a mask has all dimensions, rows that begin at multiples of 16 bytes, and a gradient among the results
    rows           queries that log-sum-exps are a multiple of
    column         log-sum-exps have a last dimension of size 1
    heads_inside   the heads of log-sum-exps lie innermost
    side_by_side   the heads of a position lie side by side in results: of the forward pass, of gradients
    result_side_by_side  gradients read the result as if the heads of a position lay side by side
    like_query     the result has the query's order of dimensions
    seeds          shapes of what stands for dropout's state
    keeps_dropout  calls with dropout and without a mask stay torch's: Lamina's gradients were not measured against the kernel's
    """

    name: ClassVar[str]
    callee: ClassVar[str]
    results: ClassVar[int]
    unit: ClassVar[int] = 1
    repeats: ClassVar[bool] = False
    spreads: ClassVar[bool] = False
    rows: ClassVar[int] = 1
    column: ClassVar[bool] = False
    heads_inside: ClassVar[bool] = False
    side_by_side: ClassVar[tuple[bool, bool]] = (False, False)
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

    def arguments(self, of: VendorOperands) -> Sequence[Any]:
        """Returns the forward call's arguments after queries, keys and values."""
        raise NotImplementedError

    def gradient_arguments(self, of: VendorOperands) -> Sequence[Any]:
        """Returns the backward call's arguments after the result's gradient, queries, keys and values."""
        raise NotImplementedError

    def named(self, of: VendorOperands) -> dict[str, Any]:
        """Returns arguments that are passed by name."""
        return {}
