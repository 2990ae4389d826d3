"""Random modules as source text, with what is changed between their calls: a strategy of hypothesis, which shrinks what fails.

All values are square matrices of one size, so that every statement fits after every other, and a statement can be left out.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from hypothesis import strategies as st
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

# {a} and {b} stand for values, {v} for the new one. The simplest come first: hypothesis shrinks towards them.
POINTWISE = ["{v} = {a} * 2", "{v} = {a}.sin() + {b}", "{v} = {a} * {b}", "{v} = ({a} - 3 * {b}).tanh()", "{v} = {a} @ {b} / S",
             "{v} = {a} - {a}.mean(0)", "{v} = {a}.softmax(-1)", "{v} = F.leaky_relu({a}, 0.3)"]  # fmt: skip
WEIGHTS = ["{v} = {a} @ self.p0", "{v} = {a} * self.row", "{v} = {a} @ self.tied + self.p0", "{v} = {a} * self.scale",
           "{v} = {a} + 1 if self.flag else {a}.cos()", "{v} = {a} @ OUTSIDE", "{v} = F.linear({a}, self.p0, self.row)"]  # fmt: skip
CHILDREN = ["{v} = self.linear({a})", "{v} = self.norm({a})", "{v} = self.drop({a}) + {b}", "{v} = self.block({a})", "{v} = self.seq({a})",
            "{v} = self.again({a})", "{v} = self.layer({a})", "{v} = self.spectral({a})", "{v} = F.dropout({a}, 1.0, self.training) + {b}"]  # fmt: skip
VIEWS = ["{v} = {a}.t()", "{v} = {a}.view(-1).view(S, S)", "{v} = {a}[:, 1:2].expand(S, S)", "{v} = {a}[:]", "{v} = {a}.reshape(S, S)"]
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
HOOK_CHANGES = ["m.linear.register_forward_hook(lambda module, args, out: out + 1)", "m.register_forward_pre_hook(lambda module, args: None)"]
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
    """A child with a child, state, and two ways to compute."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(S, eps=0.1)
        self.weight = nn.Parameter(torch.rand(S))
        self.register_buffer("seen", torch.zeros(()), persistent=False)

    def forward(self, a: Tensor) -> Tensor:
        self.seen.add_(1)
        return (self.norm(a) if self.training else a - 1) * self.weight


class Own(torch.autograd.Function):
    """A function whose gradient is not the derivative of what it computes."""

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
    """A call, after some changes. inputs: how x and y lie in memory; needs: whether they need gradients."""

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
        """The class."""
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
        kind = f"{self.header} inputs, {self.dtype}, weights of seed {self.number}" + ", a function that closes over it" * self.closure
        return "\n".join([self.text, f"# {kind}", *(f"# {i}. {step}" for i, step in enumerate(self.steps))])

    def model(self) -> nn.Module:
        """The module, with the same weights each time."""
        generator = torch.Generator().manual_seed(self.number)
        names = {"torch": torch, "nn": nn, "F": F, "S": S, "Block": Block, "Own": Own, "custom": custom, "custom_in_place": custom_in_place}
        names["OUTSIDE"] = nn.Parameter(torch.randn(S, S, generator=generator).to(self.dtype) / S)
        exec(self.text, names)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.number)
            made: nn.Module = names["Model"]().to(self.dtype)
        if "hidden" in self.parts:
            made.hidden = made.hidden.to(self.dtype)
        made.__dict__["outside"] = names["OUTSIDE"]
        return made


@st.composite
def programs(draw: st.DrawFn, statements: tuple[str, ...] = tuple(STATEMENTS), changes: tuple[str, ...] = tuple(CHANGES)) -> Program:
    """Up to six statements and up to three calls after the first."""
    values, lines = ["x", "y"], []
    for i in range(draw(st.integers(1, 6))):
        a, b = draw(st.sampled_from(values)), draw(st.sampled_from(values))
        line = draw(st.sampled_from(statements)).format(a=a, b=b, v=f"v{i}")
        lines.append(line)
        if f"v{i} =" in line:
            values.append(f"v{i}")
    outputs = draw(st.lists(st.sampled_from(values[::-1]), min_size=1, max_size=3))
    program = Program(tuple(lines), tuple(outputs), ())
    steps = [draw(_steps(program, ())), *(draw(_steps(program, changes)) for _ in range(draw(st.integers(1, 3))))]
    return Program(
        program.lines, program.outputs, tuple(steps), draw(st.sampled_from(list(HEADERS))), draw(st.integers(0, 5)) == 5,
        draw(st.sampled_from([torch.float32, torch.float64])), draw(st.integers(0, 1 << 20)),
    )  # fmt: skip


@st.composite
def _steps(draw: st.DrawFn, program: Program, changes: tuple[str, ...]) -> Step:
    possible = [change for change in _filled(changes) if _applies(change, program)]
    chosen = draw(st.lists(st.sampled_from(possible), max_size=2)) if possible else []
    inputs = ["apart", "same", "overlapping", "transposed", *({"state", "p0"} & program.parts)]
    kind = draw(st.sampled_from(sorted(inputs)))
    gradients = draw(st.booleans())
    needs = gradients and kind not in ("state", "p0") and draw(st.booleans())
    return Step(tuple(chosen), kind, needs, gradients, draw(st.integers(0, 5)) == 5)


def _filled(changes: tuple[str, ...]) -> list[str]:
    return [c.format(child=child) if "{child}" in c else c for c in changes for child in (CHILD_NAMES if "{child}" in c else [""])]


def _applies(change: str, program: Program) -> bool:
    """Whether the module has what a change is of."""
    named = [n for n in {**PARTS, **BUFFERS} if f"m.{n}" in change]
    return all(n in program.parts for n in named) and ("OUTSIDE" not in change or "OUTSIDE" in program.text)
