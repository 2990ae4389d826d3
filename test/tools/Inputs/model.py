"""Models for model.test."""

import torch


class Mlp(torch.nn.Module):
    """A linear layer and an op to fuse."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(5, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x) * 3)


def make() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    return Mlp().eval(), (torch.ones(3, 5),)


def wrong() -> int:
    return 3


def fails() -> torch.Tensor:
    return torch.ones(3) @ torch.ones(4)


def exits() -> None:
    raise SystemExit(0)


class Branch(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x


def branch() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    return Branch(), (torch.randn(3),)


def sparse() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    return torch.nn.ReLU(), (torch.eye(3).to_sparse(),)


def sized() -> tuple[torch.nn.Module, tuple[torch.Tensor], tuple[dict[int, torch.export.Dim]]]:
    return Mlp().eval(), (torch.ones(3, 5),), ({0: torch.export.Dim("batch", max=64)},)


def too_large() -> tuple[torch.nn.Module, tuple[torch.Tensor], tuple[dict[int, torch.export.Dim]]]:
    return Mlp().eval(), (torch.ones(65, 5),), ({0: torch.export.Dim("batch", max=64)},)


class Constant(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * int(x.shape[0])


def constant() -> tuple[torch.nn.Module, tuple[torch.Tensor], tuple[dict[int, torch.export.Dim]]]:
    return Constant(), (torch.ones(3, 5),), ({0: torch.export.Dim("batch")},)
