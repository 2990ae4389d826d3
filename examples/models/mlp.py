"""A two-layer perceptron with LayerNorm and GELU, and a residual connection.

opt-driver examples/models/mlp.py:mlp --emit=tile
lamina tune examples/models/mlp.py:mlp_bf16
"""

import torch
from torch import Tensor, nn


class Mlp(nn.Module):
    """One block: LayerNorm, a hidden layer, and the residual."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        """Maps (rows, width) to the same shape."""
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def mlp(rows: int = 128, width: int = 256, hidden: int = 1024, layers: int = 2) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Returns the model and its input."""
    torch.manual_seed(0)
    model = nn.Sequential(*(Mlp(width, hidden) for _ in range(layers)))
    return model.eval(), (torch.randn(rows, width),)


def mlp_bf16(rows: int = 8192, width: int = 1024, hidden: int = 4096, layers: int = 2) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Returns a larger model in bf16 and its input."""
    model, (x,) = mlp(rows, width, hidden, layers)
    return model.bfloat16(), (x.bfloat16(),)
