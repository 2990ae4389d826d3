"""Prints the control flow of Triton kernels: loops, branches, and kernels that call one of several functions."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch_mlir import ir

from lamina.passes.ir.reading import terminator

from .expressions import INDENT
from .memory import TritonMemory


class TritonLoops(TritonMemory):
    """Prints loops and branches of scf."""

    loops = 0

    def _body(self, block: ir.Block) -> None:
        raise NotImplementedError

    def _for(self, op: ir.Operation) -> None:
        """Prints a loop. A product's sums keep their variable: they are updated in place."""
        _, _, _, *inits = op.operands
        body = op.regions[0].blocks[0]
        _, *carried = body.arguments
        yielded = list(terminator(body).operands)
        for init, inner, out in zip(inits, carried, op.results, strict=True):
            name = "acc" if self.multiplies and "acc" not in self.names.values() else self._fresh()
            self._line(f"{name} = {self._block(init)}")
            self.names[inner] = self.names[out] = name
        for inner, value in zip(carried, yielded, strict=True):
            if self.multiplies and not isinstance(value, ir.BlockArgument) and _only_reader(inner, value.owner.operation):
                self.names[value] = self.names[inner]
        with self._inside(op):
            self._body(body)
            self._carry([self.names[c] for c in carried], [self._block(v) for v in yielded])

    @contextmanager
    def _inside(self, loop: ir.Operation) -> Iterator[None]:
        """Prints a loop's first line and what is printed meanwhile as its body."""
        counter = self._counter(loop)
        flight = self.config.stages > 1 and not self.multiplies
        bounds = ", ".join([*map(self._value, list(loop.operands)[:3]), *([f"num_stages={self.config.stages}"] if flight else [])])
        self._line(f"for {self.names[counter]} in {'tl.range' if flight else 'range'}({bounds}):")
        self.depth += 1
        outside = dict(self.lanes)
        if self.wide:
            self._set(counter, f"{self.names.pop(counter)} + tl.full([], 0, tl.int64)")
        yield
        self.depth -= 1
        self.lanes = outside

    def _counter(self, loop: ir.Operation) -> ir.Value:
        """Returns a loop's counter, which has a name from then on."""
        counter = loop.regions[0].blocks[0].arguments[0]
        if counter not in self.names:
            self.names[counter] = f"k{self.loops}" if self.loops else "k"
            self.loops += 1
        return counter

    def _carry(self, names: Sequence[str], texts: Sequence[str]) -> None:
        """Assigns the values that a loop's next iteration begins with. They go through temporaries where one is another's current
        name."""
        if not names:
            self._line("pass")
        changed = [(name, text) for name, text in zip(names, texts, strict=True) if name != text]
        if any(text in names for _, text in changed):
            kept = [(self._fresh(), text) for _, text in changed]
            self._assign(kept)
            changed = [(name, text) for (name, _), (text, _) in zip(changed, kept, strict=True)]
        self._assign(changed)

    def _assign(self, values: Sequence[tuple[str, str]]) -> None:
        for name, text in values:
            self._line(f"{name} = {text}")

    def _if(self, op: ir.Operation) -> None:
        """Prints the branches for a program that lies within one part of a concatenation, or stores where an index is in bounds."""
        for i, region in enumerate(op.regions):
            if i and len(region.blocks[0].operations) == 1:
                continue
            self._line(_branch(i, "" if i else self._value(op.operands[0])))
            self.depth += 1
            self._body(region.blocks[0])
            self.depth -= 1

    def _switch(self, op: ir.Operation) -> None:
        """Prints the selection of the buffers that a part of joined launches works on."""
        names = [self._name(v) for v in op.results]
        numbers = list(ir.DenseI64ArrayAttr(op.attributes["cases"]))
        default, *regions = op.regions
        for i, region in enumerate([*regions, default]):
            self._line(_branch(i, f"{self._value(op.operands[0])} == {numbers[i]}" if i < len(numbers) else ""))
            self.depth += 1
            self._assign([(name, self._value(v)) for name, v in zip(names, terminator(region.blocks[0]).operands, strict=True)])
            self.depth -= 1


def dispatch(name: str, parameters: str, first: Sequence[str], cases: Sequence[tuple[str, str]]) -> str:
    """Prints a kernel that makes the first call whose test holds, after lines that compute what is tested.

    cases  tests, "" for the last resort, and calls
    """
    lines = [*first]
    for i, (test, call) in enumerate(cases):
        lines += [_branch(i, test), f"{INDENT}{call}"]
    return "\n".join([f"@triton.jit\ndef {name}({parameters}):", *(INDENT + line for line in lines)])


def _branch(i: int, test: str) -> str:
    """Returns the first line of branch i, "" being the test of the last one."""
    return f"{'elif' if i else 'if'} {test}:" if test else "else:"


def _only_reader(v: ir.Value, op: ir.Operation) -> bool:
    return [use.owner.operation for use in v.uses] == [op]
