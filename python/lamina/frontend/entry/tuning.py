"""Tuning as compilations use it: what decides between implementations of hot ops, and what is told of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from torch._dispatch.python import no_python_dispatcher

from lamina.core.options import Options
from lamina.tune.choice import Choice

if TYPE_CHECKING:
    from torch_mlir import ir

    from lamina.core.program import Program
    from lamina.targets.base import Backend
    from lamina.tune.question import Answer, Question
    from lamina.tune.store.store import Store


@dataclass(frozen=True)
class Session:
    """Tuning that somebody looks at.

    store     None: the usual one
    again     what the store knows is measured, too
    asking    told each op before it is measured, with its number, from 1, and how many there are
    watch     told what goes on with it: the stage and the share of that which is done
    answered  told what was chosen
    """

    store: "Store | None" = None
    again: bool = False
    asking: Callable[[str, int, int], None] = lambda what, number, of: None
    watch: Callable[[str, float], None] = lambda stage, share: None
    answered: Callable[[Choice], None] = lambda choice: None


UNSEEN = Session()


class _Told:
    """Passes on to a session what tuning says of its questions, and keeps the choices. before: how many were asked already."""

    def __init__(self, session: Session, before: int = 0) -> None:
        self.session, self.before = session, before
        self.made: list[Choice] = []

    def asking(self, question: "Question", number: int, of: int) -> None:
        self.session.asking(question.what, self.before + number, self.before + of)

    def heard(self, question: "Question", answer: "Answer") -> None:
        self.made.append(Choice.of(question, answer))
        self.session.answered(self.made[-1])


def may_choose(gpu: int | None, options: Options) -> TypeGuard[int]:
    """Whether tuning is asked about a program for this GPU: it has to be one that is here; tensors may be fake ones of another."""
    return gpu is not None and torch.cuda.is_available() and options.tune != "off"


def tuning_state(options: Options, gpu: int | None) -> str:
    """What of the store of tuning a program for this GPU depends on; "" where it depends on none."""
    if not may_choose(gpu, options):
        return ""
    from lamina.tune.question import Identity
    from lamina.tune.store.store import Store

    return Store().state(Identity.of_gpu(gpu))


def choose_products(
    module: "ir.Module", backend: "Backend", gpu: int | None, options: Options, session: Session = UNSEEN
) -> tuple[Choice, ...]:
    """Puts what tuning says on a module at the graph level. gpu: its number; None where the program is not for one that is here."""
    if not may_choose(gpu, options):
        return ()
    from lamina.tune.problems.products import annotate
    from lamina.tune.store.store import Store

    told = _Told(session)
    store = session.store or Store()
    with no_python_dispatcher():  # AOTAutograd compiles under it: a library's call would take hundreds of microseconds of the host
        annotate(module, backend, gpu, options, store, told.heard, asking=told.asking, watch=session.watch, again=session.again)
    return tuple(told.made)


def choose_rows(
    module: "ir.Module", backend: "Backend", gpu: int | None, options: Options, session: Session = UNSEEN, before: int = 0
) -> tuple[Choice, ...]:
    """Puts what tuning says of programs that reduce rows on a module at the plan level. before: how many ops of the model were
    asked about already. The rest is as in `choose_products`."""
    if not may_choose(gpu, options):
        return ()
    from lamina.tune.problems.row_programs import annotate_rows
    from lamina.tune.store.store import Store

    told = _Told(session, before)
    store = session.store or Store()
    with no_python_dispatcher():
        annotate_rows(
            module, backend, gpu, options, store, told.heard, asking=told.asking, watch=session.watch, again=session.again
        )
    return tuple(told.made)


def choose_configs(
    program: "Program",
    functions: Mapping[str, Any],
    backend: "Backend",
    gpu: int | None,
    options: Options,
    session: Session = UNSEEN,
) -> "tuple[Program, tuple[Choice, ...]]":
    """The program with users' kernels in the configs that tuning says. functions: those kernels, by key."""
    if not functions or not may_choose(gpu, options):
        return program, ()
    from lamina.tune.problems.user_kernels import chosen
    from lamina.tune.store.store import Store

    told = _Told(session)
    given = program, functions, backend, gpu, options.tune, session.store or Store(), told.heard
    with no_python_dispatcher():
        found = chosen(*given, asking=told.asking, watch=session.watch, again=session.again)
    return found, tuple(told.made)
