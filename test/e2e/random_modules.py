"""Random modules as source text, with what is changed between their calls.

All values are square matrices of one size, so that every statement fits after every other, and a statement can be left out.
"""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

S = 4

# What a module has, by the attribute that a statement reads: only what is read is written.
PARTS = {
    "p0": "nn.Parameter(torch.randn(S, S) / S)",
    "tied": "self.p0",
    "row": "nn.Parameter(torch.randn(S))",
    "scale": "0.75",
    "flag": "True",
    "hidden": "torch.zeros(S, S)",
    "linear": "nn.Linear(S, S)",
    "again": "self.linear",
    "norm": "nn.BatchNorm1d(S, eps=0.1)",
    "layer": "nn.LayerNorm(S, eps=0.1)",
    "drop": "nn.Dropout(1.0)",
    "block": "Block()",
    "seq": "nn.Sequential(nn.Linear(S, S), nn.BatchNorm1d(S, eps=0.1), nn.Dropout(1.0))",
    "spectral": "nn.utils.parametrizations.spectral_norm(nn.Linear(S, S))",
}
BUFFERS = {"state": "torch.zeros(S, S)", "total": "torch.zeros(S)", "count": "torch.zeros((), dtype=torch.int64)"}
NEEDS = {"tied": "p0", "again": "linear"}

# {a} and {b} stand for values, {v} for the new one.
POINTWISE = ["{v} = {a} * 2", "{v} = {a}.sin() + {b}", "{v} = {a} * {b}", "{v} = ({a} - 3 * {b}).tanh()", "{v} = {a} @ {b} / S",
             "{v} = {a} - {a}.mean(0)", "{v} = {a}.softmax(-1)", "{v} = F.leaky_relu({a}, 0.3)"]  # fmt: skip
WEIGHTS = ["{v} = {a} @ self.p0", "{v} = {a} * self.row", "{v} = {a} @ self.tied + self.p0", "{v} = {a} * self.scale",
           "{v} = {a} + 1 if self.flag else {a}.cos()", "{v} = {a} @ OUTSIDE", "{v} = F.linear({a}, self.p0, self.row)"]  # fmt: skip
CHILDREN = ["{v} = self.linear({a})", "{v} = self.norm({a})", "{v} = self.drop({a}) + {b}", "{v} = self.block({a})", "{v} = self.seq({a})",
            "{v} = self.again({a})", "{v} = self.layer({a})", "{v} = self.spectral({a})", "{v} = F.dropout({a}, 1.0, self.training) + {b}"]  # fmt: skip
VIEWS = [
    "{v} = {a}.t()",
    "{v} = {a}.view(-1).view(S, S)",
    "{v} = {a}[:, 1:2].expand(S, S)",
    "{v} = {a}[:]",
    "{v} = {a}.reshape(S, S)",
]
MODES = ["{v} = {a}.detach()", "{v} = {a} * 2 if torch.is_grad_enabled() else {a} - 1", "{v} = {a} * 2 if self.training else {a} - 1",
         "{v} = {a} * 2 if self.block.training else {a} - 1", "with torch.no_grad(): {v} = {a} * {b}",
         "with torch.no_grad(): {v} = self.linear({a})", "{v} = Own.apply({a})", "{v} = custom({a})",
         "with torch.enable_grad(): {v} = {a}.cos()"]  # fmt: skip
CHANGES_OF_BUFFERS = ["self.count.add_(1)", "self.total.add_({a}.detach().sum(0))", "self.state.copy_({a}.detach())",
                      "self.state.mul_(0.5).add_({a}.detach())", "self.state = self.state + {a}.detach()", "{v} = self.state + {a}",
                      "{v} = {a} + self.total * self.count", "self.hidden = self.hidden + {a}.detach(); {v} = {a} + self.hidden"]  # fmt: skip
CHANGES_OF_INPUTS = ["{v} = x.add_(0.5)", "y.mul_(0.5)", "x[1].zero_()", "y.t()[0] = 0.25", "custom_in_place(y)"]
CHANGES_OF_VALUES = ["{v} = {a} + {b}; {v}.mul_(0.5)", "{v} = {a}.clone(); {v}[1:, ::2] = 0.5", "{v} = {a} * 1; {v}.t().add_({b})"]

STATEMENTS = [*POINTWISE, *WEIGHTS, *CHILDREN, *VIEWS, *MODES, *CHANGES_OF_BUFFERS, *CHANGES_OF_INPUTS, *CHANGES_OF_VALUES]

# Changes between calls, of what a module has.
MODE_CHANGES = ["m.eval()", "m.train()", "m.{child}.eval()", "m.{child}.train()", "m.block.norm.eval()", "m.seq[1].eval()"]
WEIGHT_CHANGES = [
    "m.p0.data.mul_(0.5)", "m.p0.data[1, 2] = 3.0", "m.p0.data = m.p0.data + 0.25", "m.p0 = nn.Parameter(m.p0.detach() + 0.25)",
    "m.p0.detach().numpy()[0, 0] = 2.0", "m.row.requires_grad_(False)", "m.requires_grad_(False)", "m.tied = nn.Parameter(m.tied.detach() + 0.5)",
    "m.linear.weight.data[1, 2] = 3.0", "m.linear.bias = nn.Parameter(m.linear.bias.detach() + 0.5)", "m.norm.weight.data.mul_(2)",
    "m.load_state_dict({k: v + 1 for k, v in m.state_dict().items()})", "m.state.add_(0.5)", "m.state = m.state + 0.5", "m.total.fill_(2)",
    "m.seq[0].weight = m.seq[0].weight", "m.norm.reset_running_stats()", "OUTSIDE.data.mul_(2)",
]  # fmt: skip
ATTRIBUTE_CHANGES = ["m.scale = 0.25", "m.flag = False"]
HOOK_CHANGES = [
    "m.linear.register_forward_hook(lambda module, args, out: out + 1)",
    "m.register_forward_pre_hook(lambda module, args: None)",
]
CHILD_NAMES = ["block", "norm", "drop", "seq", "linear", "spectral"]
CHANGES = [*MODE_CHANGES, *WEIGHT_CHANGES, *ATTRIBUTE_CHANGES, *HOOK_CHANGES]

HEADERS = {
    "plain": ("x, y", ""),
    "keyword": ("x, *, y", ""),
    "dict": ("d", "x, y = d['x'], d['y']"),
    "dataclass": ("p", "x, y = p.left, p.right"),
}


@dataclass
class Pair:
    left: Tensor
    right: Tensor


torch.export.register_dataclass(Pair)


class Block(nn.Module):
    """A submodule with a submodule, state, and two forward paths."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(S, eps=0.1)
        self.weight = nn.Parameter(torch.rand(S))
        self.register_buffer("seen", torch.zeros(()), persistent=False)

    def forward(self, a: Tensor) -> Tensor:
        self.seen.add_(1)
        return (self.norm(a) if self.training else a - 1) * self.weight


class Own(torch.autograd.Function):
    """A function whose gradient is not its derivative."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        return a * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 5


@torch.library.custom_op("lamina_test::custom", mutates_args=())
def custom(a: Tensor) -> Tensor:
    return a.sin()


@torch.library.custom_op("lamina_test::custom_in_place", mutates_args=("a",))
def custom_in_place(a: Tensor) -> None:
    a.mul_(0.5)


custom.register_fake(lambda a: torch.empty_like(a))
custom.register_autograd(lambda ctx, gradient: gradient * 3)


@dataclass(frozen=True)
class Step:
    """A call, after some changes. inputs: the layouts of x and y; needs: whether they require gradients."""

    changes: tuple[str, ...] = ()
    inputs: str = "apart"
    needs: bool = False
    gradients: bool = False
    autocast: bool = False

    def __str__(self) -> str:
        call = f"call: inputs {self.inputs}, {'gradients' if self.gradients else 'no_grad'}"
        return "; ".join([*self.changes, call + ", of inputs too" * self.needs + ", autocast" * self.autocast])


@dataclass(frozen=True)
class Program:
    """header: how x and y are passed; closure: a function that closes over the module is compiled, not the module."""

    lines: tuple[str, ...]
    outputs: tuple[str, ...]
    steps: tuple[Step, ...]
    header: str = "plain"
    closure: bool = False
    dtype: torch.dtype = torch.float32
    number: int = 0

    @property
    def text(self) -> str:
        """Returns the source of the class."""
        parameters, unpack = HEADERS[self.header]
        body = [*([unpack] if unpack else []), *self.lines, f"return {', '.join(self.outputs)}{',' * (len(self.outputs) > 1)}"]
        init = ["super().__init__()", *(f"self.{n} = {PARTS[n]}" for n in PARTS if n in self.parts)]
        init += [f"self.register_buffer({n!r}, {BUFFERS[n]})" for n in BUFFERS if n in self.parts]
        return "\n".join([
            "class Model(nn.Module):", "    def __init__(self):", *(f"        {line}" for line in init),
            f"    def forward(self, {parameters}):", *(f"        {line}" for line in body),
        ])  # fmt: skip

    @property
    def parts(self) -> set[str]:
        text = "\n".join(self.lines)
        used = {n for n in {**PARTS, **BUFFERS} if f"self.{n}" in text}
        used |= {step.inputs for step in self.steps} & {"state", "p0"}
        return used | {NEEDS[n] for n in used if n in NEEDS}

    def __str__(self) -> str:
        kind = (
            f"{self.header} inputs, {self.dtype}, weights of seed {self.number}" + ", a function that closes over it" * self.closure
        )
        return "\n".join([self.text, f"# {kind}", *(f"# {i}. {step}" for i, step in enumerate(self.steps))])

    def model(self) -> nn.Module:
        """Returns the module, with the same weights each time."""
        generator = torch.Generator().manual_seed(self.number)
        names = {
            "torch": torch,
            "nn": nn,
            "F": F,
            "S": S,
            "Block": Block,
            "Own": Own,
            "custom": custom,
            "custom_in_place": custom_in_place,
        }
        names["OUTSIDE"] = nn.Parameter(torch.randn(S, S, generator=generator).to(self.dtype) / S)
        exec(self.text, names)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.number)
            made: nn.Module = names["Model"]().to(self.dtype)
        if "hidden" in self.parts:
            made.hidden = made.hidden.to(self.dtype)
        made.__dict__["outside"] = names["OUTSIDE"]
        return made


def random_program(seed: int, statements: Sequence[str] = STATEMENTS, changes: Sequence[str] = CHANGES) -> Program:
    """Returns a program of up to eight statements, and up to three calls after the first."""
    r = random.Random(seed)
    values, lines = ["x", "y"], []
    for i in range(r.randint(1, 8)):
        a, b = (values[-1] if r.random() < 0.3 else r.choice(values) for _ in range(2))
        lines.append(r.choice(statements).format(a=a, b=b, v=f"v{i}"))
        if f"v{i} =" in lines[-1]:
            values.append(f"v{i}")
    outputs = [values[-1], *r.choices(values, k=r.choice([0, 1, 1, 2]))]
    header, dtype = r.choice(list(HEADERS)), r.choice([torch.float32, torch.float32, torch.float64])
    program = Program(tuple(lines), tuple(outputs), (), header, r.random() < 0.15, dtype, r.getrandbits(20))
    return replace(program, steps=(_step(r, program, ()), *(_step(r, program, changes) for _ in range(r.randint(1, 3)))))


def _step(r: random.Random, program: Program, changes: Sequence[str]) -> Step:
    possible = [change for change in _filled(changes) if _applies(change, program)]
    chosen = r.choices(possible, k=r.choice([0, 1, 1, 2])) if possible else []
    kind = r.choice(["apart", "apart", "same", "overlapping", "transposed", *sorted({"state", "p0"} & program.parts)])
    gradients = r.random() < 0.6
    needs = gradients and kind not in ("state", "p0") and r.random() < 0.6
    return Step(tuple(chosen), kind, needs, gradients, r.random() < 0.1)


def _filled(changes: Sequence[str]) -> list[str]:
    return [c.format(child=child) if "{child}" in c else c for c in changes for child in (CHILD_NAMES if "{child}" in c else [""])]


def _applies(change: str, program: Program) -> bool:
    """Returns whether the module has what a change is of."""
    named = [n for n in {**PARTS, **BUFFERS} if f"m.{n}" in change]
    return all(n in program.parts for n in named) and ("OUTSIDE" not in change or "OUTSIDE" in program.text)


def smaller(program: Program) -> Iterator[Program]:
    """Yields programs without one part: a call, a statement, a change, an output, an option."""
    for i in range(1, len(program.steps)):
        yield replace(program, steps=program.steps[:i] + program.steps[i + 1 :])
    for i, line in enumerate(program.lines):
        new = re.match(r"(?:with .*: )?(v\d+) =", line)
        rest = [
            re.sub(rf"\b{new[1]}\b", "x", part) if new else part
            for part in ("\n".join(program.lines[i + 1 :]), " ".join(program.outputs))
        ]
        lines = (*program.lines[:i], *(rest[0].split("\n") if rest[0] else []))
        yield replace(program, lines=lines, outputs=tuple(rest[1].split()))
    for i in range(len(program.outputs) * (len(program.outputs) > 1)):
        yield replace(program, outputs=program.outputs[:i] + program.outputs[i + 1 :])
    for i, step in enumerate(program.steps):
        plainer = [replace(step, changes=step.changes[:j] + step.changes[j + 1 :]) for j in range(len(step.changes))]
        plainer += [replace(step, **{name: value}) for name, value in (("inputs", "apart"), ("needs", False), ("autocast", False))]
        plainer += [replace(step, gradients=False, needs=False)]
        yield from (replace(program, steps=(*program.steps[:i], one, *program.steps[i + 1 :])) for one in plainer if one != step)
    for name, value in (("header", "plain"), ("closure", False), ("dtype", torch.float32)):
        if getattr(program, name) != value:
            yield replace(program, **{name: value})


def smallest(program: Program, fails: Callable[[Program], bool], tries: int = 150) -> Program:
    """Returns the program without all parts that are not needed to fail."""
    left = tries
    while True:
        for candidate in smaller(program):
            left -= 1
            if left < 0:
                return program
            if _is_whole(candidate) and fails(candidate):
                program = candidate
                break
        else:
            return program


def _is_whole(program: Program) -> bool:
    return all(_applies(c, program) for s in program.steps for c in s.changes)
