"""Comparisons of sizes in decompositions. torch answers them with a guard, except for sizes on which it may not guard
(`mark_unbacked`): a question about one of these has no answer unless its range tells.
"""

from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import guard_or_false

from ..fx.sizes import typical_size

surely = guard_or_false
"""Returns whether a condition on sizes holds; False if torch may not guard on it. What follows has to serve sizes for which it
holds, too."""


def guess(size: Any) -> Any:
    """Returns a size, or the typical value of one on which torch may not guard: for choices of which any is right."""
    return typical_size(size) if is_unbacked(size) else size


def lesser(a: Any, b: Any) -> Any:
    """Returns the minimum of two sizes."""
    return torch.sym_min(a, b) if is_unbacked(a) or is_unbacked(b) else min(a, b)


def greater(a: Any, b: Any) -> Any:
    """Returns the maximum of two sizes, one of which may be a float."""
    return torch.sym_max(a, b) if is_unbacked(a) or is_unbacked(b) else max(a, b)


def is_unbacked(size: Any) -> bool:
    """Returns whether a size is one on which torch may not guard."""
    return isinstance(size, torch.SymInt | torch.SymFloat) and not size.node.has_hint()
