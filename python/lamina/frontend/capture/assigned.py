"""Finds, during a trace, what a model's forward changes of the model besides the contents of tensors.

A tensor that forward assigns to an attribute becomes a further result of the graph, assigned at every call. Any other change would
be lost, and is an error.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from lamina.core.errors import CompileError

from .as_module import FunctionModule, closed_over, original
from .module_state import Place

_REGISTERED = {"_parameters": "parameter", "_buffers": "buffer", "_modules": "submodule"}
_REMEDY = 'do it outside of forward, or use torch.compile(model, backend="lamina"), which keeps what Python changes'
_MISSING = object()


class Assignments:
    """Records the attributes that forward assigns tensors to (`places`) while a module is traced.

    Whatever forward assigned, the module is left as it was.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.places: list[Place] = []

    def __enter__(self) -> "Assignments":
        self._before = Snapshot(self.module)
        self._inside: Snapshot | None = None
        self._hooks = [
            self.module.register_forward_pre_hook(self._enter, prepend=True),
            self.module.register_forward_hook(self._leave),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()
        self._before.restore()

    def _enter(self, *_: object) -> None:
        for module in self.module.modules():
            if isinstance(module, nn.RNNBase):
                module._update_flat_weights()  # which its forward would do, since torch.export has put other tensors in place
        self._inside = Snapshot(self.module)  # with torch.export's tensors in place

    def _leave(self, module: nn.Module, args: Any, output: Any) -> Any:
        """Appends the tensors that forward assigned to its output, if there are any."""
        assert self._inside is not None
        assigned = list(self._inside.assigned())
        self.places = [place for place, _, _ in assigned]
        for (held, name), old, _ in assigned:  # torch.export writes some into the model's buffers and forgets others
            held.pop(name) if old is _MISSING else held.update({name: old})
        return (output, [value for _, _, value in assigned]) if assigned else None


@dataclass
class Snapshot:
    """What the modules of a model hold now.

    held   for each dictionary of a module: the module's name, the kind, the dictionary and a copy of it
    inner  lists, dicts and sets among the attributes: path, container, copy
    """

    root: nn.Module
    held: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = field(default_factory=list)
    inner: list[tuple[str, Any, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for module, name in {original(m): name for name, m in self.root.named_modules()}.items():
            for kind in _REGISTERED:
                held = module.__dict__[kind]
                self.held.append((name, kind, held, dict(held)))
            self.held.append((name, "", module.__dict__, _attributes(module)))
            self._containers(name, _attributes(module))
            if isinstance(module, FunctionModule):
                self._containers(name, closed_over(module.__dict__["function"]))

    def _containers(self, path: str, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            if type(value) in (list, dict, set):
                self.inner.append((_joined(path, name), value, value.copy()))

    def assigned(self) -> Iterator[tuple[Place, Any, Tensor]]:
        """Yields the attributes that hold other tensors now, with what they held and what they hold.

        Raises CompileError for any other change.
        """
        for path, kind, attributes, before in self.held:
            now = (
                attributes
                if kind
                else {name: value for name, value in attributes.items() if name in before or _is_attribute(name, value)}
            )
            for name in {**before, **now}:
                old, new = before.get(name, _MISSING), now.get(name, _MISSING)
                if old is new or _is_equal(old, new):
                    continue
                where = _joined(path, name)
                is_supported = (kind == "_buffers" and old is not _MISSING) or not kind
                if is_supported and isinstance(new, Tensor) and not isinstance(new, nn.Parameter):
                    yield (attributes, name), old, new
                    continue
                raise CompileError(
                    f"forward changes {_kind(kind)} {where!r} of the model, which a graph does not keep", remedy=_REMEDY
                )
        for where, value, copy in self.inner:
            if not _is_equal(value, copy):
                raise CompileError(
                    f"forward changes what {where!r} of the model holds, which a graph does not keep", remedy=_REMEDY
                )

    def restore(self) -> None:
        """Gives the modules back what they held."""
        for _, kind, held, before in self.held:
            for name in [n for n, v in held.items() if n not in before and (kind or _is_attribute(n, v))]:
                del held[name]
            held.update(before)
        for _, value, copy in self.inner:
            if not _is_equal(value, copy):
                value.clear()
                (value.extend if isinstance(value, list) else value.update)(copy)


def _kind(kind: str) -> str:
    return f"the {_REGISTERED[kind]}" if kind else "the attribute"


def _attributes(module: nn.Module) -> dict[str, Any]:
    """Returns the entries of a module's own dictionary besides nn.Module's."""
    return {name: value for name, value in module.__dict__.items() if _is_attribute(name, value)}


_OWN = frozenset(nn.Module().__dict__)


def _is_attribute(name: str, value: Any) -> bool:
    return name not in _OWN and not (name == "forward" and isinstance(value, Callable))  # type: ignore[arg-type]


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _is_equal(old: Any, new: Any) -> bool:
    """Returns whether two values are one object or equal plain values."""
    if old is new:
        return True
    if type(old) is not type(new):
        return False
    if isinstance(old, float):
        return old == new or (math.isnan(old) and math.isnan(new))
    if isinstance(old, bool | int | str | bytes | complex):
        return bool(old == new)
    if isinstance(old, list | tuple):
        return len(old) == len(new) and all(map(_is_equal, old, new))
    if isinstance(old, dict):
        return list(old) == list(new) and all(_is_equal(old[k], new[k]) for k in old)
    return isinstance(old, set) and old == new
