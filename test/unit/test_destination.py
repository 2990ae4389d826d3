"""Tests the choice of the target from fake tensors of a GPU: tracing, choosing and planning need no GPU."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from lamina.core import program_json
from lamina.core.errors import CompileError
from lamina.core.options import Options
from lamina.core.program import Call, Launch, Program
from lamina.core.program_json import codec
from lamina.core.target import Target
from lamina.frontend.calls.call import adapt
from lamina.frontend.calls.interface import Interface
from lamina.frontend.compiling.lowering import run_passes
from lamina.frontend.compiling.stages import build, import_linalg
from lamina.frontend.decompositions.table import table
from lamina.frontend.fx.aliases import ViewResult
from lamina.frontend.fx.destination import check_devices, check_name, destination_of
from lamina.frontend.rewrites.normalize import normalize
from lamina.passes.plan.program import program_from

aten = torch.ops.aten
HEADS = (2, 4, 128, 64)


def traced(
    fn: Callable[..., Any], *shapes: tuple[int, ...], devices: tuple[str, ...] = (), dtype: torch.dtype = torch.float32
) -> fx.GraphModule:
    """Returns the graph of a function of tensors on "cuda", or on these devices."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        inputs = [torch.empty(s, device=d, dtype=dtype) for s, d in zip(shapes, devices or ["cuda"] * len(shapes), strict=True)]
        return make_fx(fn, decomposition_table=table())(*inputs)


def planned(gm: fx.GraphModule) -> Program:
    """Returns its program with the CPU's kernels: importing and planning are the same for a GPU."""
    graph = normalize(gm)
    check_devices(graph.gm)
    module = import_linalg(graph, Options())
    run_passes(module, "linalg", "tile", Target.parse("cpu"), Options())
    with module.context:
        return program_from(module)


def test_the_tensors_say_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: {0: (9, 0), 1: (8, 0)}[index])
    goal = destination_of(None, traced(torch.sin, (4,)))
    assert (str(goal.target), goal.device, goal.gpu) == ("nvvm:sm_90a", "cuda", 0)
    other = destination_of(None, traced(torch.sin, (4,), devices=("cuda:1",)))
    assert (str(other.target), other.gpu) == ("nvvm:sm_80", 1) and other.identity != goal.identity
    here = destination_of(None, traced(torch.sin, (4,), devices=("cpu",)))
    assert (str(here.target), here.device, here.gpu) == ("cpu", "cpu", None)
    assert destination_of(None, traced(lambda: torch.ones(3, device="cuda"))).gpu == 0
    assert destination_of(None, traced(lambda: torch.ones(3))).device == "cpu"


def test_code_for_another_device() -> None:
    assert destination_of("nvvm:sm_90a", traced(torch.sin, (4,), devices=("cpu",))).device == "cuda"
    with pytest.raises(CompileError, match="target 'cpu' is the CPU, but the model's tensors are on cuda:0"):
        destination_of("cpu", traced(torch.sin, (4,)))
    with pytest.raises(CompileError, match="no target is called 'tpu'.*nvvm:ARCH"):
        check_name("tpu")
    with pytest.raises(CompileError, match="nvvm"):
        check_name("nvvm")
    with pytest.raises(CompileError, match="sm_70 is too old"):
        check_name("nvvm:sm_70")
    with pytest.raises(CompileError, match="tensors are on meta.*CPU and for NVIDIA"):
        destination_of(None, traced(torch.sin, (4,), devices=("meta",)))


def test_torch_without_nvidia(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(CompileError, match="not NVIDIA's"):
        destination_of(None, traced(torch.sin, (4,)))


@pytest.mark.parametrize(
    ("fn", "shapes", "devices", "message"),
    [
        (lambda x, y: (x + 1, y + 1), ((4,), (4,)), ("cuda", "cpu"), "argument y_1 is on cpu, other tensors on cuda:0.*one device"),
        (lambda x, y: (x + 1, y + 1), ((4,), (4,)), ("cuda:0", "cuda:1"), "argument y_1 is on cuda:1, other tensors on cuda:0"),
        (lambda x: x.cpu() + 1, ((4,),), ("cuda",), "the result of aten.add.Tensor is on cpu"),
        (lambda x: x + torch.rand(4).to(x.device), ((4,),), ("cuda",), "the result of aten.rand.* is on cpu"),
        (lambda x: x + torch.special.airy_ai(x.cpu()).sum(), ((4,),), ("cuda",), "is on cpu, other tensors on cuda:0"),
    ],
)
def test_mixed_devices_are_named(fn: Any, shapes: Any, devices: Any, message: str) -> None:
    graph = normalize(traced(fn, *shapes, devices=devices))
    with pytest.raises(CompileError, match=message):
        check_devices(graph.gm)


def test_mixed_devices_are_refused_before_anything_is_compiled() -> None:
    gm = traced(lambda x, y: (x + 1, y + 1), (4,), (4,), devices=("cpu", "cuda"))
    with pytest.raises(CompileError, match="argument y_1 is on cuda:0, other tensors on cpu"):
        build(gm, options=Options(cache=False))


def test_constants_and_values_in_between_may_be_anywhere() -> None:
    def fn(x: Tensor) -> Tensor:
        return x * torch.tensor(2.0) + torch.arange(3).sum() + x.cpu().sum()

    assert not [step for step in planned(traced(fn, (4,))).steps if isinstance(step, Call)]


NUMBERS: dict[str, Callable[..., Any]] = {
    "set items": lambda x: torch.index_put(x, (torch.tensor([0, 1], device=x.device),), torch.tensor(2.0)),
    "filled": lambda x: aten.fill.Tensor(x, torch.tensor(2.0)) + x,
    "taken by an external call": lambda x: torch.special.zeta(x, torch.tensor(2.0)),
    "several": lambda x: torch.lerp(x, x * torch.tensor(2.0), torch.tensor(3.0)),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_the_cpu_go_with_tensors_of_a_gpu(name: str) -> None:
    check_devices(normalize(traced(NUMBERS[name], (4,))).gm)


ARGUMENTS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[str, ...], tuple[int, ...]]] = {
    "a factor": (lambda x, y: x * y, ((4,), ()), ("cuda", "cpu"), (1,)),
    "first": (lambda y, x: torch.where(x > 0, y, x), ((), (4,)), ("cpu", "cuda"), (0,)),
    "of a GPU": (lambda x, y: x * y, ((4,), ()), ("cuda", "cuda"), ()),
    "taken there": (lambda x, y: x * y.to(x.device), ((4,), (4,)), ("cuda", "cpu"), (1,)),
    "all of the CPU": (lambda x, y: x * y, ((4,), ()), ("cpu", "cpu"), ()),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_numbers_among_arguments_are_copied_at_every_call(name: str) -> None:
    fn, shapes, devices, moved = ARGUMENTS[name]
    graph = normalize(traced(fn, *shapes, devices=devices))
    check_devices(graph.gm)
    assert graph.interface.moved == moved
    assert codec(Interface).read(codec(Interface).write(graph.interface)) == graph.interface


def test_an_adapter_copies_what_the_program_wants_on_its_gpu() -> None:
    class Given:
        is_cuda = False
        device = torch.device("cpu")

        def to(self, device: torch.device, non_blocking: bool) -> str:
            assert non_blocking
            return f"copied to {device}"

    class OnGpu(Given):
        is_cuda, device = True, torch.device("cuda:1")

    view = ViewResult("result", 0, 0, torch.float32, (4,), (1,))
    seen: list[Any] = []
    adapt(lambda args: (seen.extend(args),), Interface(2, (0, 1), (), (view,), (1,)), ())(OnGpu(), Given())
    assert seen[1] == "copied to cuda:1" and isinstance(seen[0], OnGpu)


ATTENTION = {
    "flash": (aten._scaled_dot_product_flash_attention, (0.0, True)),
    "efficient": (aten._scaled_dot_product_efficient_attention, (None, True, 0.0, True)),
    "cudnn": (aten._scaled_dot_product_cudnn_attention, (None, True, 0.0, True)),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_of_gpus_stays_whole(name: str) -> None:
    function, rest = ATTENTION[name]
    program = planned(traced(lambda q, k, v: function(q, k, v, *rest)[0] * 2, *[HEADS] * 3, dtype=torch.bfloat16))
    call, _ = program.steps
    assert isinstance(call, Call) and call.reason == "library" and call.args[-1] is True
    assert program.buffers[call.owned[0].buffer].last == 1  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_backward_takes_what_forward_gave(name: str) -> None:
    """This includes the seeds, some of which are u64."""

    def fn(q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> Any:
        function, rest = ATTENTION[name]
        out, lse, *more = function(q, k, v, *rest)
        if name == "flash":
            cq, ck, mq, mk, seed, offset, _ = more
            return aten._scaled_dot_product_flash_attention_backward(g, q, k, v, out, lse, cq, ck, mq, mk, 0.0, True, seed, offset)
        if name == "efficient":
            mask = [True, True, True, False]
            return aten._scaled_dot_product_efficient_attention_backward(g, q, k, v, None, out, lse, *more, 0.0, mask, True)[:3]
        cq, ck, mq, mk, seed, offset, _ = more
        return aten._scaled_dot_product_cudnn_attention_backward(
            g, q, k, v, out, lse, seed, offset, None, cq, ck, mq, mk, 0.0, True
        )

    program = planned(traced(fn, *[HEADS] * 4, dtype=torch.bfloat16))
    forward, backward = program.steps
    assert isinstance(forward, Call) and isinstance(backward, Call)
    seeds = [r for r in forward.owned if r is not None and r.dtype in ("i64", "u64")]
    assert len(seeds) == 2 and all(seed in backward.args for seed in seeds)
    assert program_json.loads(program_json.dumps(program)) == program


def test_convolutions_are_library_calls() -> None:
    program = planned(
        traced(
            lambda x, w: aten.convolution(x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1).relu(), (2, 4, 8, 8), (3, 4, 3, 3)
        )
    )
    assert [step.reason for step in program.steps if isinstance(step, Call)] == ["library"]


@pytest.mark.parametrize("given", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_gradients_of_softmax_never_reach_torchs_kernels(given: torch.dtype, dtype: torch.dtype) -> None:
    """On a GPU these accept only some pairs of dtypes ("expected input and grad types to match")."""

    def fn(g: Tensor, y: Tensor) -> Any:
        return aten._softmax_backward_data(g, y, -1, dtype), aten._log_softmax_backward_data(g, y, -1, dtype)

    gm = traced(fn, (4, 8), (4, 8), dtype=given)
    assert not [step for step in planned(gm).steps if isinstance(step, Call)]


def test_random_numbers_that_are_not_ours_are_torchs() -> None:
    program = planned(traced(lambda x: x + torch.randn_like(x, dtype=torch.float64), (64,)))
    assert [s.callee for s in program.steps if isinstance(s, Call)] == ["aten.randn_like.default"]


def test_a_program_for_a_gpu_is_built_without_one() -> None:
    built = build(traced(lambda x: (x + 1).relu(), (64, 64)), target="nvvm:sm_90a", options=Options(cache=False))
    assert built.program.device == "cuda" and built.code.startswith(b"\x7fELF") and built.gpu == 0
    (launch,) = built.program.steps
    assert isinstance(launch, Launch) and launch.kernel in built.kernels
    assert launch.threads % 32 == 0 and launch.grid >= 1
    calls = build(traced(torch.mm, (64, 64), (64, 64)), target="nvvm:sm_90a", options=Options(cache=False))
    assert calls.code == b"" and calls.kernels == ()
