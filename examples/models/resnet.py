"""ResNet-18 (He and others, 2015) as torchvision builds it, for images of any size.

opt-driver examples/models/resnet.py:resnet18 --emit=graph
"""

import torch
from torch import Tensor, nn


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut, which is a 1x1 convolution where shapes differ."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Maps (batch, inputs, height, width) to (batch, outputs, height / stride, width / stride)."""
        y = self.bn1(self.conv1(x)).relu()
        return (self.bn2(self.conv2(y)) + self.shortcut(x)).relu()


class ResNet(nn.Module):
    """A stem, stages of residual blocks, and a classifier."""

    def __init__(self, blocks: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, padding=3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1)
        )
        stages: list[nn.Module] = []
        width = 64
        for stage, count in enumerate(blocks):
            outputs = 64 << stage
            for i in range(count):
                stages.append(Block(width, outputs, 2 if stage and not i else 1))
                width = outputs
        self.stages = nn.Sequential(*stages)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Maps images (batch, 3, height, width) to logits (batch, classes)."""
        return self.head(self.pool(self.stages(self.stem(x))).flatten(1))


def resnet18(batch: int = 1, size: int = 224, classes: int = 1000) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Returns the model and a batch of square images."""
    torch.manual_seed(0)
    model = ResNet((2, 2, 2, 2), classes)
    for module in model.modules():  # statistics of a trained network, not the neutral ones of a fresh one
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.1, 0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    return model.eval(), (torch.randn(batch, 3, size, size),)
