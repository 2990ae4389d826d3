"""How many threads torch computes on, for references."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """One. Beside other tests' processes a reference whose loops are short, as of a convolution in groups in f64, otherwise takes up
    to a hundred times as long."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
