"""Tests `lamina tune FILE.py:FACTORY` without a GPU: its questions, its output, and what remains after an interrupt."""

import io
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rich.console import Console

from lamina.core.errors import CompileError
from lamina.core.options import Options
from lamina.core.program import Program
from lamina.frontend.compiling.tuning import Session
from lamina.tools import lamina_command, tune_model
from lamina.tune.choice import TunedChoice

MODEL = f"{Path(__file__).parents[2] / 'examples' / 'models' / 'mlp.py'}:mlp_bf16"
NOTHING = Program(0, 0, 0, (), (), (), (), (), device="cuda")
CHOICES = (
    TunedChoice("addmm 8x8 by 8x8 and gelu", "fast", (("fast", 1e-5), ("library", 2e-5)), (("bad", "wrong numbers: all of them"),)),
    TunedChoice("mm 8x8 by 8x8", "library", (("library", 3e-5),)),
)


class Compiler:
    """In the place of stages.build: answers with CHOICES, then ends with `error`, if any."""

    def __init__(self) -> None:
        self.choices, self.error = CHOICES, None
        self.options = Options()
        self.session = Session()
        self.dtypes: set[torch.dtype] = set()

    error: BaseException | None
    choices: tuple[TunedChoice, ...]

    def __call__(self, gm: torch.fx.GraphModule, *, options: Options, target: str | None, session: Session) -> Any:
        self.options, self.session = options, session
        self.dtypes = {n.meta["val"].dtype for n in gm.graph.nodes if n.op == "placeholder"}
        for number, choice in enumerate(self.choices, 1):
            session.asking(choice.what, number, len(self.choices) + bool(self.error))
            if number == 1:
                session.watch("timing", 0.5)
            session.answered(choice)
        if self.error:
            raise self.error
        return SimpleNamespace(choices=self.choices, program=NOTHING)


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Compiler:
    made = Compiler()
    monkeypatch.setattr(tune_model, "_check_gpu", lambda target: None)
    monkeypatch.setattr(tune_model, "on_gpu", lambda module, inputs: (module, inputs))
    monkeypatch.setattr("lamina.frontend.compiling.stages.build", made)
    return made


@pytest.fixture
def tune(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs the command. Returns its status, its output, and its messages."""

    def run(*words: str, store: Path = tmp_path / "store") -> tuple[int, str, str]:
        status = lamina_command.main(["tune", *words, "--store", str(store)])
        return status, *capfd.readouterr()

    return run


Tune = Callable[..., tuple[int, str, str]]


def test_the_choices_are_shown(tune: Tune, compiler: Compiler, tmp_path: Path) -> None:
    status, out, err = tune(MODEL)
    assert status == 0
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert rows == [
        "hot op candidate time", "addmm 8x8 by 8x8 and gelu fast 10.0 us chosen", "library 20.0 us",
        "bad dropped: wrong numbers: all of them", "mm 8x8 by 8x8 library 30.0 us chosen",
    ]  # fmt: skip
    assert "1 of 2: addmm 8x8" in err and "2 of 2: mm 8x8" in err
    assert f"1 of 2 ops measured now, the others known before; kept in {tmp_path / 'store'}" in err
    assert (compiler.options.tune, compiler.options.cache, compiler.session.again) == ("quick", False, False)
    assert compiler.dtypes == {torch.bfloat16}


def test_flags_stand_before_and_after_the_model(tune: Tune, compiler: Compiler) -> None:
    assert tune("--policy", "full", MODEL, "--again", "--options=round-intermediates=true")[0] == 0
    assert compiler.options == Options(tune="full", cache=False, round_intermediates=True) and compiler.session.again


def test_an_interrupt_keeps_what_was_learned(tune: Tune, compiler: Compiler, tmp_path: Path) -> None:
    compiler.choices, compiler.error = CHOICES[:1], KeyboardInterrupt()
    status, out, err = tune(MODEL)
    assert status == 130 and "chosen" in out
    assert f"interrupted: 1 of 2 ops done, kept in {tmp_path / 'store'}; the same command goes on" in err
    assert "the same command without --again goes on" in tune(MODEL, "--again")[2]


def test_an_error_ends_it_after_what_was_learned(tune: Tune, compiler: Compiler) -> None:
    compiler.error = CompileError("candidate 'x' cost the device", remedy="start the program again")
    status, out, err = tune(MODEL)
    assert status == 1 and "chosen" in out and "error: candidate 'x' cost the device (start the program again)" in err


def test_a_store_that_takes_nothing_is_warned_of(
    tune: Tune, compiler: Compiler, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "store"
    status, _, err = tune(MODEL, store=path)
    assert status == 0 and f"not kept, as {path} cannot be written" in err
    assert "cannot be written" in caplog.text and "set LAMINA_TUNE_STORE to another file" in caplog.text


def test_where_there_is_nothing_to_tune(tune: Tune, compiler: Compiler) -> None:
    compiler.choices = ()
    nothing = "the model has no hot ops (such as matrix products) and no large softmax, norm or loss"
    assert tune(MODEL)[:2] == (0, f"nothing to tune: {nothing}\n")


def test_words_that_name_no_model(tune: Tune, compiler: Compiler) -> None:
    status, _, err = tune("nosuch.py:make")
    assert status == 1 and err == "nosuch.py:1:1: error: no such file\n"
    status, _, err = tune("nosuch.py")
    assert status == 1 and "invalid choice: 'nosuch.py' (choose from" in err and "FILE.py:FACTORY" in err


def test_models_go_where_their_tensors_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    moved: list[torch.device] = []
    model = torch.nn.Linear(2, 2)
    monkeypatch.setattr(model, "to", lambda device: moved.append(device) or model)
    monkeypatch.setattr(torch.Tensor, "to", lambda self, device: moved.append(device) or self)
    assert tune_model.on_gpu(model, (model.weight.detach(), [2]))[0] is model
    assert moved == [torch.device("cuda", 3)] * 2


def test_terminals_have_bars() -> None:
    out = io.StringIO()
    board = tune_model.ProgressDisplay(Console(file=out, force_terminal=True, width=100, color_system=None))
    with board.progress:
        board.asking("addmm [8x8] by 8x8", 1, 3)
        board.watch("compiling", 0.25)
        board.progress.refresh()
        board.answered(CHOICES[0])
        board.asking("mm", 2, 3)
        board.watch("timing", 1.0)
        board.progress.refresh()
    shown = out.getvalue()
    assert "0 of 3" in shown and "1 of 3" in shown and "addmm [8x8] by 8x8" in shown and "compiling" in shown and "timing" in shown
    assert board.measured == 2 and "1 of 3: " not in shown
