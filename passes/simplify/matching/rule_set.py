"""Rule sets: pattern rewrite rules that are parsed from MLIR text and tried at their anchor ops.

An anchor is the kind of op in a pattern that is rarest in models, such as erf for GELU. A rule is tried only at values that are
computed from an anchor in few steps, so that most ops of a module are never matched against it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from torch_mlir import ir

from ...ir.reading import name_of, ops_in, producer, reduced_loops
from ...ir.rewriting import Reader
from ..scalars import ScalarRef, Scalars
from ..scope import RewriteScope
from .emit import CannotPlace, PatternEmitter
from .forms import Forms
from .match import Env, Matcher
from .pattern import Add, CallPattern, Function, Prod, ReducePattern, Term, walk
from .rule import PATTERN

_RARE = ("math.erf", "math.erfc", "math.tanh", "math.log", "math.sin", "math.cos", "math.exp")
"""Ops that serve as anchors, the rarest in models first."""
_ROOTS = ("math.rsqrt", "math.sqrt", "math.powf")
"""Ops that compute fractional powers."""
_THROUGH = {"tensor.expand_shape", "tensor.collapse_shape", "linalg.transpose", "linalg.broadcast", "arith.extf", "arith.truncf"}
"""Ops that change only the position or the type of elements, so that matching looks through them."""
_TOLERANCE = {"bf16": 8e-3, "f16": 1e-3}
"""The largest relative difference between a model's constant and a rule's; 5e-5 for other types."""


@dataclass(frozen=True)
class Loaded:
    """A rule in normal form. It refers to no MLIR context, so that it is read only once.

    term         the pattern
    replacement  the text of a module with the function that replaces a match; None to keep the ops and only mark them
    scalars      the numbers of parameters that may match constants
    anchors      ops of which every match contains one
    reach        the most ops between an anchor and the root
    rows         whether the pattern reduces rows
    """

    name: str
    term: Term
    replacement: str | None
    scalars: frozenset[int]
    anchors: frozenset[str]
    reach: int
    rows: bool

    @staticmethod
    def of(pattern: ir.Operation, replacement: ir.Operation | None) -> "Loaded":
        """Reads a rule from its traced functions."""
        term = Function(pattern).term()
        scalars = frozenset(pattern.attributes["scalars"])
        name = pattern.attributes["rule"].value
        anchors = _anchors(term)
        rows = any(isinstance(t, ReducePattern) for t in walk(term))
        text = replacement.get_asm(use_local_scope=True) if replacement else None
        return Loaded(name, term, text, scalars, anchors, _reach(term, anchors), rows)

    def root_is(self, kind: str) -> bool:
        """Returns whether the pattern's root has the kind `kind` (see `Forms.kind`)."""
        wanted = {Prod: "product", Add: "sum"}.get(type(self.term)) or (
            self.term.name if isinstance(self.term, CallPattern) else ""
        )
        return kind == wanted


def _anchors(term: Term) -> frozenset[str]:
    """Returns the rarest ops of which every match contains one."""
    terms = walk(term)
    names = {t.name for t in terms if isinstance(t, CallPattern)}
    for rare in _RARE:
        if rare in names:
            return frozenset([rare])
    if any(isinstance(t, Prod) and any(e != int(e) for _, e in t.factors) for t in terms):
        return frozenset(_ROOTS)
    if names:
        return frozenset([min(names)])
    if any(isinstance(t, ReducePattern) for t in terms):
        return frozenset(["arith.divf", "arith.mulf", "arith.addf"])
    return frozenset(["arith.mulf", "arith.divf"]) if isinstance(term, Prod) else frozenset(["arith.addf", "arith.subf"])


def _reach(term: Term, anchors: frozenset[str]) -> int:
    """Returns how many binary ops may lie between an anchor and the root of `term`; -1 if `term` contains no anchor."""
    if isinstance(term, CallPattern):
        own = 0 if term.name in anchors else -1
        below = max((_reach(a, anchors) for a in term.args), default=-1)
        return max(own, below + 1 if below >= 0 else -1)
    if isinstance(term, ReducePattern):
        below = _reach(term.inner, anchors)
        return below + 1 if below >= 0 else -1
    if not isinstance(term, Prod | Add):
        return -1
    parts = [f for f, _ in term.factors] if isinstance(term, Prod) else list(term.terms)
    below = max((_reach(part, anchors) for part in parts), default=-1)
    if isinstance(term, Prod):
        root = any(e != int(e) for _, e in term.factors) and bool(anchors & set(_ROOTS))
        own = root or bool(anchors & {"arith.mulf", "arith.divf"})
    else:
        own = "arith.addf" in anchors
    below = max(below, 0 if own else -1)
    return below + len(parts) + 1 if below >= 0 else -1


@dataclass(frozen=True)
class RuleSet:
    """Rules in the order they are tried."""

    rules: tuple[Loaded, ...]

    @staticmethod
    @cache
    def parse(text: str) -> "RuleSet":
        """Parses the functions @pattern_N and @replacement_N of a module. The result is cached, as that takes milliseconds."""
        module = ir.Module.parse(text)
        functions = {name_of(op.operation): op.operation for op in module.body.operations}
        patterns = [name for name in functions if name.startswith("pattern_")]
        pairs = [(functions[name], functions.get(name.replace("pattern", "replacement"))) for name in patterns]
        return RuleSet(tuple(Loaded.of(pattern, replacement) for pattern, replacement in pairs))

    def only(self, names: set[str]) -> "RuleSet":
        """Returns the rules with these names."""
        return RuleSet(tuple(rule for rule in self.rules if rule.name in names))

    def apply(self, block: ir.Block) -> None:
        """Applies every rule, in order, at all anchor ops in a block."""
        wanted = frozenset(name for rule in self.rules for name in rule.anchors)
        anchors = [(hash(op), op) for op in _scalar_ops(block) if op.name in wanted]
        forms = Forms(Scalars(Reader()))
        for rule in self.rules:
            gone: set[int] = set()  # by hash: an erased op must not be touched, not even compared
            for key, anchor in anchors:
                if key not in gone and anchor.name in rule.anchors:
                    replaced = _try(rule, anchor, forms)
                    if replaced:
                        gone |= {key} | replaced
                        forms = Forms(forms.scalars)  # its cache may refer to erased ops
            anchors = [(key, anchor) for key, anchor in anchors if key not in gone]


def _scalar_ops(block: ir.Block) -> list[ir.Operation]:
    generics = ops_in(block, "linalg.generic")
    return [inner.operation for op in generics for inner in op.regions[0].blocks[0].operations]


def _try(rule: Loaded, anchor: ir.Operation, forms: Forms) -> set[int]:
    """Applies a rule to the first matching op downstream of `anchor`. Returns the hashes of ops that may have been erased; the
    empty set if nothing matched."""
    for root in list(_downstream(anchor, rule.reach)):
        op = root.block.owner.operation
        generic = forms.scalars.reader.generic(op)
        ref = ScalarRef(root.results[0], generic.loops)
        if not generic.parallel or PATTERN in op.attributes or not rule.root_is(forms.kind(ref)):
            continue
        tolerance = _TOLERANCE.get(str(root.results[0].type), 5e-5)
        env = Matcher(forms, rule.term, rule.scalars, rule.rows, tolerance).find(ref)
        if env is None:
            continue
        matched = _matched(forms, ref, env)
        if not _escapes(matched, root):
            return {hash(anchor)} | _replace(rule, RewriteScope(forms.scalars, generic, frozenset(), set()), env, root, matched)
    return set()


def _replace(rule: Loaded, s: RewriteScope, env: Env, root: ir.Operation, matched: list[ir.Operation]) -> set[int]:
    """Replaces a match, or only marks its generic. Returns the hashes of ops that may have been erased."""
    loc = ir.Location.fused(list(dict.fromkeys(op.location for op in reversed(matched))))
    gone = {hash(view.operation) for view in s.generic.block.operations}
    if rule.replacement is None:
        s.generic.op.attributes[PATTERN] = ir.StringAttr.get(rule.name)
        return set()
    module = ir.Module.parse(rule.replacement)  # a variable of its own keeps the function alive
    try:
        value = PatternEmitter(s, Function(module.body.operations[0].operation), env, root, rule.name, loc).run()
    except CannotPlace:
        s.close()
        return gone
    root.results[0].replace_all_uses_with(value)
    s.close(loc).attributes[PATTERN] = ir.StringAttr.get(rule.name)
    return gone


def _downstream(op: ir.Operation, reach: int) -> Iterator[ir.Operation]:
    """Yields scalar ops that use the result of `op`, nearest first, through generics and views, up to `reach` ops away."""
    now, seen = [op.results[0]], {op}
    yield op
    for _ in range(reach):
        further = []
        for value in now:
            for user in _users(value):
                if user not in seen and len(user.results) == 1 and user.name.startswith(("arith.", "math.")):
                    seen.add(user)
                    further.append(user.results[0])
                    yield user
        now = further


def _users(value: ir.Value) -> Iterator[ir.Operation]:
    """Yields the ops that use a value, through generics, views and casts."""
    for use in value.uses:
        user = use.owner.operation
        if user.name == "linalg.generic":
            yield from _users(user.regions[0].blocks[0].arguments[use.operand_number])
        elif user.name == "linalg.yield":
            yield from _users(user.block.owner.operation.results[use.operand_number])
        elif user.name in _THROUGH:
            yield from _users(user.results[0])
        else:
            yield user


def _matched(forms: Forms, root: ScalarRef, env: Env) -> list[ir.Operation]:
    """Returns the ops between the root and the scalars bound to parameters, root first."""
    stops = env.opaque()
    ops: dict[ir.Operation, None] = {}
    waiting = [root]
    while waiting:
        ref = forms.scalars.resolve(waiting.pop(0))
        node = forms.scalars.node(ref)
        if ref.value in stops:
            continue
        if node is not None:
            ops[node.op] = None
            waiting += node.args
        elif (reduction := forms.reduction(ref)) is not None:
            combine = producer(forms.scalars.reader.generic(reduction.op).yielded[ref.value.result_number])
            assert combine is not None
            ops[combine] = None
            waiting.append(reduction.inner)
    return list(ops)


def _escapes(matched: list[ir.Operation], root: ir.Operation) -> bool:
    """Returns whether a costly op of the match, other than its root, has users outside of it, and so would be computed anyway."""
    inside = set(matched)
    for op in matched:
        costly = op.name.startswith("math.") or op.name == "arith.divf" or any(reduced_loops(op.block.owner.operation))
        if costly and op != root and not all(user in inside for user in _users(op.results[0])):
            return True
    return False
