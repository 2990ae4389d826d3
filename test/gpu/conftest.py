"""Marks tests that need an NVIDIA GPU (`pytest test/gpu`): without one, all are skipped."""

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent
for shared in ("e2e", "unit"):  # the oracle and entry points; small programs
    sys.path.insert(0, str(HERE.parent / shared))


def _missing() -> str | None:
    if not torch.cuda.is_available():
        return "no NVIDIA GPU" if torch.version.cuda else "this torch was built without CUDA"
    major, minor = torch.cuda.get_device_capability()
    return None if major >= 8 else f"the GPU is sm_{major}{minor}, older than sm_80"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if reason := _missing():
        for item in items:
            if item.path.is_relative_to(HERE):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    torch.manual_seed(0)


@pytest.fixture
def room(request: pytest.FixtureRequest) -> Iterator[None]:
    """Skips a test where less of the GPU's memory is free than its module's ROOM, in bytes; gradients are off, and what the test
    took is given back."""
    needed = request.module.ROOM
    if torch.cuda.mem_get_info()[0] < needed:
        pytest.skip(f"needs {needed >> 30} GiB of a GPU's memory")
    with torch.no_grad():
        yield
    gc.collect()
    torch.cuda.empty_cache()
