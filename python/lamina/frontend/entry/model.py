"""Defines CompiledModel, which `lamina.compile` returns."""

import copy
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from lamina.core.options import Options
from lamina.core.sizes import LEAST

from ..capture.as_module import StandIn, as_module, signature_of
from ..capture.exclusive import COMPILING
from ..capture.module_state import ModuleState, autocast_state, has_global_hooks, is_traced
from ..capture.open_sizes import OpenSizes
from ..capture.trace import trace
from .arguments import Arguments, example_arguments
from .specialize import examples
from .variant import Variant
from .variant_sizes import VariantSizes

_VARIANTS = 8
_OWN = ("module", "options", "target", "_model", "_arguments", "_state", "_variants", "_current", "_per_size")


class CompiledModel(StandIn):
    """A model compiled for inputs like its example inputs. Call it as the model is called.

    It stands for the model, `module`: parameters, buffers, submodules, hooks, mode and attributes are the model's own. Tensors must
    have the example's dtypes and shapes, except for the sizes that `dynamic_shapes` leaves open; numbers, strings
    and None must be the example's. The model's parameters and buffers are looked up at each call, so assignments and in-place
    changes are seen.

    A variant serves all open sizes but 0 and 1, which are constants of one. These get another variant, compiled at the first such
    call: other strides, modes of any submodule, hooks or submodules, another grad mode or autocast state, and arguments that are
    one object. The last eight variants are kept. Other Python attributes are constants, with the values that they had when a
    variant was traced.

    The model itself runs inside torch.func transforms, FakeTensorMode, make_fx and other dispatch modes, which have to see its
    operations, and while torch has hooks for all modules (register_module_forward_hook).

    A copy compiles again; so does a pickle when it is loaded.
    """

    def __init__(
        self,
        model: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        options: Options,
        target: str | None,
        dynamic_shapes: Any = None,
    ) -> None:
        self.__dict__["module"] = module = as_module(model)
        super().__init__()
        for name in self.__dict__.keys() & module.__dict__.keys():
            self.__dict__[name] = module.__dict__[name]  # parameters, buffers, submodules and all kinds of hooks
        self._model = model
        self.options = options
        self.target = target
        signature = signature_of(model if not isinstance(model, nn.Module) else module)
        self._arguments = Arguments(signature, args, kwargs, dynamic_shapes)
        self._state = ModuleState(module)
        self._variants: list[tuple[Hashable, Variant]] = []
        self._per_size: dict[tuple[Any, ...], str] = {}  # why there is a variant for each set of sizes, by the key for all sizes
        args, kwargs = self._arguments.bind(args, kwargs)
        needs = any(t.requires_grad for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, Tensor))
        trains = self._state.is_training() or needs
        owns = any(p.requires_grad for p in module.parameters())
        # A model in evaluation mode that has parameters will most likely be called under no_grad.
        with COMPILING, torch.set_grad_enabled(torch.is_grad_enabled() and (trains or not owns)):
            leaves = self._arguments.flatten(args, kwargs)
            self._arguments.checked(leaves)
            self._arguments.open.check_named(options.specialize)
            # No program for other sizes can serve in the place of those for 0 and 1.
            ahead = [dict(wanted) for wanted in options.specialize if any(size < LEAST for _, size in wanted)]
            for given in (*(examples(leaves, self._arguments.names, self._arguments.open, sizes) for sizes in ahead), leaves):
                self._current = self._variant(self._arguments, given)
                self._current.prepare([given[i] for i in self._arguments.tensors])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the model by the variant for these arguments, which is compiled if it is new."""
        if torch.compiler.is_dynamo_compiling():  # part of a larger model
            return self.module(*args, **kwargs)
        variant = self._current
        tensors = args if variant.arguments.flat and not kwargs else variant.arguments.tensors_of(args, kwargs)
        if tensors is None or not variant.watch.holds(tensors) or not variant.admits(tensors):
            matching = self._find(args, kwargs)
            if matching is None:
                return self._model(*args, **kwargs)
            tensors, variant = matching
        try:
            return variant(tensors)
        except (TypeError, ValueError, AttributeError, RuntimeError):
            matching = self._find(args, kwargs)
            if matching is None:
                return self._model(*args, **kwargs)
            if matching[1] is variant:
                raise
        return matching[1](matching[0])

    def _find(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Tensor, ...], Variant] | None:
        """Returns the tensors of a call and the variant for it; None if the model itself has to run.

        Raises TypeError or ValueError that name an argument unlike the example's.
        """
        if is_traced() or has_global_hooks() or any(isinstance(leaf, FakeTensor) for leaf in pytree.tree_leaves((args, kwargs))):
            return None
        args, kwargs = self._arguments.bind(args, kwargs)
        form = self._arguments
        if form.leaves(args, kwargs) is None:
            form = form.like(args, kwargs) or form
        leaves = form.flatten(args, kwargs)
        form.check(leaves)
        with COMPILING:
            variant = self._current = self._variant(form, leaves)
        return tuple(leaves[i] for i in form.tensors), variant

    def _variant(self, form: Arguments, leaves: list[Any]) -> Variant:
        """Returns the variant for these inputs and the model's state, traced if it is new. The caller holds COMPILING."""
        tensors = [leaves[i] for i in form.tensors]
        first: dict[int, int] = {}
        pattern = tuple(first.setdefault(id(t), i) for i, t in enumerate(tensors))
        sizes = VariantSizes.of(form, leaves)
        if self._key(form, pattern, sizes) in self._per_size:
            sizes = VariantSizes.constant(form, leaves)
        variant = self._known(self._key(form, pattern, sizes), tensors)
        if variant is None:
            traced = trace(self.module, *form.unflatten(leaves), sizes.symbolic)
            self._state = self._state.extended(traced.others, (slot.owner for slot in traced.slots if slot.owner))
            key = self._key(form, pattern, sizes)
            variant = Variant(traced, form, self._state, pattern, sizes, self.options, self.target)
            if sizes.symbolic and (reason := _why_not(variant, tensors)) is not None:
                kept = f"the last {_VARIANTS} are kept"
                warnings.warn(f"lamina compiles this model once per size ({kept}), as {reason}", stacklevel=4)
                self._per_size[key] = reason
                return self._variant(form, leaves)
            variant.admit(tensors)
            self._variants = [*self._variants, (key, variant)][-_VARIANTS:]
        else:
            variant.refresh()
        return variant

    def _known(self, key: Hashable, tensors: Sequence[Tensor]) -> Variant | None:
        """Returns the variant for a key and these tensors' sizes. Raises ValueError for sizes that the model does not take."""
        return next((v for variant_key, v in self._variants if variant_key == key and v.admit(tensors)), None)

    def _key(self, form: Arguments, pattern: tuple[int, ...], sizes: VariantSizes) -> tuple[Any, ...]:
        modes = (torch.is_grad_enabled(), autocast_state(form.device_types))
        return (form.order, modes, pattern, sizes.key, self._state.key())

    @property
    def training(self) -> bool:  # type: ignore[override]
        """The model's mode."""
        return self.module.training

    @training.setter
    def training(self, mode: bool) -> None:
        """Sets the mode of the module itself, once the model is compiled."""
        if "module" in self.__dict__ and "_current" in self.__dict__:
            self.module.training = mode

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.__dict__["module"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN or "_current" not in self.__dict__:
            object.__setattr__(self, name, value)
        else:
            setattr(self.module, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.module, name)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the compiled model."""
        return self(*args, **kwargs)

    def train(self, mode: bool = True) -> "CompiledModel":
        """Sets the mode of the model and its submodules."""
        self.module.train(mode)
        return self

    def _apply(self, *args: Any, **kwargs: Any) -> "CompiledModel":
        self.module._apply(*args, **kwargs)
        return self

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the model's state."""
        return self.module.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Loads the model's state."""
        return self.module.load_state_dict(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> "CompiledModel":
        return _compiled(copy.deepcopy(self._model, memo), *self.__reduce__()[1][1:])

    def __reduce__(self) -> Any:
        return _compiled, (self._model, self._arguments.described(), self.options, self.target, self._arguments.open)


def model_and_sizes(compiled: CompiledModel) -> tuple[Callable[..., Any], OpenSizes]:
    """Returns a description of what was compiled: the model or function, and the sizes that calls may vary."""
    return compiled._model, compiled._arguments.open


def _why_not(variant: Variant, tensors: Sequence[Tensor]) -> str | None:
    """Compiles a variant for all sizes now, as compiling may add conditions on them. Returns why it cannot be done; None if it
    can."""
    try:
        variant.prepare(tensors)
    except Exception as error:  # whatever symbolic sizes meet, numbers may do
        return (str(error).splitlines() or [type(error).__name__])[0]
    return None


def _compiled(
    model: Callable[..., Any], described: Any, options: Options, target: str | None, open_sizes: OpenSizes
) -> CompiledModel:
    """Compiles a copied or pickled model for inputs like those that it had, which `Arguments.described` returned."""
    args, kwargs = example_arguments(described)
    return CompiledModel(model, args, kwargs, options=options, target=target, dynamic_shapes=open_sizes)
