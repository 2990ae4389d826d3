"""Which tensors a graph's arguments are: the model's own, looked up where they live, and the call's."""

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from torch import Tensor

from .exclusive import COMPILING
from .trace import Slot


class Binding:
    """The arguments of one graph.

    slots      what each argument is
    constants  the leaves that are no tensors, by number
    values     the model's tensors among the arguments, as they were at the last refresh
    """

    def __init__(self, slots: Sequence[Slot], constants: Mapping[int, Any]) -> None:
        self.slots = tuple(slots)
        own = [slot for slot in slots if slot.value is not None]
        places = [slot.owner or ({"": slot.value}, "") for slot in own]
        self._owners = [owner for owner, _ in places]
        self._names = [name for _, name in places]
        self.values: list[Any] = []
        leaves = [slot.leaf for slot in slots if slot.leaf >= 0]
        order = {leaf: i for i, leaf in enumerate(leaf for leaf in leaves if leaf not in constants)}
        numbers = {id(slot): i for i, slot in enumerate(own)}
        # For every argument: (0, which of the model's tensors), (1, which of the call's tensors) or (2, a constant).
        self._sources: list[tuple[int, Any]] = []
        for slot in slots:
            if slot.value is not None:
                self._sources.append((0, numbers[id(slot)]))
            elif slot.leaf not in order:
                self._sources.append((2, constants.get(slot.leaf)))
            else:
                self._sources.append((1, order[slot.leaf]))
        self._simple = self._sources == [(0, i) for i in range(len(own))] + [(1, i) for i in range(len(order))]
        self.refresh()

    def refresh(self) -> None:
        """Looks the model's tensors up again. While torch.export traces a model, it holds fake tensors in their place."""
        with COMPILING:
            self.values = list(map(operator.getitem, self._owners, self._names))

    def is_current(self) -> bool:
        """Whether the model still holds the same tensor objects."""
        return all(map(operator.is_, map(operator.getitem, self._owners, self._names), self.values))

    def bound(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """`run` as a function of the call's tensors."""
        if not self._simple:
            return lambda *tensors: run(*self._place(tensors))
        if self.values:
            return partial(run, *self.values)
        # One argument that is a list would be taken for all arguments in a list.
        return (lambda tensor: run([tensor])) if len(self.slots) == 1 else run

    def arrange(self, tensors: Sequence[Tensor]) -> list[Any]:
        """All arguments, with the model's tensors as they are now."""
        if not self.is_current():
            self.refresh()
        return self._place(tensors)

    def argument(self, index: int, tensors: Sequence[Tensor]) -> Tensor:
        kind, which = self._sources[index]
        found: Tensor = self.values[which] if kind == 0 else tensors[which]
        return found

    def check_disjoint(self, changed: Sequence[Tensor], tensors: Sequence[Tensor]) -> None:
        """ValueError when an argument that the model changes shares memory with another: the result would depend on the order."""
        held = [t.untyped_storage()._cdata for t in tensors]
        for i, t in enumerate(tensors):
            if any(t is c for c in changed) and held.count(held[i]) > 1:
                raise ValueError(
                    "two arguments share memory and the model changes one of them in place: "
                    'pass a clone, or use torch.compile(model, backend="lamina")'
                )

    def _place(self, tensors: Sequence[Tensor]) -> list[Any]:
        own = self.values
        return [own[v] if kind == 0 else tensors[v] if kind == 1 else v for kind, v in self._sources]
