"""Candidates are timed as they are called later, wherever tuning is asked from."""

from typing import Any

import pytest
import torch
from torch._dispatch.python import enable_python_dispatcher

from lamina.core.options import Options
from lamina.frontend.compiling import tuning
from lamina.tune.problems import modules, user_kernels

KEY = torch._C.DispatchKey.PythonDispatcher  # AOTAutograd calls its compilers under it


@pytest.mark.parametrize(
    ("module", "name", "ask"),
    [
        (modules, "annotate", lambda: tuning.choose_kernels(None, None, 0, Options())),  # type: ignore[arg-type]
        (user_kernels, "chosen", lambda: tuning.choose_configs(None, {"kernel": None}, None, 0, Options())),  # type: ignore[arg-type]
    ],
    ids=["kernels", "users' kernels"],
)
def test_nothing_is_timed_under_the_python_dispatcher(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, ask: Any) -> None:
    seen: list[bool] = []
    monkeypatch.setattr(tuning, "may_choose", lambda *_: True)
    monkeypatch.setattr(module, name, lambda *_, **__: seen.append(torch._C._dispatch_tls_is_dispatch_key_included(KEY)))
    with enable_python_dispatcher():
        assert torch._C._dispatch_tls_is_dispatch_key_included(KEY)
        ask()
        assert torch._C._dispatch_tls_is_dispatch_key_included(KEY)
    assert seen == [False]
