"""Bytes and launches before and after fusion, for `sigmoid(relu(x * w + b))`.

Before: four kernels, x*w, +b, relu and sigmoid, of which three write an array as large as x that the next one reads. After: one
kernel that reads x, w and b and writes the result. The time of memory-bound kernels is proportional to the bytes.

Run: python examples/exercises/bytes_moved.py
"""

import torch
from torch import Tensor

import lamina
from lamina.report.explanation import Graph

ROWS, COLUMNS = 1024, 768


def activation(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """Computes four pointwise operations on (rows, columns)."""
    return torch.sigmoid(torch.relu(x * w + b))


def graph() -> Graph:
    """Returns Lamina's report on the function."""
    inputs = torch.randn(ROWS, COLUMNS), torch.randn(COLUMNS), torch.randn(COLUMNS)
    return lamina.explain(activation, inputs, show=False).graphs[0]


def main() -> None:
    """Prints launches and bytes before and after fusion, and the same numbers counted by hand."""
    array, vector = 4 * ROWS * COLUMNS, 4 * COLUMNS  # bytes of f32
    found = graph()
    print(f"before: {found.before.kernels} launches, {found.before.bytes} bytes; by hand: {8 * array + 2 * vector}")
    print(f"after:  {len(found.kernels)} launch, {found.bytes} bytes; by hand: {2 * array + 2 * vector}")


if __name__ == "__main__":
    main()
