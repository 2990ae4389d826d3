"""Tests tuning spaces of custom kernels without a GPU: questions, the effect of answers, and what is measured."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from cpu_clock import CpuClock
from custom_kernels import TARGET, planned, scaled_add, scaled_add_of
from test_custom_epilogues import hooked_kernel
from torch import Tensor
from torch_mlir import ir

import lamina
from lamina.core.errors import CompileError
from lamina.core.gpu import Gpu
from lamina.core.options import Options, Tune
from lamina.core.program import Call, Launch, Program
from lamina.core.target import Target
from lamina.dialects import context
from lamina.frontend.compiling import stages, tuning
from lamina.frontend.compiling.lowering import run_passes
from lamina.frontend.entry.export import inference_graph
from lamina.frontend.rewrites.normalize import normalize
from lamina.passes.families.choice import Choice
from lamina.passes.families.custom.family import CustomConfig, CustomFamily, CustomProblem
from lamina.passes.plan.program import program_from
from lamina.targets import Artifact, backend
from lamina.targets.kernel_calls.user import take
from lamina.tune import tuner
from lamina.tune.problems import modules, parts
from lamina.tune.problems.subgraph_extraction import Subgraph
from lamina.tune.question import Answer, Identity, Question
from lamina.tune.store.store import Store

CONFIGS = [{"BLOCK": 128, "num_warps": 4}, {"BLOCK": 512, "num_warps": 8}, {"BLOCK": 1024, "num_warps": 2}]
NAMES = ("BLOCK=128 num_warps=4", "BLOCK=512 num_warps=8", "BLOCK=1024 num_warps=2")
HERE = Identity("a GPU, 132 SMs", "versions")


def tuned_of(**changes: Any) -> lamina.CustomKernel:
    return scaled_add_of(**{"constants": {}, "configs": CONFIGS, **changes})


def graph_level(fn: Callable[..., Any], *inputs: Tensor, kernel: lamina.CustomKernel | None = None) -> ir.Module:
    """A module that still calls users' kernels."""
    options = Options(kernels=(kernel or tuned_of(),))
    module = stages.import_linalg(normalize(inference_graph(fn, inputs, options, TARGET)), options)
    run_passes(module, "linalg", "graph", Target.parse(TARGET), options)
    return module


def problems(module: ir.Module) -> list[CustomProblem]:
    with module.context:
        return list(CustomFamily().problems(module))


def annotated(module: ir.Module, store: Store, tune: Tune) -> list[tuple[Question, Answer]]:
    heard: list[tuple[Question, Answer]] = []
    options = Options(kernels=(tuned_of(),), tune=tune)
    clocked = partial(tuner.tune, clock=CpuClock())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(modules, "tune", clocked)
        modules.annotate(module, backend(Target.parse(TARGET)), 0, options, store, lambda q, a: heard.append((q, a)))
    return heard


def calls(module: ir.Module) -> list[Call]:
    """The calls of the program."""
    run_passes(module, "graph", "tile", Target.parse(TARGET), Options())
    with module.context:
        return [step for step in program_from(module, "cuda").steps if isinstance(step, Call)]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(Identity, "of_gpu", staticmethod(lambda index: HERE))
    return Store(tmp_path / "store.json")


def test_without_an_answer_the_first_is_taken() -> None:
    x = torch.randn(2048)
    _, program, (kernel,) = planned(scaled_add, [x, x], [tuned_of()])
    assert isinstance(program.steps[0], Launch) and program.steps[0].grid == 16 and kernel.warps == 4


def test_an_answer_of_the_store_is_followed(store: Store) -> None:
    """Memory that is aligned to 16 bytes and memory that is not are different questions."""
    x = torch.randn(2048)
    module = graph_level(lambda x: torch.relu(scaled_add(x[4:1028], x[:1024])) + scaled_add(x[1:1025], x[:1024]), x)
    first, second = map(Subgraph, problems(module))
    assert first.what == "scaled_add_kernel f32 1024, f32 1024, f32 1024" == second.what and first.key != second.key
    store.put(Question(first.key, first.what, NAMES, NAMES[0]), HERE, Answer(NAMES[1]))
    heard = annotated(module, store, "cached")
    assert [(question.candidates, answer.winner) for question, answer in heard] == [(NAMES, NAMES[1]), (NAMES, NAMES[0])]
    given = [dict(call.kwargs) for call in calls(module)]
    assert [said["warps"] for said in given] == [8, 4] and given[0]["grid"] == (2, 1, 1) and "alternatives" not in given[0]


def test_what_is_measured(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each config is a separate program, compiled to a cubin. Here torch runs them, the last one wrongly."""
    made: list[tuple[int, int, int]] = []

    def load(self: parts.BuiltCandidate, program: Program, artifact: Artifact) -> None:
        (launch,) = program.steps
        assert isinstance(launch, Launch) and artifact.kernels == ("custom_scaled_add_kernel",) and len(program.outputs) == 1
        made.append((launch.grid, launch.threads, launch.args[0].offset))

    def run(self: parts.BuiltCandidate) -> list[Tensor]:
        (x,) = self.inputs
        return [x[1:1025] + x[:1024] + (str(self.choice) == NAMES[2])]

    monkeypatch.setattr(parts.BuiltCandidate, "load", load)
    monkeypatch.setattr(parts.BuiltCandidate, "run", run)
    monkeypatch.setattr(modules, "random_inputs", lambda part, device: parts.random_inputs(part, torch.device("cpu")))
    module = graph_level(lambda x: scaled_add(x[1:1025], x[:1024]), torch.randn(2048))
    ((_, answer),) = annotated(module, store, "full")
    assert sorted(made) == [(1, 64, 4), (2, 256, 4), (8, 128, 4)]
    assert answer.winner in NAMES[:2] and [name for name, _ in answer.dropped] == [NAMES[2]]


def test_memory_of_what_is_measured() -> None:
    """Operands have the strides that the kernel is written for, and dtypes that MLIR types do not distinguish; the epilogue is
    included, through reshapes."""
    x = torch.randint(255, (8, 6), dtype=torch.uint8)
    by_columns = graph_level(lambda x: scaled_add(x.t().contiguous(), x.t().contiguous()), x)
    assert [tuple(map(list, m[1:])) for m in Subgraph(*problems(by_columns)).memory] == [([6, 8], [8, 1])]
    bytes_ = graph_level(lambda x: scaled_add(x, x), x)
    part = Subgraph(*problems(bytes_))
    assert part.memory[0][0] == "u8" and 'graph.dtype = "u8"' in part.text
    rows = graph_level(lambda x: scaled_add(x[:4], x[:4]), x.float())
    assert "tensor.extract_slice" in Subgraph(*problems(rows)).text
    hook = tuned_of(kernel=hooked_kernel, epilogue=("epilogue", "operands"))
    y = torch.randn(8, 6)
    module = graph_level(lambda y: (v := scaled_add(y, y), torch.relu(v.flatten() + y.flatten())), y, kernel=hook)
    (problem,) = problems(module)
    part = Subgraph(problem)
    assert part.what == "hooked_kernel f32 8x6, f32 8x6 and add_relu" and len(problem.results) == 2
    with module.context, ir.Location.unknown():
        alone = ir.Module.parse(part.text)
        part.mark(alone, problem.candidates(Gpu.named("sm_90a"))[1])
        assert '"custom{config=BLOCK=512 num_warps=8}"' in str(alone)
    (call,) = calls(alone)
    assert dict(call.kwargs)["warps"] == 8 and "epilogue" in dict(call.kwargs) and len(call.outs) == 2


def test_a_part_of_a_tensor_of_symbolic_size() -> None:
    """The kernel is measured with memory of its own."""
    with context(), ir.Location.unknown():
        module = ir.Module.parse("""
        func.func @main(%x: tensor<?x8xf32, ["s0~64", 8]>) -> tensor<16x8xf32> {
          %0 = tensor.extract_slice %x[4, 0] [16, 8] [1, 1] : tensor<?x8xf32, ["s0~64", 8]> to tensor<16x8xf32>
          %1 = "graph.kernel"(%0) {
            callee = "lamina.kernel.default", kwargs = {alternatives = "{\\"N=1\\": {}}", hook = "", name = "k"},
            needs = [array<i64: 8, 1>], strides = [array<i64: 8, 1>]
          } : (tensor<16x8xf32>) -> tensor<16x8xf32>
          return %1 : tensor<16x8xf32>
        }""")
        part = Subgraph(*problems(module))
    assert [(element, list(shape)) for element, shape, _ in part.memory] == [("f32", [16, 8])] and "extract_slice" not in part.text


def test_a_group_is_asked_about_with_the_last_of_its_kernels() -> None:
    hook = tuned_of(kernel=hooked_kernel, epilogue=("epilogue", "operands"))
    x = torch.randn(64)
    module = graph_level(lambda x: scaled_add(x, x) * scaled_add(x, x, 0.5), x, kernel=hook)
    first, second = problems(module)
    assert first.group is None and second.group is not None


def test_compilations_ask(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(tuner, "CudaClock", lambda index: CpuClock())
    x = torch.randn(64)
    module = graph_level(scaled_add, x, x)
    (part,) = map(Subgraph, problems(module))
    store.put(Question(part.key, part.what, NAMES, NAMES[0]), HERE, Answer(NAMES[2]))
    told: list[str] = []
    session = tuning.Session(store, answered=lambda choice: told.append(choice.chosen))
    kernels = (tuned_of(),)
    none = tuning.choose_kernels(module, backend(Target.parse(TARGET)), 0, Options(kernels=kernels, tune="off"), session)
    far = tuning.choose_kernels(module, backend(Target.parse(TARGET)), None, Options(kernels=kernels), session)
    assert none == far == ()
    (choice,) = tuning.choose_kernels(module, backend(Target.parse(TARGET)), 0, Options(kernels=kernels), session)
    assert told == [NAMES[2]] == [choice.chosen]
    run_passes(module, "graph", "tile", Target.parse(TARGET), Options())
    with module.context:
        program, _ = take(program_from(module, "cuda"), kernels, Gpu.named("sm_90a"))
    assert [s.threads for s in program.steps if isinstance(s, Launch)] == [64]


def test_another_config_is_refused() -> None:
    x = torch.randn(64)
    module = graph_level(scaled_add, x, x)
    with module.context:
        Choice(CustomConfig("BLOCK=1")).write(problems(module)[0].op)
    with pytest.raises(CompileError, match="BLOCK=1 cannot compute this: it has the configs BLOCK=128 num_warps=4, BLOCK=512"):
        calls(module)


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ([{"BLOCK": 1}, {"BLOK": 1}], "no parameter 'BLOK'"),
        ([{"BLOCK": 1}, {"BLOCK": 2, "num_warps": 4}], "configs.0. names .'BLOCK'., another .'BLOCK', 'num_warps'."),
        ([{"BLOCK": 1}, {"BLOCK": 1}], "two of its configs are the same"),
        ([{"BLOCK": 1, "num_warps": 3}], "num_warps must be a power of two"),
        ([{"num_warps": 4}], "grid takes 'BLOCK', which nobody gives it"),
    ],
)
def test_errors(configs: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(CompileError, match=message):
        tuned_of(configs=configs)
