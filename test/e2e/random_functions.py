"""Random functions of torch ops as source text, with inputs: `Writer(seed).program()`.

Each statement is tried in eager when it is written, so that shapes fit and values stay in a range where float32 and float64 agree.
Ops with jumps (comparisons, floor, argmax) apply to values that rounding has not touched.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from random_values import SIZES, Value, Values, broadcasts
from torch import Tensor

NAMES = {"torch": torch, "F": torch.nn.functional}


@dataclass
class Program:
    """`lines` are statements, `outputs` names. A subset of the lines is also a program if all names are defined."""

    inputs: dict[str, Tensor]
    lines: list[str]
    outputs: list[str]

    @property
    def text(self) -> str:
        body = "".join(f"    {line}\n" for line in self.lines)
        return f"def f({', '.join(self.inputs)}):\n{body}    return {', '.join(self.outputs)},\n"

    def function(self) -> Any:
        names = dict(NAMES)
        exec(self.text, names)
        return names["f"]


@dataclass
class Writer(Values):
    """Writes random programs. ops: the largest number of statements."""

    ops: int = 14
    lines: list[str] = field(default_factory=list)

    def program(self) -> Program:
        r = self.random
        sizes = [r.choice(SIZES) for _ in range(r.randint(2, 4))]
        for _ in range(r.randint(1, 4)):
            self.new_input(sizes)
        for _ in range(r.randint(2, self.ops)):
            for _ in range(20):
                if self._statement(r.choices(*_CHOICES)[0]):
                    break
        made = self.values[len(self.inputs) :]
        used = "\n".join(line.split("=", 1)[1] for line in self.lines)
        outs = [v for v in made if f"{v.name}" not in used.replace("(", " ").replace(")", " ").replace(",", " ").split()]
        outs += r.sample(made, min(len(made), r.choice([0, 0, 1, 2])))
        return Program(self.inputs, self.lines, list(dict.fromkeys(v.name for v in outs)) or ["x0"])

    def _statement(self, kind: str) -> bool:
        """Writes one statement of a kind, if a value fits it."""
        found = getattr(self, f"_{kind}")()
        if found is None:
            return False
        text, exact = found
        try:
            with torch.no_grad():
                tensor = eval(text, {**NAMES, **{v.name: v.tensor for v in self.values}})
        except (RuntimeError, IndexError, ValueError):
            return False
        if tensor.numel() > self.limit or tensor.dim() > 5 or (tensor.is_floating_point() and not tensor.isfinite().all()):
            return False
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        self.values.append(Value(name, tensor, exact))
        if self.values[-1].top > 50 and tensor.is_floating_point():
            self.lines.append(f"{name} = {name} / {float(self.values[-1].top):.0f}")
            self.values[-1] = Value(name, tensor / float(f"{self.values[-1].top:.0f}"), False)
        return True

    def _unary(self) -> Any:
        v = self.some(floating=True)
        if v is None:
            return None
        n = v.name
        pick = self.random.choice([
            f"{n}.relu()", f"{n}.abs()", f"-{n}", f"{n}.tanh()", f"{n}.sigmoid()", f"{n}.sin()", f"{n}.cos()", f"({n}.abs() + 0.1).sqrt()",
            f"{n} * {n}", f"F.gelu({n})", f"F.silu({n})", f"torch.erf({n})", f"torch.log({n}.abs() + 1)", f"1 / ({n}.abs() + 0.5)",
            f"torch.rsqrt({n}.abs() + 0.5)", f"{n}.clamp(-0.5, 0.7)", f"{n} * 0.5 + 1", f"({n} * 0.1).exp()", f"{n} ** 3",
            f"F.softplus({n})", f"F.leaky_relu({n}, 0.1)", f"F.hardtanh({n})", f"torch.where({n} > 0, {n}, {n} * 0.25)", f"{n}.clone()",
        ])  # fmt: skip
        return pick, v.exact and pick in (f"{n}.relu()", f"{n}.abs()", f"-{n}", f"{n}.clone()")

    def _binary(self) -> Any:
        v = self.some(floating=True)
        u = self.partner(v) if v else None
        if v is None or u is None:
            return None
        a, b = self.random.sample([v.name, u.name], 2)
        pick = self.random.choice([
            f"{a} + {b}", f"{a} - {b}", f"{a} * {b}", f"torch.maximum({a}, {b})", f"torch.minimum({a}, {b})", f"{a} / ({b}.abs() + 0.5)",
            f"torch.where({a}.abs() > 0, {a}, {b})", f"torch.add({a}, {b}, alpha=0.5)", f"torch.lerp({a}, {b}, 0.3)",
            f"torch.atan2({a}, {b}.abs() + 0.1)",
        ])  # fmt: skip
        return pick, v.exact and u.exact and "imum" in pick

    def _mask(self) -> Any:
        v = self.some(floating=True, exact=True)
        u = self.partner(v) if v else None
        if v is None or u is None or not u.exact:
            return None
        op = self.random.choice(["<", ">", "<=", "!="])
        return self.random.choice([f"{v.name} {op} {u.name}", f"{v.name} {op} 0.25"]), True

    def _logic(self) -> Any:
        masks = [v for v in self.values if v.tensor.dtype is torch.bool]
        if not masks:
            return None
        v = self.random.choice(masks)
        u = self.random.choice([m for m in masks if broadcasts(m.shape, v.shape)])
        n = v.name
        dim = self.random.randrange(len(v.shape)) if v.shape else 0
        texts = [f"{n} & {u.name}", f"{n} | {u.name}", f"~{n}", f"{n} ^ {u.name}", f"{n}.long()"]
        if v.shape and v.tensor.numel():
            texts += [f"{n}.any({dim})", f"{n}.all({dim})", f"{n}.sum({dim})", f"{n}.any()"]
        return self.random.choice(texts), True

    def _where(self) -> Any:
        v = self.some(floating=True)
        masks = [m for m in self.values if m.tensor.dtype is torch.bool and v and broadcasts(m.shape, v.shape)]
        u = self.partner(v) if v else None
        if not masks or u is None or v is None:
            return None
        m = self.random.choice(masks)
        text = self.random.choice([f"torch.where({m.name}, {v.name}, {u.name})", f"{v.name}.masked_fill({m.name}, 0.5)"])
        return text, v.exact and u.exact

    def _integer(self) -> Any:
        v = self.some(floating=False)
        if v is None or v.tensor.dtype is torch.bool:
            return None
        n, floating = v.name, self.some(floating=True)
        number = f"{n}.to({floating.name}.dtype)" if floating else f"{n}.float()"
        texts = [f"{n} + 3", f"{n} * 2 - 1", f"{n} % 5", f"{n} // 3", f"{n}.to(torch.int32)", f"{number} * 0.1", f"({n} > 1)", f"{n}.abs()",
                 f"{n} & 6", f"{n}.clamp(0, 3)", f"{n}.sum()", f"({number} * 0.25).sin()"]  # fmt: skip
        pick = self.random.choice(texts)
        return pick, number not in pick

    def _round(self) -> Any:
        v = self.some(floating=True, exact=True)
        if v is None:
            return None
        return f"{v.name}.{self.random.choice(['floor', 'ceil', 'round', 'sign', 'long'])}()", True

    def _reduction(self) -> Any:
        v = self.some(floating=True, rank=1, filled=True)
        if v is None:
            return None
        dims, keep, n = self.dims(v), self.random.random() < 0.6, v.name
        args = f"{dims}, keepdim={keep}"
        texts = [f"{n}.sum({args})", f"{n}.mean({args})", f"{n}.amax({args})", f"{n}.amin({args})", f"torch.logsumexp({n}, {args})",
                 f"torch.linalg.vector_norm({n}, dim={dims}, keepdim={keep})", f"{n}.sum()", f"{n}.mean()", f"{n}.max()"]  # fmt: skip
        if math.prod(v.shape[d] for d in dims) > 1:
            texts += [f"{n}.var({args})", f"(({n}.var({args}) + 0.01).sqrt())"]
        if math.prod(v.shape[d] for d in dims) < 20 and len(dims) == 1:
            texts += [f"{n}.prod({dims[0]}, keepdim={keep})"]
        pick = self.random.choice(texts)
        return pick, v.exact and ("amax" in pick or "amin" in pick or "max()" in pick)

    def _normalized(self) -> Any:
        v = self.some(floating=True, rank=1, filled=True)
        if v is None:
            return None
        d, n = self.random.randrange(len(v.shape)), v.name
        dims = self.dims(v)
        tail = list(v.shape[self.random.randrange(len(v.shape)) :])
        texts = [f"{n}.softmax({d})", f"{n}.log_softmax({d})", f"{n} - {n}.mean({dims}, keepdim=True)",
                 f"{n} / ({n}.abs().sum({dims}, keepdim=True) + 1)", f"{n} - {n}.amax({dims}, keepdim=True)"]  # fmt: skip
        if math.prod(tail) > 1:
            texts += [f"F.layer_norm({n}, {tail}, eps=0.1)", f"F.rms_norm({n}, {tail}, eps=0.1)"]
        return self.random.choice(texts), False

    def _extremum(self) -> Any:
        v = self.some(floating=True, exact=True, rank=1, filled=True)
        if v is None:
            return None
        d = self.random.randrange(len(v.shape))
        return f"{v.name}.{self.random.choice(['argmax', 'argmin'])}({d}, keepdim={self.random.random() < 0.5})", True

    def _cumulate(self) -> Any:
        v = self.some(floating=True, rank=1)
        return (f"{v.name}.cumsum({self.random.randrange(len(v.shape))})", False) if v else None

    def _view(self) -> Any:
        v = self.some(rank=1)
        if v is None:
            return None
        r, n, shape = self.random, v.name, list(v.shape)
        d = r.randrange(len(shape))
        size = shape[d]
        start, stop = sorted([r.randint(0, size), r.randint(0, size)])
        factor = next((k for k in r.sample([2, 3, 4, 5, 8, 16], 6) if size % k == 0 and size), 1)
        split = shape[:d] + [factor, size // factor] + shape[d + 1 :]
        lead = ", ".join([":"] * d)
        lead = lead + ", " if lead else ""
        texts = [
            f"{n}.permute({r.sample(range(len(shape)), len(shape))})", f"{n}.reshape({split})", f"{n}.reshape({split[:d] + split[d:][::-1]})",
            f"{n}.unsqueeze({r.randint(0, len(shape))})", f"{n}.flatten()", f"{n}[{lead}{start}:{stop}:{r.choice([1, 1, 1, 2, 3])}]",
            f"{n}.flip({d})", f"{n}.roll({r.randint(-3, 7)}, {d})", f"torch.cat([{n}, {n}], {d})", f"torch.stack([{n}, {n}], {d})",
            f"F.pad({n}, {r.choice([[1, 2], [0, 3], [2, 0]])}, value={r.choice(['0.5', '0'])})", f"{n}.transpose({d}, -1)",
            f"F.pad({n}, [-1, 1])", f"{n}.expand({[r.choice([2, 3, 5]), *shape]})", f"{n}.squeeze()", f"{n}.repeat({[r.choice([1, 2])] * len(shape)})",
        ]  # fmt: skip
        if size:
            texts += [
                f"{n}.select({d}, {r.randrange(-size, size)})",
                f"{n}.narrow({d}, {start}, {size - start})",
                f"{n}.chunk(2, {d})[0]",
            ]
        if len(shape) > 1:
            texts += [f"{n}.tril()", f"{n}.triu(1)", f"{n}.flatten({len(shape) - 2})", f"{n}.reshape({[shape[-1], -1]})"]
        if v.tensor.dtype is torch.bool:
            texts = [t for t in texts if "pad" not in t]
        return r.choice(texts), v.exact

    def _join(self) -> Any:
        v = self.some(rank=1)
        if v is None:
            return None
        d = self.random.randrange(len(v.shape))
        fits = [u for u in self.values if len(u.shape) == len(v.shape) and u.tensor.dtype == v.tensor.dtype
                and all(a == b for i, (a, b) in enumerate(zip(u.shape, v.shape, strict=True)) if i != d)]  # fmt: skip
        parts = self.random.choices(fits, k=self.random.randint(2, 4))
        return f"torch.cat([{', '.join(u.name for u in parts)}], {d})", all(u.exact for u in parts)

    def _indexed(self) -> Any:
        v = self.some(floating=True, rank=1, filled=True)
        if v is None:
            return None
        r, n, shape = self.random, v.name, list(v.shape)
        d = r.randrange(len(shape))
        count = r.choice([1, 2, 3, 7, 16, 33])
        match r.randint(0, 3):
            case 0:
                return f"{n}[{self.indices([count], shape[0])}]", v.exact
            case 1:
                i = self.add_input(torch.randint(0, shape[d], [count], generator=self.generator))
                return f"{n}.index_select({d}, {i})", v.exact
            case 2:
                wanted = [count if j == d else m for j, m in enumerate(shape)]
                if math.prod(wanted) > self.limit:
                    return None
                i = self.add_input(torch.randint(0, shape[d], wanted, generator=self.generator))
                return f"{n}.gather({d}, {i})", v.exact
        if len(shape) != 2:
            return None
        i = self.add_input(torch.randint(0, shape[0], [2, count], generator=self.generator))
        return f"F.embedding({i}, {n})", v.exact

    def _position(self) -> Any:
        v = self.some(floating=True, rank=1)
        if v is None:
            return None
        size = v.shape[-1]
        return self.random.choice([
            f"{v.name} * torch.arange({size}, dtype={v.name}.dtype) * 0.01", f"{v.name}.masked_fill(torch.arange({size}) > {size // 2}, 0.25)",
        ]), False  # fmt: skip

    def _product(self) -> Any:
        v = self.some(floating=True, rank=2)
        fits = [u for u in self.values if v and u.floating and len(u.shape) == 2 and u.shape[0] == v.shape[-1]]
        return (f"{v.name} @ {self.random.choice(fits).name}", False) if v and fits else None


_KINDS = {
    "unary": 10, "binary": 12, "mask": 2, "logic": 1, "where": 3, "integer": 1, "round": 1, "reduction": 6, "normalized": 4, "extremum": 1,
    "cumulate": 1, "view": 9, "join": 2, "indexed": 3, "position": 1, "product": 1,
}  # fmt: skip
_CHOICES = (list(_KINDS), list(_KINDS.values()))
