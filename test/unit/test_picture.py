"""Tests pictures of IR, as far as lit tests cannot."""

import sys

import pytest
from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.dialects import context
from lamina.report.picture import picture


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    with pytest.raises(CompileError, match=r"pip install 'lamina\[picture\]'"):
        picture(ir.Module.parse("module {}", context()))
