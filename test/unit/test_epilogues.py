"""Tests which convolutions get an epilogue, without a GPU, and their values."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gpu_programs
import pytest
import torch
import torch.nn.functional as F
from oracle import compare
from torch import Tensor, fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.core.gpu import Gpu
from lamina.core.options import Options
from lamina.core.program import Call, Launch, Program, Ref
from lamina.core.target import Target
from lamina.frontend.compiling.stages import build, import_linalg
from lamina.frontend.decompositions.table import table
from lamina.frontend.rewrites.normalize import normalize
from lamina.passes.families import select
from lamina.passes.families.conv.calls import channels_last
from lamina.passes.families.surroundings import calls as calls_of
from lamina.passes.families.vendor.routine import VendorSchedule
from lamina.passes.infra.pipeline import run
from lamina.targets.levels import pipeline

FUSED, PLAIN = "aten.cudnn_convolution_relu.default", "aten.convolution.default"
BF16, F16 = torch.bfloat16, torch.float16
GPU = "nvvm:sm_90a"
Function = Callable[..., Any]
IMAGE, WEIGHT, CHANNELS = (2, 16, 14, 14), (32, 16, 3, 3), (32,)
NORM = (IMAGE, WEIGHT, CHANNELS, CHANNELS, CHANNELS, CHANNELS)


def given(*shapes: tuple[int, ...], dtype: torch.dtype = BF16, device: str = "cpu") -> list[Tensor]:
    return [
        torch.randn(shape).to(dtype).to(device) if device == "cpu" else torch.empty(shape, dtype=dtype, device=device)
        for shape in shapes
    ]


def traced(fn: Function, *shapes: tuple[int, ...], dtype: torch.dtype = BF16, device: str = "cuda") -> fx.GraphModule:
    with FakeTensorMode():
        return make_fx(fn, decomposition_table=table())(*given(*shapes, dtype=dtype, device=device))


def graph_level(gm: fx.GraphModule, target: str = GPU, **options: Any) -> ir.Module:
    """Returns the module before kernels are selected."""
    module = import_linalg(normalize(gm), Options(strict=True, **options))
    run(pipeline("linalg", "graph", target=target, **options), module)
    return module


def selected(fn: Function, *shapes: tuple[int, ...], dtype: torch.dtype = BF16, device: str = "cuda", **options: Any) -> ir.Module:
    """Returns the module after kernels were selected."""
    module = graph_level(traced(fn, *shapes, dtype=dtype, device=device), GPU if device == "cuda" else "cpu", **options)
    text = f"lamina-select-kernels{{target={GPU} round-intermediates={str(bool(options)).lower()}}}"
    run(f"builtin.module({text if device == 'cuda' else 'lamina-select-kernels'})", module)
    return module


def names(module: ir.Module) -> list[str]:
    """Returns the library routines that are called."""
    return [ir.StringAttr(op.attributes["callee"]).value for op in calls_of(module)]


def is_channels_last(op: ir.Operation) -> bool:
    return list(ir.DenseI64ArrayAttr(op.attributes["strides"][0]))[1] == 1


def norm(x: Tensor, mean: Tensor, var: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.batch_norm(x, mean, var.abs() + 0.1, weight, bias)


def block(x: Tensor, w: Tensor, *of: Tensor) -> Tensor:
    return F.relu(norm(F.conv2d(x, w, padding=1), *of))


def after(x: Tensor) -> Tensor:
    """Calls a library op for which `x` must be in memory."""
    return F.conv2d(x, x.new_ones(8, x.shape[1], 1, 1))


def biased(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return after(F.conv2d(x, w, b, stride=2, padding=1).relu())


def frozen(x: Tensor, w: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Computes a norm as detectors write it."""
    return after(F.relu(F.conv2d(x, w) * scale.reshape(1, -1, 1, 1) + shift.reshape(1, -1, 1, 1)))


def both(x: Tensor, w: Tensor, b: Tensor, *of: Tensor) -> Tensor:
    return after(F.relu(norm(F.conv2d(x, w, b, dilation=2), *of)))


def reversed_operands(x: Tensor, w: Tensor, a: Tensor, b: Tensor) -> Tensor:
    y = F.conv2d(x, w)
    return after(F.relu(a.view(-1, 1, 1) * (b.view(-1, 1, 1) + y) - b.view(1, -1, 1, 1)))


def plain(x: Tensor, w: Tensor) -> Tensor:
    return after(F.conv2d(x, w).relu())


TAKEN: dict[str, tuple[Function, tuple[tuple[int, ...], ...]]] = {
    "norm": (lambda *a: after(block(*a)), NORM),
    "bias": (biased, (IMAGE, WEIGHT, CHANNELS)),
    "frozen norm": (frozen, (IMAGE, WEIGHT, CHANNELS, CHANNELS)),
    "bias and norm": (both, (IMAGE, WEIGHT, CHANNELS, *NORM[2:])),
    "reversed operands": (reversed_operands, (IMAGE, WEIGHT, CHANNELS, CHANNELS)),
    "nothing between": (plain, (IMAGE, WEIGHT)),
    "a product, through views": (
        lambda x, w, b, v: F.conv2d(x, w, b).relu().permute(0, 2, 3, 1).reshape(-1, 32) @ v,
        (IMAGE, WEIGHT, CHANNELS, (32, 8)),
    ),
    "groups elsewhere": (
        lambda x, w, b, v: F.conv2d(F.conv2d(x, w, b).relu(), v, groups=2),
        (IMAGE, WEIGHT, CHANNELS, (32, 16, 1, 1)),
    ),
}


@pytest.mark.parametrize("name", TAKEN)
def test_a_convolution_takes_what_follows(name: str) -> None:
    fn, shapes = TAKEN[name]
    module = selected(fn, *shapes)
    first, *rest = names(module)
    assert first == FUSED and FUSED not in rest and is_channels_last(calls_of(module)[0])


@pytest.mark.parametrize("name", TAKEN)
def test_nothing_is_taken_where_values_are_to_be_rounded_as_eager_does(name: str) -> None:
    fn, shapes = TAKEN[name]
    assert FUSED not in names(selected(fn, *shapes, round_intermediates=True))


def test_tuning_measures_it() -> None:
    """Against Lamina's kernels and the library's call alone, neither of which is the default."""
    module, target = graph_level(traced(biased, IMAGE, WEIGHT, CHANNELS)), Target.parse(GPU)
    with module.context, ir.Location.unknown():
        problem = next(p for family in select.FAMILIES for p in family.problems(module))
        found = [str(c) for c in select.candidates(problem, target)]
        assert found.count("vendor{routine=cudnn}") == 1 < len(found)
        assert str(select.default(problem, target)) == "vendor{routine=cudnn}" != str(select.default(problem, target, rounds=True))
        assert "vendor{routine=cudnn}" not in map(str, select.candidates(problem, target, rounds=True))
        select.LIBRARY.write(problem.ops[0])
    run(f"builtin.module(lamina-select-kernels{{target={GPU}}})", module)
    assert FUSED not in names(module)


def test_a_choice_is_followed_or_refused() -> None:
    """Also if the fused call is not the default: the ops after it round the result once more, in another layout."""
    for options, message in (({}, ""), ({"round_intermediates": True}, "vendor{routine=cudnn} cannot compute this")):
        module = graph_level(traced(lambda x, w, b: F.conv2d(x, w, b).relu(), IMAGE, WEIGHT, CHANNELS), **options)
        with module.context:
            select.Choice(VendorSchedule("cudnn")).write(calls_of(module)[0])
        text = f"builtin.module(lamina-select-kernels{{target={GPU} round-intermediates={str(bool(options)).lower()}}})"
        if message:
            with pytest.raises(CompileError, match=re.escape(message)):
                run(text, module)
        else:
            run(text, module)
            assert names(module) == [FUSED]


def test_a_bias_is_taken_as_it_is_given() -> None:
    module = selected(biased, IMAGE, WEIGHT, CHANNELS)
    first, _ = calls_of(module)
    assert isinstance(bias := first.operands[2], ir.BlockArgument) and bias.arg_number == 2
    assert str(first.attributes["args"]) == "[unit, unit, unit, [2, 2], [1, 1], [1, 1], 1]"


def residual(x: Tensor, w: Tensor, *of: Tensor) -> Tensor:
    y = norm(F.conv2d(x, w, padding=1), *of)
    return after(F.relu(y + torch.cat([x, x], 1)))


def used_twice(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    y = F.conv2d(x, w, b)
    return after(y.relu()) + after(y)


LEFT: dict[str, tuple[Function, tuple[tuple[int, ...], ...], torch.dtype, str]] = {
    "on the CPU": (biased, (IMAGE, WEIGHT, CHANNELS), BF16, "cpu"),
    "f32": (biased, (IMAGE, WEIGHT, CHANNELS), torch.float32, "cuda"),
    "a weight in f16 to be scaled": (lambda *a: after(block(*a)), NORM, F16, "cuda"),
    "a residual": (residual, NORM, BF16, "cuda"),
    "used twice": (used_twice, (IMAGE, WEIGHT, CHANNELS), BF16, "cuda"),
    "another activation": (lambda x, w, b: after(F.hardswish(F.conv2d(x, w, b))), (IMAGE, WEIGHT, CHANNELS), BF16, "cuda"),
    "pooled, which reads it once": (lambda x, w, b: F.max_pool2d(F.conv2d(x, w, b).relu(), 2), (IMAGE, WEIGHT, CHANNELS), BF16, "cuda"),
    "returned with the channels first": (lambda x, w, b: F.conv2d(x, w, b).relu(), (IMAGE, WEIGHT, CHANNELS), BF16, "cuda"),
    "few channels, not filled up": (biased, ((2, 7, 14, 14), (8, 7, 2, 2), (8,)), BF16, "cuda"),
    "one dimension": (
        lambda x, w, b: F.conv1d(F.conv1d(x, w, b).relu(), w.transpose(0, 1)), ((2, 16, 14), (32, 16, 3), CHANNELS), BF16, "cuda",
    ),
    "transposed": (lambda x, w, b: after(F.conv_transpose2d(x, w, b).relu()), (IMAGE, (16, 32, 3, 3), CHANNELS), BF16, "cuda"),
    "groups": (lambda x, w, b: after(F.conv2d(x, w, b, groups=2).relu()), (IMAGE, (32, 8, 3, 3), CHANNELS), BF16, "cuda"),
    "a number per pixel": (lambda x, w, p: after((F.conv2d(x, w) + p).relu()), (IMAGE, WEIGHT, (12, 12)), BF16, "cuda"),
    "batch statistics": (
        lambda x, w: after(F.relu(F.batch_norm(F.conv2d(x, w), None, None, training=True))), (IMAGE, WEIGHT), BF16, "cuda",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT)
def test_what_stays(name: str) -> None:
    fn, shapes, dtype, device = LEFT[name]
    found = names(selected(fn, *shapes, dtype=dtype, device=device))
    assert found and FUSED not in found


def test_what_is_returned_with_channels_last_is_taken() -> None:
    gm = traced(lambda x, w, b: F.conv2d(x, w, b).relu(), IMAGE, WEIGHT, CHANNELS)
    for node in gm.graph.nodes:  # as a torch with cuDNN has it
        value = node.meta.get("val")
        if isinstance(value, Tensor) and value.dim() == 4:
            node.meta["val"] = value.new_empty_strided(value.shape, channels_last(tuple(value.shape)))
    module = graph_level(gm)
    run(f"builtin.module(lamina-select-kernels{{target={GPU}}})", module)
    (only,) = calls_of(module)
    assert names(module) == [FUSED] and is_channels_last(only)


def test_a_large_weight_is_not_scaled_for_a_small_image() -> None:
    def last(x: Tensor, w: Tensor, *of: Tensor) -> Tensor:
        return after(F.relu(norm(F.conv2d(x, w), *of)))

    channels = (2048,)
    shapes = (1, 2048, 7, 7), (2048, 2048, 1, 1), channels, channels, channels, channels
    assert names(selected(last, *shapes))[0] == PLAIN
    many = (64, *shapes[0][1:]), *shapes[1:]
    assert names(selected(last, *many))[0] == FUSED
    gpu, module = Target.parse(GPU), graph_level(traced(last, *shapes))
    slow = replace(gpu, model=replace(Gpu.named("sm_90a"), launch=1e-3))  # where each launch costs, one fewer pays
    with module.context, ir.Location.unknown():
        problem = next(p for family in select.FAMILIES for p in family.problems(module))
        assert [str(select.default(problem, target)) for target in (gpu, slow)] == ["library", "vendor{routine=cudnn}"]


@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize("name", TAKEN)
def test_numbers(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    fn, shapes = TAKEN[name]
    inputs = given(*shapes, dtype=dtype)
    program = gpu_programs.Simulated(*gpu_programs.distributed(fn, inputs, products="model"))
    assert any(isinstance(s, Call) and s.callee == FUSED for s in program.program.steps) or dtype is F16
    with gpu_programs.cudnn_by_definition():
        compare(fn, inputs, program(*inputs))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 1), nn.ReLU()
        )
        self.last = nn.Conv2d(64, 32, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.layers(x + 1))


def compiled(model: nn.Module, *shape: int) -> Program:
    state = dict(model.eval().to(BF16).state_dict())

    def fn(x: Tensor, *values: Tensor) -> Any:
        return torch.func.functional_call(model, dict(zip(state, values, strict=True)), (x,))

    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        inputs = [torch.empty(shape, dtype=BF16, device="cuda")]
        inputs += [torch.empty_strided(v.shape, v.stride(), dtype=v.dtype, device="cuda") for v in state.values()]
        gm = make_fx(fn, decomposition_table=table())(*inputs)
    return build(gm, options=Options(strict=True, cache=False, tune="off"), target=GPU).program


def test_what_is_left_of_a_model() -> None:
    """Two fused calls on channels-last images, a weight that Lamina's kernel writes in cuDNN's layout, and no kernel in between."""
    program = compiled(Block(), 8, 16, 28, 28)
    made = [s for s in program.steps if isinstance(s, Call)]
    assert [s.callee for s in made] == ["aten.cudnn_convolution_relu.default"] * 2 + ["aten.convolution.default"]
    assert {s.reason for s in made} == {"library"}
    for call in made:
        image = call.args[0]
        assert isinstance(image, Ref) and image.strides[1] == 1
    scaled = made[0].args[1]
    assert isinstance(scaled, Ref) and scaled.strides == (144, 1, 48, 16)
    between = program.steps[program.steps.index(made[0]) : program.steps.index(made[2])]
    assert not any(isinstance(step, Launch) for step in between)
