"""Tests that masks of symbolic sizes that are regions of positions are recognized in captured graphs, and others are not."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx

from lamina.frontend.attention.mask_flags import flag_masks
from lamina.frontend.attention.positions import TwoValued, read_positions

SIZES = (2, 3, 7, 31)
INF = float("inf")


def _ranges(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.arange(x.shape[0])[:, None], torch.arange(x.shape[1])


def _numbered(x: Tensor) -> tuple[Tensor, ...]:
    """Returns numbers of positions, those of packed sequences, of which there is one, and indices of queries and keys."""
    places = torch.arange(x.shape[1])[None].expand(x.shape[0], -1)
    packed = (torch.diff(places, prepend=places[:, :1] - 1, dim=-1) != 1).cumsum(-1)
    return places, packed, torch.arange(x.shape[0])[:, None], torch.arange(x.shape[1])


def _by_index(x: Tensor) -> Tensor:
    places, packed, rows, columns = _numbered(x)
    queries = torch.arange(x.shape[0])[:, None]
    return (places[rows * 0, columns] <= queries) & (packed[rows * 0, columns] == packed[rows * 0, columns])


READ: dict[str, Callable[[Tensor], Tensor]] = {
    "lower": lambda x: torch.ones(x.shape[0], x.shape[1], dtype=torch.bool).tril(),
    "upper, inverted": lambda x: ~torch.ones(x.shape[0], x.shape[1], dtype=torch.bool).triu(2),
    "lower, by offset": lambda x: torch.tril(torch.ones(x.shape[0], x.shape[1]), diagonal=-1) == 1,
    "infinite above": lambda x: torch.full((x.shape[0], x.shape[1]), -INF).triu(1),
    "one less, times a number": lambda x: (1.0 - torch.ones(x.shape[0], x.shape[1]).tril()) * -1e9,
    "positions": lambda x: _ranges(x)[1] <= _ranges(x)[0],
    "positions, with a batch": lambda x: (_ranges(x)[0] >= _ranges(x)[1])[None, None].expand(2, 4, -1, -1),
    "window": lambda x: (_ranges(x)[1] <= _ranges(x)[0]) & (_ranges(x)[1] > _ranges(x)[0] - 5),
    "window by distance": lambda x: torch.logical_and(_ranges(x)[0] - _ranges(x)[1] < 4, _ranges(x)[0] - _ranges(x)[1] >= 0),
    "outside of both": lambda x: ~((_ranges(x)[1] > _ranges(x)[0]) | (_ranges(x)[0] - _ranges(x)[1] > 3)),
    "filled": lambda x: torch.zeros(x.shape[0], x.shape[1]).masked_fill(_ranges(x)[1] > _ranges(x)[0], -INF),
    "chosen": lambda x: torch.where(_ranges(x)[1] > _ranges(x)[0], -1e9, 0.0).to(torch.bfloat16),
    "from the end": lambda x: _ranges(x)[1] <= _ranges(x)[0] + (x.shape[1] - x.shape[0]),
    "transposed": lambda x: (torch.arange(x.shape[1])[:, None] <= torch.arange(x.shape[0])).mT,
    "a range with a start": lambda x: torch.arange(3, 3 + x.shape[1]) < 9,
    "either side": lambda x: (_ranges(x)[1] > _ranges(x)[0] + 1) | (_ranges(x)[1] < _ranges(x)[0] - 1),
    "by index": _by_index,
    "a slice": lambda x: torch.arange(x.shape[1] + 3)[3:] <= _ranges(x)[0],
    "its only position, repeated": lambda x: torch.arange(x.shape[1] + 1)[:1] + 2 <= _ranges(x)[0] + 0 * _ranges(x)[1],
    "steps of a range": lambda x: torch.diff(torch.arange(x.shape[1] + 1)) == 1,
    "steps of another range": lambda x: torch.diff(2 * torch.arange(x.shape[1] + 1)) == 1,
    "everything": lambda x: torch.ones(x.shape[0], x.shape[1], dtype=torch.bool),
}


def _packed(x: Tensor) -> Tensor:
    places, packed, rows, columns = _numbered(x)
    batch = torch.arange(1)[:, None, None]
    near = places[batch, columns] > rows - 3
    return ((places[batch, columns] <= rows) & near & (packed[batch, rows] == packed[batch, columns])).expand(3, -1, -1)


MASKS = READ | {"packed": _packed}
UNREAD: dict[str, Callable[[Tensor], Tensor]] = {
    "values": lambda x: x > 0,
    "values and positions": lambda x: (x > 0) & (_ranges(x)[1] <= _ranges(x)[0]),
    "written to": lambda x: torch.ones(x.shape[0], x.shape[1], dtype=torch.bool).tril().fill_(False),
    "equal": lambda x: _ranges(x)[1] == _ranges(x)[0],
    "steps with another first one": lambda x: torch.diff(torch.arange(x.shape[1]), prepend=torch.arange(x.shape[1])[:1]) == 1,
    "by an index from the end": lambda x: torch.arange(x.shape[1])[torch.arange(x.shape[1]) - 1] <= _ranges(x)[0],
    "by values": lambda x: torch.arange(x.shape[1])[x[0].long()] <= _ranges(x)[0],
    "a slice from the end": lambda x: torch.arange(x.shape[1] + 3)[-3:] <= _ranges(x)[0],
    "blocks": lambda x: _ranges(x)[1] // 4 <= _ranges(x)[0] // 4,
}


def read(function: Callable[[Tensor], Tensor]) -> Any:
    """Returns what `place` says of a function's result, of a matrix of symbolic sizes."""
    found: list[Any] = []

    def backend(gm: fx.GraphModule, _: object) -> Any:
        (result,) = gm.graph.output_node().args[0]
        found.append(read_positions(result, gm))
        return gm.forward

    torch._dynamo.reset()
    torch.compile(function, backend=backend, dynamic=True)(torch.zeros(5, 8))
    return found[0]


@pytest.mark.parametrize("name", READ)
def test_region_is_where_the_mask_has_its_values(name: str) -> None:
    found = read(READ[name])
    assert isinstance(found, TwoValued)
    for rows in SIZES:
        for columns in SIZES:
            mask = READ[name](torch.zeros(rows, columns))
            q, k = torch.arange(rows)[:, None], torch.arange(columns)
            inside = torch.ones(rows, columns, dtype=torch.bool)
            for bound in found.region.bounds:
                constant = bound.constant if isinstance(bound.constant, int) else columns - rows  # the one symbolic offset here
                inside &= bound.query * q + bound.key * k + constant >= 0
            want = torch.where(inside, float(found.inside), float(found.outside)).to(mask.dtype)
            assert bool((want == mask).all()), (rows, columns)


@pytest.mark.parametrize("name", ["window", "packed", "filled", "either side"])
def test_other_regions_are_computed_anew(name: str) -> None:
    """They are computed from positions, once for all sequences, without the model's own mask ops."""
    graphs: list[fx.GraphModule] = []

    def attend(x: Tensor, of: Tensor) -> Tensor:
        mask = MASKS[name](of)
        return torch.nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=mask)

    def backend(gm: fx.GraphModule, _: object) -> Any:
        assert flag_masks(gm) == 1
        gm.graph.eliminate_dead_code()
        gm.recompile()
        graphs.append(gm)
        return gm.forward

    torch._dynamo.reset()
    compiled = torch.compile(attend, backend=backend, dynamic=True)
    for rows in (5, 9, 130):
        x, of = torch.randn(2, 3, rows, 8), torch.zeros(rows, rows)
        torch.testing.assert_close(compiled(x, of), attend(x, of))
    (graph,) = graphs
    assert not any(getattr(n.target, "__name__", n.target) in ("cumsum", "diff", "expand") for n in graph.graph.nodes)


@pytest.mark.parametrize("name", UNREAD)
def test_other_masks_are_not_read(name: str) -> None:
    assert read(UNREAD[name]) is None
