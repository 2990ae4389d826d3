"""Tests the text of targets and their device models."""

import pytest

from lamina.core.device import host
from lamina.core.errors import CompileError
from lamina.core.gpu import Gpu
from lamina.core.target import Target


@pytest.mark.parametrize("text", ["cpu", "cpu:x86-64-v2", "nvvm:sm_80", "nvvm:sm_90a", "nvvm:sm_120a"])
def test_text_reads_back(text: str) -> None:
    target = Target.parse(text)
    assert str(target) == text and Target.parse(str(target)) == target and Target.parse(target) is target


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tpu", "no target is called 'tpu'"),
        ("", "no target is called ''"),
        ("nvvm", "no target is called 'nvvm'"),
        ("nvvm:", "no target is called 'nvvm:'"),
        ("nvvm:sm_91", "no GPU architecture is called 'sm_91'"),
        ("nvvm:sm_70", "sm_70 is too old"),
        ("cpu:znver99", "no processor is called 'znver99'"),
    ],
)
def test_what_names_none(text: str, message: str) -> None:
    with pytest.raises(CompileError, match=message) as error:
        Target.parse(text)
    assert error.value.remedy


def test_what_is_no_text() -> None:
    with pytest.raises(TypeError, match="a target is text, not int"):
        Target.parse(3)  # type: ignore[arg-type]


def test_a_gpu() -> None:
    target = Target.parse("nvvm:sm_90a")
    assert target.is_gpu and target.gpu == Gpu.named("sm_90a") and (target.lanes, target.device) == (32, "cuda")
    assert target.identity == f"nvvm:{target.gpu.identity}"
    assert Target("cpu", target.gpu).identity != target.identity, "targets of one machine share no entries of the cache"
    with pytest.raises(CompileError, match="nvvm:sm_90a is not a processor"):
        _ = target.cpu


def test_a_processor() -> None:
    target = Target.host()
    assert not target.is_gpu and target.cpu == host() and (target.lanes, target.device) == (1, "cpu")
    with pytest.raises(CompileError, match="cpu is not a GPU"):
        _ = target.gpu
