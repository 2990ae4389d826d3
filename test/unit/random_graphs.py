"""Random modules at the graph level with the values they should compute, for testing the plan's use of memory.

All tensors are 2-D i64, so that wrap-around arithmetic is exact. Groups are of a few kinds, each with a Python twin.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

ID, SWAP, ROW = "affine_map<(d0, d1) -> (d0, d1)>", "affine_map<(d0, d1) -> (d1, d0)>", "affine_map<(d0, d1) -> (d0)>"

Twin = Callable[..., list[torch.Tensor]]


@dataclass
class Value:
    name: str
    tensor: torch.Tensor


@dataclass
class Graph:
    """`text` is the module; `kernels` the twins by the name of the group."""

    random: random.Random
    inputs: list[torch.Tensor] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    kernels: dict[str, Twin] = field(default_factory=dict)
    returned: list[Value] = field(default_factory=list)
    wishes: list[dict[str, str]] = field(default_factory=list)

    def name(self) -> str:
        return f"%v{len(self.lines)}"

    @property
    def text(self) -> str:
        strides = [f"{{graph.strides = array<i64: {', '.join(map(str, t.stride()))}>}}" for t in self.inputs]
        args = ", ".join(f"%in{i}: {kind(t)} {s}" for i, (t, s) in enumerate(zip(self.inputs, strides, strict=True)))
        types = [kind(v.tensor) for v in self.returned]
        asked = [", ".join(f"{k}{v}" for k, v in wish.items()) for wish in self.wishes]
        signature = ", ".join(f"{t} {{{wish}}}" for t, wish in zip(types, asked, strict=True))
        results = ", ".join(types)
        ends = ", ".join(v.name for v in self.returned)
        return f"func.func @main({args}) -> ({signature}) {{\n" + "\n".join(self.lines) + f"\n  return {ends} : {results}\n}}"


def kind(t: torch.Tensor) -> str:
    return f"tensor<{'x'.join(map(str, t.shape))}xi64>"


def generic(maps: list[str], ins: list[str], types: list[str], out: str, body: str, iterators: str = "parallel") -> str:
    args = ", ".join(f"%a{i}: i64" for i in range(len(ins)))
    return (
        f'linalg.generic {{indexing_maps = [{", ".join(maps)}], iterator_types = ["parallel", "{iterators}"]}} '
        f"ins({', '.join(ins)} : {', '.join(types)}) outs({out}) {{\n    ^bb0({args}, %acc: i64):\n{body}\n"
        f"      linalg.yield %y : i64\n    }} -> {out.split(':')[1].strip()}"
    )


def group(graph: Graph, name: str, twin: Twin, ins: list[Value], body: str, yields: list[str]) -> None:
    """Adds a group; `body` names its inputs %x0, %x1 and their types T0, T1."""
    graph.kernels[name] = twin
    outs = twin(*[v.tensor for v in ins])
    for i in range(len(outs)):  # those whose results lie in different orders may become a kernel for each result
        graph.kernels[f"{name}_{i}"] = lambda *tensors, at=i: [twin(*tensors)[at]]
    types = [kind(v.tensor) for v in ins]
    results = ", ".join(kind(t) for t in outs)
    for i, t in enumerate(types):
        body = body.replace(f"T{i}", t)
    params = ", ".join(f"%x{i}: {t}" for i, t in enumerate(types))
    base = graph.name()
    graph.lines.append(
        f'  {base}:{len(outs)} = "graph.group"({", ".join(v.name for v in ins)}) ({{\n  ^bb0({params}):\n{body}\n'
        f'    "graph.yield"({", ".join(yields)}) : ({results}) -> ()\n'
        f'  }}) {{sym_name = "{name}"}} : ({", ".join(types)}) -> ({results})'
    )
    graph.values += [Value(f"{base}#{i}", t) for i, t in enumerate(outs)]


def _affine(graph: Graph, x: Value) -> None:
    k = graph.random.randrange(1, 4)
    body = f"      %k = arith.constant {k} : i64\n      %m = arith.muli %a0, %k : i64\n      %y = arith.addi %m, %k : i64"
    text = f"    %e = tensor.empty() : T0\n    %r = {generic([ID, ID], ['%x0'], ['T0'], '%e : T0', body)}"
    group(graph, f"affine{k}", lambda t: [t * k + k], [x], text, ["%r"])


def _add(graph: Graph, x: Value) -> None:
    same = [v for v in graph.values if v.tensor.shape == x.tensor.shape]
    body = "      %t = arith.muli %a0, %a0 : i64\n      %y = arith.addi %t, %a1 : i64"
    text = f"    %e = tensor.empty() : T0\n    %r = {generic([ID, ID, ID], ['%x0', '%x1'], ['T0', 'T1'], '%e : T0', body)}"
    group(graph, "square_add", lambda a, b: [a * a + b], [x, graph.random.choice(same)], text, ["%r"])


def _symmetric(graph: Graph, x: Value) -> None:
    if x.tensor.shape[0] != x.tensor.shape[1]:
        return
    body = "      %y = arith.subi %a0, %a1 : i64"
    text = f"    %e = tensor.empty() : T0\n    %r = {generic([ID, SWAP, ID], ['%x0', '%x0'], ['T0', 'T0'], '%e : T0', body)}"
    group(graph, "skew", lambda a: [a - a.t()], [x], text, ["%r"])


def _rows(graph: Graph, x: Value) -> None:
    rows = f"tensor<{x.tensor.shape[0]}xi64>"
    total, each = "      %y = arith.addi %a0, %acc : i64", "      %y = arith.subi %a0, %a1 : i64"
    text = (
        f"    %z = arith.constant 0 : i64\n    %n = tensor.empty() : {rows}\n"
        f"    %f = linalg.fill ins(%z : i64) outs(%n : {rows}) -> {rows}\n"
        f"    %s = {generic([ID, ROW], ['%x0'], ['T0'], f'%f : {rows}', total, 'reduction')}\n    %e = tensor.empty() : T0\n"
        f"    %r = {generic([ID, ROW, ID], ['%x0', '%s'], ['T0', rows], '%e : T0', each)}"
    )
    group(graph, "minus_sum", lambda a: [a - a.sum(1, keepdim=True)], [x], text, ["%r"])


def _two(graph: Graph, x: Value) -> None:
    plus, times = "      %y = arith.addi %a0, %a0 : i64", "      %y = arith.muli %a0, %a0 : i64"
    text = "\n".join(
        f"    %e{i} = tensor.empty() : T0\n    %r{i} = {generic([ID, ID], ['%x0'], ['T0'], f'%e{i} : T0', b)}"
        for i, b in enumerate((plus, times))
    )
    group(graph, "two", lambda a: [a + a, a * a], [x], text, ["%r0", "%r1"])


def _grow(graph: Graph, x: Value) -> None:
    n, m = x.tensor.shape
    if n * m > 600:
        return
    text = f"    %r = tensor.concat dim(0) %x0, %x0 : (T0, T0) -> tensor<{2 * n}x{m}xi64>"
    group(graph, "grow", lambda a: [torch.cat([a, a])], [x], text, ["%r"])


def _view(graph: Graph, x: Value, line: str, tensor: torch.Tensor) -> None:
    """`line` with OUT, IN, TYPE (of the source) and RESULT filled in."""
    name = graph.name()
    line = line.replace("OUT", name).replace("IN", x.name).replace("TYPE", kind(x.tensor)).replace("RESULT", kind(tensor))
    graph.lines.append("  " + line)
    graph.values.append(Value(name, tensor))


def _transpose(graph: Graph, x: Value) -> None:
    line = "OUT_e = tensor.empty() : RESULT\n  OUT = linalg.transpose ins(IN : TYPE) outs(OUT_e : RESULT) permutation = [1, 0]"
    _view(graph, x, line, x.tensor.t())


def _slice(graph: Graph, x: Value) -> None:
    n, m = x.tensor.shape
    if n > 2:
        start = graph.random.randrange(0, n // 2)
        line = f"OUT = tensor.extract_slice IN[{start}, 0] [{n // 2}, {m}] [1, 1] : TYPE to RESULT"
        _view(graph, x, line, x.tensor[start : start + n // 2])


def _reshape(graph: Graph, x: Value) -> None:
    n, m = x.tensor.shape
    if n % 2 == 0:
        flat = f"tensor<{n * m}xi64>"
        line = (
            f"OUT_c = tensor.collapse_shape IN [[0, 1]] : TYPE into {flat}\n"
            f"  OUT = tensor.expand_shape OUT_c [[0, 1]] output_shape [{n // 2}, {m * 2}] : {flat} into RESULT"
        )
        _view(graph, x, line, x.tensor.reshape(n // 2, m * 2))


def _extern(graph: Graph, callee: str, reason: str, ins: list[Value], tensor: torch.Tensor, strides: tuple[int, ...]) -> None:
    name = graph.name()
    args = ", ".join(["unit"] * len(ins))
    types = ", ".join(kind(v.tensor) for v in ins)
    graph.lines.append(
        f'  {name} = "graph.extern"({", ".join(v.name for v in ins)}) {{callee = "{callee}", reason = "{reason}", args = [{args}], '
        f"kwargs = {{}}, strides = [array<i64: {', '.join(map(str, strides))}>]}} : ({types}) -> {kind(tensor)}"
    )
    graph.values.append(Value(name, tensor))


def _matmul(graph: Graph, x: Value) -> None:
    fitting = [v for v in graph.values if v.tensor.shape[0] == x.tensor.shape[1]]
    if fitting:
        other = graph.random.choice(fitting)
        result = x.tensor @ other.tensor
        _extern(graph, "aten.mm.default", "library", [x, other], result, (result.shape[1], 1))


def _fallback(graph: Graph, x: Value) -> None:
    _extern(graph, "my.negative_columns.default", "fallback", [x], -x.tensor, (1, x.tensor.shape[0]))


def _alias(graph: Graph, x: Value) -> None:
    _extern(graph, "aten.alias.default", "fallback", [x], x.tensor, (x.tensor.shape[1], 1))


CALLS = {
    "aten.mm.default": lambda a, b: a @ b,
    "my.negative_columns.default": lambda a: (-a).t().contiguous().t(),
    "aten.alias.default": lambda a: a.view(a.shape),
}


def random_graph(seed: int, size: int) -> Graph:
    graph = Graph(random.Random(seed))
    generator = torch.Generator().manual_seed(seed)
    for i in range(graph.random.randrange(1, 4)):
        n, m = graph.random.choice([(8, 8), (4, 8), (6, 10), (2, 2)])
        t = torch.randint(-5, 6, (n, m), generator=generator)
        graph.inputs.append(t.t().contiguous().t() if graph.random.random() < 0.3 else t)
        graph.values.append(Value(f"%in{i}", graph.inputs[-1]))
    makers = [_affine] * 4 + [_add] * 4 + [_symmetric, _rows, _two, _grow, _transpose, _slice, _reshape, _matmul, _fallback, _alias]
    while len(graph.lines) < size:
        recent = graph.values[-6:] if graph.random.random() < 0.8 else graph.values
        graph.random.choice(makers)(graph, graph.random.choice(recent))
    graph.returned = [graph.random.choice(graph.values) for _ in range(graph.random.randrange(1, 5))] + [graph.values[-1]]
    graph.wishes = [_wish(graph, value.tensor) for value in graph.returned]
    return graph


def _wish(graph: Graph, tensor: torch.Tensor) -> dict[str, str]:
    """Attributes of a result: sometimes fresh memory, sometimes other strides, with gaps even."""
    n, m = tensor.shape
    strides = graph.random.choice([None, None, None, (m, 1), (1, n), (m + 3, 1), (2, 2 * n)])
    wish = {"graph.strides": f" = array<i64: {strides[0]}, {strides[1]}>"} if strides else {}
    return wish | ({"graph.fresh": ""} if graph.random.random() < 0.4 else {})
