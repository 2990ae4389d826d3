"""torch._dynamo.decorators.mark_unbacked: one compilation serves all sizes, 0 and 1 among them."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from doors import BACKEND, NO_CACHE
from sized_graphs import GRAPHS, compilations, sweep
from sized_images import IMAGES
from torch._dynamo.decorators import mark_unbacked

F = torch.nn.functional
__all__ = ["compilations"]

SIZES = ((6, 11), (0, 5), (1, 3), (2, 1), (3, 127), (127, 2), (1000, 3), (1, 1000))
"""Not (n, 0): torch guards on the stride of the dimension outside, which is another one where a tensor has no elements."""


def unbacked(function: Callable[..., Any], dims: Sequence[Sequence[int]]) -> Callable[..., Any]:
    """Compiles a function of tensors; `dims` are the dimensions of each on which torch may not guard."""
    compiled = torch.compile(function, backend=BACKEND, options=NO_CACHE, fullgraph=True)

    def call(*args: Any) -> Any:
        for arg, marked in zip(args, dims, strict=True):
            if marked:
                mark_unbacked(arg, [*marked])
        return compiled(*args)

    return call


def varying(make: Callable[[int, int], tuple[Any, ...]]) -> list[list[int]]:
    """Returns the dimensions of each argument that two sizes decide."""
    pairs = zip(make(6, 11), make(9, 23), strict=True)
    return [[d for d in range(a.dim()) if a.shape[d] != b.shape[d]] for a, b in pairs]


TORCH_REFUSES = {
    # each asks whether sizes are equal, or 0, where torch can neither guard nor leave it to the call
    "roll", "sdpa", "sdpa_causal", "max_pool_places", "avg_pool_places", "train_encoder", "train_projection", "train_mse", "train_conv",
    "group_norm", "train_group_norm", "resize_aligned",
}  # fmt: skip
PER_SIZE = {
    # no guard sets quotients of sizes equal, or says what divides a size
    "view_patches", "blocks_of_a_size", "windows", "windows_of_a_convolution", "pixel_unshuffle",
    # torch asks whether there are results
    "resize_nearest", "resize_nearest_three", "resize_nearest_exact", "train_resize_nearest",
    "slice_from_the_end",  # torch gives the slice a size of its own
}  # fmt: skip
ROWS = ((6, 11), (1, 3), (2, 1), (127, 2), (1000, 3), (3, 1000))
"""For graphs that take no tensors without rows, as eager does not."""
MADE_OF = {
    "standardized": ((6, 11), (2, 3), (1000, 2)),
    "var": ((6, 11), (1, 3), (3, 1000)),
    "amax_columns": ROWS,
    "select": ROWS,
    "size_over_number": ROWS,
    "index": ROWS,
    "transposed_sum": ROWS,
    "view_shifted": ((6, 6), (1, 1), (127, 127)),
    "group_norm_of_a_convolution": ROWS,
}
EVERY = GRAPHS | IMAGES
CASES = [name for name in EVERY if name not in TORCH_REFUSES | PER_SIZE]


@pytest.mark.filterwarnings("error:lamina")
@pytest.mark.parametrize("name", CASES)
def test_one_compilation_serves_all_sizes(name: str, compilations: list[int]) -> None:
    graph = EVERY[name]
    sweep(graph, unbacked(graph.function, varying(graph.make)), all_sizes=MADE_OF.get(name, SIZES))
    assert len(compilations) == 1 + graph.train


@pytest.mark.parametrize("name", sorted(TORCH_REFUSES))
def test_what_torch_refuses_is_its_error(name: str) -> None:
    torch._dynamo.reset()
    args = EVERY[name].make(6, 11)
    with pytest.raises(torch._dynamo.exc.UserError, match="data-dependent expression"):
        unbacked(EVERY[name].function, varying(EVERY[name].make))(*args)
