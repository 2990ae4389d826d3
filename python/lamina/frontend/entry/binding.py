"""Binds a graph's arguments to tensors: the model's own, looked up where they live, and the call's."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

from torch import Tensor

from ..capture.module_state import Place
from ..capture.trace import TensorSlot
from ..fx.aliases import sharing


class Binding:
    """The arguments of one graph.

    slots      what each argument is
    constants  the leaves that are not tensors, by number
    values     the model's tensors among the arguments, as they were at the last refresh
    """

    def __init__(self, slots: Sequence[TensorSlot], constants: Mapping[int, Any]) -> None:
        self.slots = tuple(slots)
        own = [slot for slot in slots if slot.value is not None]
        self._places: list[Place] = [slot.owner or ({"": slot.value}, "") for slot in own]
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
        """Looks the model's tensors up again.

        The caller must hold COMPILING: while torch.export traces a model, fake tensors take their place.
        """
        self.values = [held[name] for held, name in self._places]

    def bound(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Returns `run` as a function of the call's tensors."""
        if not self._simple:
            return lambda *tensors: run(*self.arrange(tensors))
        if self.values:
            return partial(run, *self.values)
        # A single argument that is a list would be taken for a list of all arguments.
        return (lambda tensor: run([tensor])) if len(self.slots) == 1 else run

    def arrange(self, tensors: Sequence[Tensor]) -> list[Any]:
        """Returns all arguments of the graph, in order."""
        own = self.values
        return [own[v] if kind == 0 else tensors[v] if kind == 1 else v for kind, v in self._sources]

    def argument(self, index: int, tensors: Sequence[Tensor]) -> Tensor:
        """Returns argument number `index`, which is a tensor."""
        kind, which = self._sources[index]
        return self.values[which] if kind == 0 else tensors[which]

    def calls(self, tensors: Sequence[Any]) -> dict[int, Any]:
        """Returns of the graph's arguments those that the call gives, by number. tensors: one for each of the call's tensors."""
        return {i: tensors[v] for i, (kind, v) in enumerate(self._sources) if kind == 1}

    def shared(self, tensors: Sequence[Tensor]) -> Hashable:
        """Returns a key of how arguments overlap in memory; None if none do.

        The model's tensors count, too: `parameter.data = other` exchanges their memory.
        """
        return sharing(self.arrange(tensors))
