"""Binds a compiled program to the sizes of calls, and compiles kernels that it needs for them."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from lamina.core.binding.bind import ProgramBinding
from lamina.core.binding.template import Template
from lamina.core.errors import CompileError
from lamina.core.sizes import evaluate
from lamina.core.target import Target

from .later import advance_kernels
from .stored import Built
from .worker import WORKER, warned

Run = Callable[..., Any]


class Bindable:
    """A compiled program, bound to one set of sizes after the other.

    captured  the tensors that its graph holds
    load      makes a program with numbers callable
    """

    def __init__(self, built: Built, captured: tuple[Tensor, ...], load: Callable[[Built], Run]) -> None:
        self.captured, self.load = captured, load
        self._interface = Template(built.interface)
        self._bound = (built, ProgramBinding(built.program, built.kernels if built.later else None))
        self._refused: set[str] = set()
        self._general_added = False
        self._adding = threading.Lock()

    @property
    def built(self) -> Built:
        """The program, with the kernels that are compiled so far."""
        return self._bound[0]

    def __call__(self, symbols: Mapping[str, int]) -> Built:
        """Returns the program for these values of its symbols, and compiles kernels without which it cannot run at them. Raises
        Narrow for sizes that its kernels cannot count."""
        while needed := self._bound[1].needed(symbols):
            self._compile(needed, {})
        built, program = self._bound
        return replace(built, program=program(symbols), interface=self._interface(symbols))

    def outgrown(self, symbols: Mapping[str, int]) -> bool:
        """Returns whether these values are of another scale than those that the program is meant for."""
        return any(all(evaluate(when.size, symbols) <= when.limit for when in group) for group in self.built.outgrown)

    def missing(self, symbols: Mapping[str, int]) -> list[str]:
        """Returns the kernels for these values that are not compiled yet, in whose place others run."""
        return [name for name in self._bound[1].missing(symbols) if name not in self._refused]

    def add(self, symbols: Mapping[str, int]) -> bool:
        """Compiles the kernels for these values that are missing; returns whether they are there. Where one cannot be compiled,
        others run in its place from now on."""
        # Which call comes first must not decide how a deterministic program adds.
        typical = {} if torch.are_deterministic_algorithms_enabled() else symbols
        return self._add(lambda: self.missing(symbols), typical)

    def add_general_later(self) -> None:
        """Has the kernels for any size compiled on another thread, once, so that calls of other sizes need not wait for them."""
        if self._general_added or Target.parse(self.built.target).null:
            return
        self._general_added = True
        if self._bound[1].general():
            WORKER.add(self, Bindable._add_general)

    def _add_general(self) -> None:
        self._add(lambda: [name for name in self._bound[1].general() if name not in self._refused], {})

    def _add(self, missing: Callable[[], Sequence[str]], typical: Mapping[str, int]) -> bool:
        while names := missing():
            with warned(f"kernel {', '.join(names)}"):
                self._compile(names, typical)
                continue
            self._refused.update(names)
            return False
        return True

    def _compile(self, names: Sequence[str], typical: Mapping[str, int]) -> None:
        """Advances the kernels that no other thread has compiled meanwhile (see advance_kernels). typical: the values of symbols
        that they are meant for. Raises CompileError for a kernel that the program does not have."""
        with self._adding:
            names = [name for name in names if name not in self.built.kernels]
            if unknown := set(names) - {kernel.name for kernel in self.built.later}:
                raise CompileError(
                    f"there is neither code nor text of the kernels {', '.join(sorted(unknown))}", remedy="clear Lamina's cache"
                )
            if names:
                built = advance_kernels(self.built, names, typical)
                self._bound = (built, ProgramBinding(built.program, built.kernels))
