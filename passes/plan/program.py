"""Converts a planned and tiled module to a `core.program.Program`."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from torch_mlir import ir

from lamina.core.dtypes import FROM_MLIR
from lamina.core.errors import CompileError
from lamina.core.program import (
    ALIGNED,
    ITEM_BYTES,
    Buffer,
    BufferKind,
    Call,
    Constant,
    Device,
    Launch,
    Program,
    Ref,
    Step,
    TensorSpec,
    When,
)
from lamina.core.sizes import SizeLike
from lamina.dialects.graph import ON_COMPLEX
from lamina.kernels.library import may_alias

from ..ir.dense_bytes import dense_bytes
from ..ir.locations import model_ops, sources, where
from ..ir.reading import callee_of, name_of, ops_in
from ..ir.sizes import KERNEL_SIZES, layout_of, read_size, read_sizes, takes_values
from .operands import argument, as_complex, as_recognized, marked_complex, with_call_dtypes


def program_from(module: ir.Module, device: Device = "cpu", later: Collection[str] = ()) -> Program:
    """Returns the program of a module whose kernels carry `tile.grid`, `tile.bytes` and `tile.flops` (i64), as lamina-tile leaves
    them.

    For a GPU they also carry `tile.threads`, threads of one tile program, and where they are not 1 and 0 `tile.pack`, tile programs
    of a block, `tile.cluster`, blocks that work on one tile program, and `tile.shared`, bytes of dynamic shared memory of a block.
    later: kernels that are not in the module, as they are tiled when a call first needs them; a launch of theirs has no programs.
    Raises CompileError if the module has not been planned and tiled.
    """
    ops = ops_in(module.body)
    programs = [op for op in ops if op.name == "plan.program"]
    if len(programs) != 1:
        raise CompileError(f"{len(programs)} plan.program ops in the module, not one", remedy="run lamina-plan first")
    functions = {name_of(op): op for op in ops if op.name == "func.func"}
    return _Program(programs[0], functions, device, later).build()


def _when(launch: ir.Operation) -> tuple[When, ...]:
    given = [map(read_size, condition) for condition in launch.attributes["when"]] if "when" in launch.attributes else []
    return tuple(When(size, most) for size, most in given)


class _Program:
    """Translates the ops of one plan.program into steps."""

    def __init__(self, program: ir.Operation, functions: dict[str, ir.Operation], device: Device, later: Collection[str]) -> None:
        self.program = program
        self.later = later
        self.device: Device = device
        self.functions = functions
        self.refs: dict[ir.Value, Ref] = {}
        self.buffers: list[Buffer] = []
        self.inputs: dict[int, TensorSpec] = {}
        self.constants: list[Constant] = []
        self.steps: list[Step] = []
        self.owned = 0
        self.shared: dict[int, list[int]] = {}
        self.sizes: dict[tuple[tuple[SizeLike, ...], str], Ref] = {}

    def build(self) -> Program:
        """Returns the program. What it returns is never freed (`last` is -1)."""
        returned: tuple[Ref, ...] = ()
        for op in self.program.regions[0].blocks[0].operations:
            operation = op.operation
            if operation.name == "plan.return":
                returned = marked_complex(operation, [self.refs[value] for value in operation.operands])
            else:
                self._op(operation)
        for ref in returned:
            self.buffers[ref.buffer] = replace(self.buffers[ref.buffer], last=-1)
        return Program(
            arena_bytes=_int(self.program, "arena_bytes"),
            sum_bytes=_int(self.program, "sum_bytes"),
            lower_bound=_int(self.program, "lower_bound"),
            inputs=tuple(self.inputs[i] for i in range(len(self.inputs))),
            buffers=tuple(self.buffers),
            constants=tuple(self.constants),
            steps=tuple(self.steps),
            outputs=returned,
            name=name_of(self.program),
            device=self.device,
            sizes=tuple(sizes for sizes, _ in self.sizes),
        )

    def _op(self, op: ir.Operation) -> None:
        match op.name:
            case "plan.input":
                ref = self._buffer("input", op.result, _dtype(op), index=_int(op, "index"))
                if "complex" in op.attributes:
                    ref = as_complex(ref)
                self.inputs[_int(op, "index")] = TensorSpec(ref.dtype, ref.shape, ref.strides, self._align(op))
            case "plan.alloc":
                self._buffer("arena", op.result, _dtype(op), offset=_int(op, "offset"))
            case "plan.output":
                self._buffer("output", op.result, _dtype(op), index=_int(op, "index"))
            case "plan.constant":
                ref = self._buffer("constant", op.result, _dtype(op), index=len(self.constants))
                self.constants.append(Constant(ref.dtype, layout_of(op.result).shape, dense_bytes(op.attributes["value"])))
            case "plan.view":
                source = self.refs[op.operands[0]]
                layout = layout_of(op.result)
                offset = read_size(op.attributes["offset"]) * ITEM_BYTES[source.dtype] + source.offset
                self.refs[op.result] = Ref(source.buffer, offset, source.dtype, layout.shape, layout.strides)
            case "plan.launch":
                self._launch(op)
            case "plan.call":
                self._call(op)
            case "plan.kernel":
                self._kernel(op)
            case _:
                raise CompileError(f"{op.name} in a plan.program", where=where(op.location))

    def _align(self, op: ir.Operation) -> int:
        """Returns the alignment of an input's memory if only kernels compiled for it use it, else ALIGNED."""
        if "align" not in op.attributes:
            return ALIGNED
        waiting = [op.result]
        while waiting:
            for use in waiting.pop().uses:
                user = use.owner.operation
                if user.name == "plan.view":
                    waiting.append(user.result)
                elif user.name != "plan.launch" or not self._heeds_alignment(user.attributes["kernel"].value):
                    return ALIGNED
        return _int(op, "align")

    def _heeds_alignment(self, kernel: str) -> bool:
        return kernel in self.later or "tile.align" in self.functions[kernel].attributes

    def _buffer(self, kind: BufferKind, value: ir.Value, dtype: str, *, index: int = 0, offset: int = 0) -> Ref:
        layout = layout_of(value)
        self.buffers.append(Buffer(kind, index, offset, layout.span * ITEM_BYTES[dtype], len(self.steps)))
        self.refs[value] = Ref(len(self.buffers) - 1, 0, dtype, layout.shape, layout.strides)
        return self.refs[value]

    def _used(self, values: Sequence[ir.Value]) -> tuple[Ref, ...]:
        refs = tuple(self.refs[value] for value in values)
        for ref in refs:
            self._live(ref.buffer)
        return refs

    def _live(self, buffer: int) -> None:
        """Keeps a buffer, and those whose memory it may share, until the next step."""
        self.buffers[buffer] = replace(self.buffers[buffer], last=len(self.steps))
        for other in self.shared.get(buffer, ()):
            self._live(other)

    def _launch(self, op: ir.Operation) -> None:
        kernel = op.attributes["kernel"].value
        launch = Launch(
            kernel=kernel,
            args=self._used(op.operands),
            n_out=_int(op, "n_out"),
            grid=0,
            bytes=0,
            flops=0,
            name=op.attributes["label"].value if "label" in op.attributes else kernel,
            where=tuple(sources(op.location)),
            ops=tuple(model_ops(op.location)),
            inplace=tuple((pair[0], pair[1]) for pair in op.attributes.get("inplace", [])),
            when=_when(op),
        )
        self.steps.append(launch if kernel in self.later else self._tiled(launch, op))

    def _tiled(self, launch: Launch, op: ir.Operation) -> Launch:
        """Returns a launch with what the tile program says of it."""
        function = self.functions.get(launch.kernel)
        if function is None or "tile.grid" not in function.attributes:
            raise CompileError(
                f"the kernel @{launch.kernel} is not tiled", where=where(op.location), remedy="run lamina-tile first"
            )
        grid, threads, cluster, shared = _geometry(function, self.device)
        more = {key: read_size(function.attributes[f"tile.{key}"]) for key in ("bytes", "flops")} | self._sizes(function)
        dependent = "tile.dependent" in function.attributes
        return replace(launch, grid=grid, threads=threads, cluster=cluster, shared=shared, dependent=dependent, **more)

    def _sizes(self, function: ir.Operation) -> dict[str, Any]:
        """Returns how a launch passes the symbolic sizes that a kernel takes after its other arguments: by value to the GPU kernels
        of lamina-gpu-to-nvvm, in memory to others."""
        if KERNEL_SIZES not in function.attributes:
            return {}
        sizes = read_sizes(function.attributes[KERNEL_SIZES])
        dtype = str(ir.MemRefType(function.regions[0].blocks[0].arguments[-1].type).element_type)
        if takes_values(function):
            return {"sizes": sizes, "size_bytes": ITEM_BYTES[dtype]}
        if (sizes, dtype) not in self.sizes:
            self.sizes[sizes, dtype] = Ref(len(self.buffers), 0, dtype, (len(sizes),), (1,))
            self.buffers.append(Buffer("sizes", len(self.sizes) - 1, 0, ITEM_BYTES[dtype] * len(sizes), -1))
        return {"scratch": (self.sizes[sizes, dtype],)}

    def _call(self, op: ir.Operation) -> None:
        refs = self._used(op.operands)
        n_out = _int(op, "n_out")
        n_in = len(refs) - n_out
        ins = iter(marked_complex(op, with_call_dtypes(op, as_recognized(op, refs[:n_in]))))
        callee = callee_of(op).removeprefix(ON_COMPLEX)
        args = tuple(argument(a, ins) for a in op.attributes["args"])
        kwargs = tuple((named.name, argument(named.attr, ins)) for named in op.attributes["kwargs"])
        owned: list[Ref | None] = []
        dtypes = [d.value for d in op.attributes["dtypes"]] if "dtypes" in op.attributes else [_element(r) for r in op.results]
        results = iter(zip(op.results, dtypes, strict=True))
        tensors = list(op.attributes["tensors"]) if "tensors" in op.attributes else [True] * len(op.results)
        for tensor in tensors:
            if not tensor:
                owned.append(None)
                continue
            value, dtype = next(results)
            buffer = self._buffer("owned", value, dtype, index=self.owned)
            if may_alias(callee):
                self.shared[buffer.buffer] = [ref.buffer for ref in refs[:n_in]]
            owned.append(*marked_complex(op, [buffer], n_in + sum(r is not None for r in owned)))
            self.owned += 1
        reason, outs, name = op.attributes["reason"].value, refs[n_in:], callee.split(".")[1]
        self.steps.append(Call(callee, reason, args, kwargs, outs, tuple(owned), name, tuple(sources(op.location))))

    def _kernel(self, op: ir.Operation) -> None:
        refs, n_out = self._used(op.operands), _int(op, "n_out")
        ins, outs = tuple(with_call_dtypes(op, refs[: len(refs) - n_out])), refs[len(refs) - n_out :]
        kwargs = tuple((named.name, argument(named.attr, iter(()))) for named in op.attributes["kwargs"])
        callee = callee_of(op)
        self.steps.append(Call(callee, "kernel", ins, kwargs, outs, (), callee.split(".")[1], tuple(sources(op.location))))


def _geometry(function: ir.Operation, device: Device) -> tuple[SizeLike, int, int, int]:
    """Returns grid, threads, cluster and shared memory of a launch."""
    programs = read_size(function.attributes["tile.grid"])
    if device == "cpu":
        return programs, 0, 1, 0
    if "tile.ctas" in function.attributes:  # walks over its programs by itself
        return read_size(function.attributes["tile.ctas"]), _int(function, "tile.threads"), 1, 0
    pack, cluster = _int(function, "tile.pack", 1), _int(function, "tile.cluster", 1)
    threads = _int(function, "tile.threads") * pack * _int(function, "tile.teams", 1)
    return -(-programs // pack) * cluster, threads, cluster, _int(function, "tile.shared", 0)


def _element(value: ir.Value) -> str:
    return FROM_MLIR[str(ir.MemRefType(value.type).element_type)].name


def _dtype(op: ir.Operation) -> str:
    return op.attributes["dtype"].value if "dtype" in op.attributes else _element(op.result)


def _int(op: ir.Operation, name: str, default: int | None = None) -> int:
    if name not in op.attributes and default is not None:
        return default
    if name not in op.attributes:
        raise CompileError(f"{op.name} lacks the attribute {name}", where=where(op.location))
    return int(op.attributes[name].value)
