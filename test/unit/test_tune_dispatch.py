"""Tests that candidates are timed in the way in which they are called later, wherever tuning is started."""

import pytest
import torch
from torch._dispatch.python import enable_python_dispatcher

from lamina.core.options import Options
from lamina.frontend.compiling import tuning
from lamina.tune.problems import modules

KEY = torch._C.DispatchKey.PythonDispatcher  # AOTAutograd calls its compilers under it


def test_nothing_is_timed_under_the_python_dispatcher(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    monkeypatch.setattr(tuning, "may_choose", lambda *_: True)
    monkeypatch.setattr(modules, "annotate", lambda *_, **__: seen.append(torch._C._dispatch_tls_is_dispatch_key_included(KEY)))
    with enable_python_dispatcher():
        assert torch._C._dispatch_tls_is_dispatch_key_included(KEY)
        tuning.choose_kernels(None, None, 0, Options())  # type: ignore[arg-type]
        assert torch._C._dispatch_tls_is_dispatch_key_included(KEY)
    assert seen == [False]
