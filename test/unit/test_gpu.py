"""Tests the table of GPUs."""

import pytest

from lamina.core.errors import CompileError
from lamina.core.gpu import Gpu


def test_hopper() -> None:
    gpu = Gpu.named("sm_90a")
    assert (gpu.sm_count, gpu.shared_bytes, gpu.bandwidth) == (132, 227 * 1024, 4276e9)
    assert gpu.capability == 90 and gpu.peak("bf16") == 989.4e12
    assert Gpu.of_capability(9, 0) is gpu


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_every_entry_is_whole(arch: str) -> None:
    gpu = Gpu.named(arch)
    assert gpu.arch == arch and gpu.source and gpu.registers == 65536
    assert min(gpu.sm_count, gpu.shared_bytes, gpu.l2, gpu.bandwidth, *dict(gpu.peaks).values()) > 0


def test_code_depends_on_the_chip() -> None:
    assert len({Gpu.named(arch).identity for arch in ("sm_80", "sm_90", "sm_90a")}) == 3


@pytest.mark.parametrize(
    ("arch", "message"),
    [
        ("sm_90b", "no GPU architecture is called 'sm_90b'.*did you mean 'sm_90"),
        ("sm_70", "too old.*sm_80"),
        ("hopper", "one of sm_80"),
    ],
)
def test_unknown_names(arch: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        Gpu.named(arch)
