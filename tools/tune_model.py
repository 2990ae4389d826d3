"""Implements `lamina tune FILE.py:FACTORY`: measures the candidates for a model's hot ops, and stores the choices."""

import argparse
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from lamina.core.errors import CompileError
from lamina.core.options import Options
from lamina.core.target import Target
from lamina.report.amounts import counted
from lamina.report.choices import table, untuned_note
from lamina.report.plain import wide_console
from lamina.tune.choice import TunedChoice
from lamina.tune.store.store import Store

from .driver.cli import MODEL

if TYPE_CHECKING:
    from lamina.frontend.compiling.stored import Built

    Commands = argparse._SubParsersAction[Any]

NAME = "FILE.py:FACTORY"  # a model takes the place of a command's name
_ABOUT = (
    "Measures the hot ops, softmax, norms and losses of a model on this machine's GPU, and stores what is the fastest for each."
)


def add_command(commands: "Commands") -> None:
    """Adds the parser for a model in place of a command; it sets `work`."""
    parser = commands.add_parser(
        NAME, prog="lamina tune", help="measures what a model can choose from", description=_ABOUT, allow_abbrev=False
    )
    parser.set_defaults(work=_work)
    parser.add_argument("model", metavar=NAME, help="FACTORY() returns (module, example inputs); they are moved to the GPU")
    parser.add_argument("--policy", choices=("quick", "full"), default="quick", help="the three likeliest candidates, or all")
    parser.add_argument("--again", action="store_true", help="measure what the store knows, too")
    parser.add_argument("--target", help="what to compile for (default: the GPU, such as nvvm:sm_90a)")
    parser.add_argument("--options", default="", metavar="TEXT", help="options as in pipelines, 'fast-math=exp-log'")
    parser.add_argument("--store", metavar="FILE", help="the store (default: LAMINA_TUNE_STORE, else in the user's data folder)")


def with_name(argv: list[str], commands: "Commands") -> list[str]:
    """Returns the arguments of `lamina tune`, with NAME in front if they name a model and no command."""
    is_model = argv and argv[0] not in commands.choices and any(MODEL.fullmatch(word) for word in argv)
    return [NAME, *argv] if is_model else argv


def _work(args: argparse.Namespace) -> None:
    from .driver.model import build, options_from  # imports MLIR

    _check_gpu(args.target)
    found = MODEL.fullmatch(args.model)
    if found is None:
        raise CompileError(f"{args.model!r} names no model", remedy=f"give {NAME}")
    options = replace(options_from(args.options), tune=args.policy, cache=False)
    warnings.simplefilter("ignore", FutureWarning)  # torch warns about its own code
    module, inputs = on_gpu(*build(found["file"], found["factory"]))
    store = Store(args.store)
    kept = f"kept in {store.path}" if store.takes() else f"not kept, as {store.path} cannot be written"
    board = ProgressDisplay(Console(stderr=True))
    try:
        built = _tune(module, inputs, options, args.target, store, args.again, board)
    except KeyboardInterrupt:
        board.show()
        rest = " without --again" if args.again else ""
        board.say(f"interrupted: {len(board.choices)} of {counted(board.total, 'op')} done, {kept}; the same command{rest} goes on")
        raise
    except CompileError:
        board.show()
        raise
    if not built.choices:
        nothing = "the model has no hot ops (such as matrix products) and no large softmax, norm or loss"
        print(f"nothing to tune: {untuned_note(built.program, options.tune) or nothing}")
        return
    board.show()
    board.say(f"{board.measured} of {counted(len(board.choices), 'op')} measured now, the others known before; {kept}")


def _check_gpu(target: str | None) -> None:
    import torch

    if target and Target.parse(target).null:
        raise CompileError(f"nothing is run on {target}, and tuning measures", remedy="leave --target out")
    if target and not Target.parse(target).is_gpu:
        raise CompileError("tuning is for NVIDIA GPUs: on a CPU there is nothing to choose", remedy="leave --target out")
    if torch.version.cuda is None or not torch.cuda.is_available():
        remedy = "tune where the program will run; `lamina tune merge` takes what was measured elsewhere"
        raise CompileError("tuning measures on an NVIDIA GPU, and torch finds none", remedy=remedy)


def on_gpu(module: Any, inputs: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Moves module and inputs to the GPU that a part of them is on already, else to torch's current one."""
    import torch
    from torch.utils import _pytree as pytree

    leaves = [x for x in pytree.tree_leaves(inputs) if isinstance(x, torch.Tensor)]
    devices = [t.device for t in (*leaves, *module.parameters(), *module.buffers())]
    home = next((device for device in devices if device.type == "cuda"), None) or torch.device("cuda", torch.cuda.current_device())
    return module.to(home), pytree.tree_map_only(torch.Tensor, lambda t: t.to(home), inputs)


def _tune(
    module: Any, inputs: tuple[Any, ...], options: Options, target: str | None, store: Store, again: bool, board: "ProgressDisplay"
) -> "Built":
    """Compiles the model for inference, without gradients, and tunes it in a session on `store`."""
    from lamina.frontend.compiling.stages import build as compiled
    from lamina.frontend.compiling.tuning import Session
    from lamina.frontend.entry.export import inference_graph

    session = Session(store, again, board.asking, board.watch, board.answered)
    with board.progress:
        return compiled(inference_graph(module, inputs), options=options, target=target, session=session)


class ProgressDisplay:
    """Shows tuning's progress: a bar for all ops, one for the current op, and the choices so far.

    total     how many ops there are
    measured  how many of them were not in the store before
    """

    def __init__(self, console: Console) -> None:
        """Takes the console for all output but the table of choices."""
        self.console = console
        self.choices: list[TunedChoice] = []
        self.total = self.measured = self._known = 0
        words = (TextColumn("{task.description}", markup=False), BarColumn(20), TextColumn("{task.fields[note]}", markup=False))
        self.progress = Progress(*words, TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal)
        self._all = self.progress.add_task("compiling the model", total=None, note="")
        self._one = self.progress.add_task("", total=1.0, visible=False, note="")

    def asking(self, what: str, number: int, total: int) -> None:
        """Shows that op `number` of `total`, described by `what`, is next."""
        self.total = total
        self.progress.update(self._all, description="ops", total=total, completed=number - 1, note=f"{number - 1} of {total}")
        self.progress.reset(self._one, description=what, visible=True, note="")
        self._known = self.measured
        if not self.console.is_terminal:
            self.say(f"{number} of {total}: {what}")

    def watch(self, stage: str, share: float) -> None:
        """Shows the stage of the current op's measurement and the share of it that is done, from 0 to 1."""
        self.measured = self._known + 1
        self.progress.update(self._one, completed=share, note=stage)

    def answered(self, choice: TunedChoice) -> None:
        """Records the choice for the current op."""
        self.choices.append(choice)
        self.progress.update(self._all, advance=1, note=f"{len(self.choices)} of {self.total}")

    def show(self) -> None:
        """Prints the choices so far to standard output."""
        if self.choices:
            wide_console().print(table(self.choices))

    def say(self, text: str) -> None:
        """Prints a line of plain text to the console."""
        self.console.print(Text(text), soft_wrap=True)
