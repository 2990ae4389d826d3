"""Spares tests the time that torch spends on what they do not depend on: most of theirs goes by in torch's tracing.

What is done no more:

- searching for garbage after each compilation, and the 30 ms of each in which Dynamo empties the processor's caches to measure how
  fast its guards are;
- the text that AOTAutograd makes of each graph, and Dynamo of all settings, for logs that nobody keeps; and for the same logs the
  search for the name of a function in its file, which Dynamo splits into tokens;
- the tensors by which AOTAutograd counts the random numbers of each graph for `functorch.config.functionalize_rng_ops`;
- the Python code of graphs that nobody runs or prints, outside of Dynamo too.

What returns the same in less time, above all where sizes are symbols:

- operations on symbolic sizes, thousands for a small graph: what each has made of two expressions is remembered. What is traced, and
  what a translation validation sees, stays torch's;
- operations of Python on symbolic ints, whose operands need no conversion;
- the symbols of an expression, and whether it has any, which are remembered, too;
- the settings that Dynamo reads for each instruction;
- the search for ops that C++ composes of others, which torch.export does again for each of torch's namespaces;
- the check of each new entry of the cache of fake tensors, which makes a tensor by the entry for its dispatch keys. These do not
  depend on sizes: one tensor of a kind stands for all.
"""

import inspect
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import sympy
import torch
import torch._dynamo
from torch._decomp import decompositions_for_rng
from torch._export import utils as export_utils
from torch._functorch._aot_autograd import graph_compile
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import _lazy_graph_module
from torch.fx.experimental import recording, sym_node
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.fx.experimental.sym_node import METHOD_TO_OPERATOR, SymNode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _config_module
from torch.utils._config_module import ConfigModule

# Those of two sizes that follow from the expressions alone; `mod` also asks for ranges.
_OPERATIONS = "add sub mul eq ne lt le gt ge and or int_floordiv float_truediv int_truediv sym_max sym_min".split()
_OF_PYTHON = "add sub mul mod eq ne lt le gt ge".split()
_MOST = 100_000


@cache
def install() -> None:
    """Replaces what takes the time, for the rest of the process."""
    dynamo: Any = torch._dynamo
    dynamo.config.run_gc_after_compile = False
    dynamo.guards.profile_guard_manager = lambda *_: 0.0
    for settings in ("_get_dynamo", "_scrubbed_inductor", "_compiler", "_functorch"):
        setattr(dynamo.utils, f"{settings}_config_for_logging", lambda: None)
    dynamo.symbolic_convert.get_funcname = lambda *_: None
    graph_compile._log_joint_graph = lambda *_: None
    graph_compile._log_fw_bw_graphs = lambda *_: (None, None)
    decompositions_for_rng.PhiloxStateTracker.reset = lambda: None
    _lazy_graph_module._use_lazy_graph_module_flag = True
    ConfigModule.__getattr__ = _setting(ConfigModule.__getattr__)  # type: ignore[method-assign]
    for kind, name in ((sympy.Basic, "free_symbols"), (sympy.Expr, "is_number")):
        setattr(kind, name, property(_of_expression(vars(kind)[name].fget)))
    SymNode.expr = property(_expression(SymNode.expr.fget))
    for method in _OPERATIONS:
        name = f"_{method}_" if method in sym_node.magic_methods_on_operator_with_trailing_underscore else f"_{method}"
        setattr(SymNode, name, _remembered(method, vars(SymNode)[name]))
    for method in _OF_PYTHON:
        name = f"__{method}__"
        setattr(torch.SymInt, name, _on_ints(method, vars(torch.SymInt)[name]))
    for name, method in list(vars(ShapeEnv).items()):
        if inspect.isfunction(method) and method.__code__.co_filename == recording.__file__:
            setattr(ShapeEnv, name, _unrecorded(method))
    export_utils._materialize_cpp_cia_ops = _where_ops_are_new(export_utils._materialize_cpp_cia_ops)
    modes: Any = FakeTensorMode
    modes._get_output_info_for_cache_entry = _checked_by_kind(modes._get_output_info_for_cache_entry)


def _setting(torchs: Callable[[ConfigModule, str], Any]) -> Callable[[ConfigModule, str], Any]:
    unset, immutable = _config_module._UNSET_SENTINEL, _config_module._IMMUTABLE_CONFIG_TYPES

    @wraps(torchs)
    def setting(self: ConfigModule, name: str) -> Any:
        """Returns what was set, or the default, of a setting that neither an environment variable nor another name decides."""
        entry = self._config.get(name)
        if entry is None or entry.hide or entry.alias or entry.deprecated or entry.env_value_force is not unset:
            return torchs(self, name)
        value = entry.user_override.get()
        if value is not unset:
            return value
        if entry.env_value_default is unset and entry.justknob is None and isinstance(entry.default, immutable):
            return entry.default
        return torchs(self, name)

    return setting


def _of_expression(sympys: Callable[[sympy.Basic], Any]) -> Callable[[sympy.Basic], Any]:
    found: dict[sympy.Basic, Any] = {}

    @wraps(sympys)
    def find(self: sympy.Basic) -> Any:
        """Looks for what was found for this expression, or an equal one, before."""
        if (known := found.get(self)) is None:
            if len(found) >= _MOST:
                found.clear()
            found[self] = known = sympys(self)
        return set(known) if isinstance(known, set) else known

    return find


def _expression(torchs: Callable[[SymNode], Any]) -> Callable[[SymNode], Any]:
    @wraps(torchs)
    def expr(self: SymNode) -> Any:
        """Looks for what replaces the expression before it asks whether that is a number, which walks it."""
        if self.shape_env is not None:
            version = self.shape_env._replacements_version_counter
            if version == 0:
                return self._expr
            if version == self._expr_ver and self._expr_cache is not None:
                return self._expr_cache
        return torchs(self)

    return expr


def _remembered(method: str, torchs: Callable[[SymNode, SymNode], SymNode]) -> Callable[[SymNode, SymNode], SymNode]:
    operator: Callable[[Any, Any], Any] = METHOD_TO_OPERATOR[method]
    made: dict[Any, tuple[Any, type, bool]] = {}

    @wraps(torchs)
    def compute(self: SymNode, other: SymNode) -> SymNode:
        """Makes a node of what torch made of these expressions before."""
        env = self.shape_env
        if env is None or env._translation_validation_enabled or not isinstance(other, SymNode) or get_proxy_mode():
            return torchs(self, other)
        sums = self._optimized_summation, other._optimized_summation
        key = self.expr, other.expr, self.pytype, other.pytype, sums
        if (found := made.get(key)) is None:
            node = torchs(self, other)
            if len(made) >= _MOST:
                made.clear()
            made[key] = node._expr, node.pytype, node._optimized_summation
            return node
        expr, kind, is_sum = found
        hint: Any = sym_node._NO_HINT
        if self._hint is not None and other._hint is not None:
            hint = operator(self._hint, other._hint)
            if hint is not None and not isinstance(hint, sym_node.SymTypes):
                hint = kind(hint)
        return SymNode(expr, env, kind, hint, optimized_summation=is_sum)

    return compute


def _on_ints(method: str, torchs: Callable[[torch.SymInt, Any], Any]) -> Callable[[torch.SymInt, Any], Any]:
    operation = getattr(SymNode, method)

    @wraps(torchs)
    def compute(self: torch.SymInt, other: Any) -> Any:
        """Passes ints on as nodes where neither is a constant or nested int."""
        node = self.node
        if type(node) is SymNode:
            if type(other) is int:
                return sym_node.wrap_node(operation(node, node.wrap_int(other)))
            if type(other) is torch.SymInt and type(other.node) is SymNode:
                return sym_node.wrap_node(operation(node, other.node))
        return torchs(self, other)

    return compute


def _unrecorded(torchs: Callable[..., Any]) -> Callable[..., Any]:
    method: Callable[..., Any] = torchs.__wrapped__

    def call(self: ShapeEnv, *args: Any, **kwargs: Any) -> Any:
        """Records the call where anybody has asked for that."""
        return (torchs if self.should_record_events else method)(self, *args, **kwargs)

    return call


def _where_ops_are_new(torchs: Callable[[], None]) -> Callable[[], None]:
    seen: list[str] = []

    @wraps(torchs)
    def materialize() -> None:
        """Looks up all ops where there are others than the last time."""
        found = torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
        if found != seen:
            torchs()
            seen[:] = found

    return materialize


def _checked_by_kind(torchs: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(torchs)
    def info(mode: Any, state: Any, key: Any, func: Any, args: Any, kwargs: Any, output: Any) -> Any:
        """Checks the entry by a tensor that an entry of this kind made before. One of unbacked sizes may make none."""
        unbacked = mode.shape_env is not None and mode.shape_env.unbacked_symint_counter
        if unbacked or not isinstance(output, FakeTensor):
            return torchs(mode, state, key, func, args, kwargs, output)
        modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        traits = output.dtype, output.layout, output.device, output.requires_grad, output.is_conj(), output.is_neg()
        kind = *modes, *traits, isinstance(func, torch._ops.OpOverload) and func.is_view
        made = vars(mode).setdefault("_made_by_kind", {})

        def make(*given: Any) -> Any:
            if kind not in made:
                made[kind] = type(mode)._output_from_cache_entry(mode, *given)
            return made[kind]

        mode._output_from_cache_entry = make
        try:
            return torchs(mode, state, key, func, args, kwargs, output)
        finally:
            del mode._output_from_cache_entry

    return info
