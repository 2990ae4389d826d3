"""Connects compilations to tuning, which chooses between implementations of hot ops, and reports its choices."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch._dispatch.python import no_python_dispatcher

from lamina.core.options import Options
from lamina.tune.choice import TunedChoice

if TYPE_CHECKING:
    from torch_mlir import ir

    from lamina.targets.base import Backend
    from lamina.tune.question import Answer, Question
    from lamina.tune.store.store import Store


_MEASURED = ("quick", "full")


@dataclass(frozen=True)
class Session:
    """Callbacks of a tuning run that is being observed.

    store     the tuning store; None: the usual one
    again     measure what the store knows, too
    asking    called with each op before it is measured, its number, from 1, and how many there are
    watch     called with the stage of the op being measured and the share of that stage that is done
    answered  called with each choice
    """

    store: "Store | None" = None
    again: bool = False
    asking: Callable[[str, int, int], None] = lambda what, number, count: None
    watch: Callable[[str, float], None] = lambda stage, share: None
    answered: Callable[[TunedChoice], None] = lambda choice: None


UNSEEN = Session()


def without_measuring(options: Options) -> Options:
    """Returns options that choose kernels by what the store knows: measurements while calls are running would be wrong."""
    return replace(options, tune="cached" if options.tune in _MEASURED else options.tune)


def may_choose(gpu: int | None, options: Options) -> TypeGuard[int]:
    """Returns whether tuning is asked about a program for this GPU.

    The GPU must be present: tensors may be fake ones of another.
    """
    return gpu is not None and torch.cuda.is_available() and options.tune != "off"


def tuning_state(options: Options, gpu: int | None) -> str:
    """Returns the state of the tuning store that a program for this GPU depends on; "" if it depends on none."""
    if not may_choose(gpu, options):
        return ""
    from lamina.tune.question import Identity
    from lamina.tune.store.store import Store

    return Store().state(Identity.of_gpu(gpu))


def choose_kernels(
    module: "ir.Module", backend: "Backend", gpu: int | None, options: Options, session: Session = UNSEEN, before: int = 0
) -> tuple[TunedChoice, ...]:
    """Annotates a module with tuning's choices: at the graph level for hot ops and users' kernels, at the plan level for programs
    that reduce rows.

    gpu     its number; None if the program is not for one that is present
    before  how many of the model's ops were asked about already
    """
    if not may_choose(gpu, options):
        return ()
    from lamina.tune.problems.modules import annotate
    from lamina.tune.store.store import Store

    choices: list[TunedChoice] = []

    def asking(question: "Question", number: int, total: int) -> None:
        """Reports a question about to be measured, counting those before."""
        session.asking(question.what, before + number, before + total)

    def heard(question: "Question", answer: "Answer") -> None:
        """Records and reports an answer."""
        choices.append(TunedChoice.of(question, answer))
        session.answered(choices[-1])

    store = session.store or Store()
    with no_python_dispatcher():  # under AOTAutograd's dispatcher a library call would take hundreds of host us
        annotate(module, backend, gpu, options, store, heard, asking=asking, watch=session.watch, again=session.again)
    return tuple(choices)
