"""Tests ops on lists of tensors, as optimizers call them."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from lamina.frontend.decompositions.ops.foreach import FOREACH
from lamina.frontend.decompositions.table import table

LISTS = [op for op in FOREACH if "_foreach_" in str(op)]


def arguments(op: torch._ops.OpOverload) -> list[Any]:
    """Returns positive tensors below one, of several shapes, and numbers for numbers."""

    def some() -> list[Tensor]:
        return [torch.rand(s) * 0.8 + 0.1 for s in ((3,), (2, 5), (), (0,))]

    made: dict[str, Any] = {
        "Tensor[]": some,
        "number[]": lambda: [0.5, 2.0, 1.5, 3.0],
        "number": lambda: 0.7,
        "Tensor": torch.tensor(0.3).clone,
    }
    found = []
    for argument in op._schema.arguments:
        kind = str(argument.type).replace("List[Tensor]", "Tensor[]").replace("List[number]", "number[]")
        if kind in made and not argument.kwarg_only:
            found.append(made[kind]())
    return found


@pytest.mark.parametrize("op", LISTS, ids=str)
def test_each_tensor_by_itself(op: torch._ops.OpOverload) -> None:
    torch.manual_seed(0)
    given = arguments(op)
    want = op(*given)
    gm = make_fx(lambda *xs: op(*xs), decomposition_table=table(), tracing_mode="real")(*given)
    assert not any("_foreach_" in str(n.target) for n in gm.graph.nodes)
    for mine, right in zip(gm(*given), want, strict=True):
        assert mine.dtype == right.dtype
        torch.testing.assert_close(mine, right, rtol=2e-6, atol=1e-7)
