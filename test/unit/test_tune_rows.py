"""Tests tuning of programs that reduce rows, without a GPU: its questions, the effect of an answer on the program, and that every
candidate computes the same."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import TARGET, Simulated, distribute
from test_tune_decide import Bench, Fake
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.core.gpu import Gpu
from lamina.core.options import Options
from lamina.core.program import Program
from lamina.core.target import Target
from lamina.frontend.calls.interface import Interface, with_outputs
from lamina.frontend.compiling import lowering, stages
from lamina.frontend.compiling.tuning import Session, choose_kernels
from lamina.frontend.decompositions.table import table
from lamina.frontend.rewrites.normalize import normalize
from lamina.passes.families import choice as choices
from lamina.passes.families.choice import ROWS, Choice
from lamina.passes.infra.pipeline import run
from lamina.passes.plan.launches import layouts
from lamina.passes.plan.program import program_from
from lamina.passes.tile.row_programs import RowProblem, work_of
from lamina.schedules.nvvm_rows import RowKernel, row_reduction
from lamina.schedules.rows import KINDS, LEAST_BYTES, MODEL, RowWork, Simt, Triton, candidates
from lamina.schedules.text import read
from lamina.targets import Backend, backend
from lamina.targets.levels import pipeline
from lamina.targets.module import keep_kernels
from lamina.targets.triton import text as triton_text
from lamina.tune import tuner
from lamina.tune.problems import modules
from lamina.tune.problems.parts import BuiltCandidate, random_inputs
from lamina.tune.problems.row_programs import RowPart
from lamina.tune.question import Answer, Identity, Question
from lamina.tune.store.store import Store

BF16 = torch.bfloat16
HOPPER, AMPERE = Gpu.named("sm_90a"), Gpu.named("sm_80")
Function = Callable[..., Any]


def planned(fn: Function, inputs: Sequence[Tensor], target: str = TARGET) -> tuple[ir.Module, Interface]:
    def flat(*tensors: Tensor) -> list[Tensor]:
        out = fn(*tensors)
        return list(out) if isinstance(out, tuple | list) else [out]

    with torch.no_grad():
        gm = make_fx(functionalize(flat), decomposition_table=table(), tracing_mode="fake")(*inputs)
    graph = normalize(gm)
    module = stages.import_linalg(graph, Options(strict=True))
    run(pipeline("linalg", "plan", target=target), module)
    return module, graph.interface


def fake(fn: Function, *shapes: tuple[int, ...], dtype: torch.dtype = BF16, target: str = TARGET) -> ir.Module:
    with FakeTensorMode():
        return planned(fn, [torch.empty(*shape, dtype=dtype) for shape in shapes], target)[0]


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


def kernels(module: ir.Module) -> list[ir.Operation]:
    return [o.operation for o in module.body.operations if "graph.kernel" in o.operation.attributes]


def schedules(module: ir.Module) -> list[str]:
    with module.context:
        return [str(Choice.of(k, KINDS, ROWS) or "") for k in kernels(module)]


def annotated(module: ir.Module, store: Store, tune: str = "cached") -> list[tuple[Question, Answer]]:
    heard: list[tuple[Question, Answer]] = []
    modules.annotate(module, backend(Target.parse(TARGET)), 0, Options(tune=tune), store, lambda q, a: heard.append((q, a)))  # type: ignore[arg-type]
    return heard


def by_triton(question: Question, *_: object, **__: object) -> Answer:
    return Answer(next(name for name in question.candidates if name.startswith("triton")))


# -- what is asked, and what an answer does


def test_an_answer_is_the_schedule(store: Store, here: Identity, monkeypatch: pytest.MonkeyPatch) -> None:
    """It applies to every launch of its program, and the store then contains it."""
    module = fake(softmax, (4096, 4096))
    monkeypatch.setattr(tuner, "decide", by_triton)
    ((question, answer),) = annotated(module, store, "quick")
    assert question.what.endswith(" 4096x4096 bf16") and question.reference == question.candidates[0] == MODEL
    assert schedules(module) == [answer.winner] == ["triton{n=0 warps=8}"]
    monkeypatch.undo()
    monkeypatch.setattr(Identity, "of_gpu", staticmethod(lambda index: here))
    other = question.candidates[1]
    store.put(question, here, Answer(other, ((other, 1e-5), (MODEL, 2e-5))))
    module = fake(softmax, (4096, 4096))
    assert [a.winner for _, a in annotated(module, store)] == [other] and schedules(module) == [other]
    store.put(question, here, Answer(MODEL, ((other, 2e-5), (MODEL, 1e-5))))
    module = fake(softmax, (4096, 4096))
    assert [a.winner for _, a in annotated(module, store)] == [MODEL] and schedules(module) == [""]


def test_what_is_measured_is_chosen_and_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fastest candidate with correct results is chosen; the second time the store answers."""
    bench = Bench()
    monkeypatch.setattr(tuner, "CudaClock", lambda index: bench)
    monkeypatch.setattr(modules, "random_inputs", lambda part, device: [])
    monkeypatch.setattr(modules, "BuiltCandidate", lambda part, choice, *_: bench.make(str(choice)))
    _, wrong, triton, *_, last = names = names_of(asked_of("softmax", "sm_90a")[1][0][1], HOPPER)
    bench.fakes = {wrong: Fake(0.1, torch.zeros(4)), triton: Fake(0.5), last: Fake(0.2)}
    ((_, answer),) = annotated(module := fake(softmax, (4096, 4096)), store, "quick")
    assert schedules(module) == [answer.winner] == [triton] and bench.compiled == list(names[:3])
    assert dict(answer.dropped)[wrong].startswith("wrong numbers") and answer.times == ((MODEL, 1.0), (triton, 0.5))
    bench.compiled.clear()
    for tune, wanted in (("quick", triton), ("cached", triton), ("off", ""), ("full", last), ("cached", last)):
        annotated(module := fake(softmax, (4096, 4096)), store, tune)
        assert schedules(module) == [wanted] and bool(bench.compiled) == (wanted == last)


def test_equal_programs_are_one_question(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The question is named for the first of them and asked once. A program that computes something else, or rounds elsewhere, is
    another question."""

    def several(x: Tensor, y: Tensor, z: Tensor) -> list[Tensor]:
        return [softmax(x), softmax(y), torch.log_softmax(z, -1), x.sum(0)]

    asked: list[tuple[int, int]] = []
    module = fake(several, *[(2048, 4096)] * 3)
    monkeypatch.setattr(tuner, "decide", by_triton)
    monkeypatch.setattr("lamina.tune.store.store.default_path", lambda: store.path)
    session = Session(asking=lambda what, number, of: asked.append((number, of)))
    choices = choose_kernels(module, backend(Target.parse(TARGET)), 0, Options(tune="full"), session, 3)
    assert asked == [(4, 5), (5, 5)] and len(choices) == 2 and len([s for s in schedules(module) if s]) == 2
    again = [fake(softmax, (2048, 4096)) for _ in range(3)]
    one, same, rounded = (RowPart(first(m), rounds).key for m, rounds in zip(again, (False, False, True), strict=True))
    assert one == same != rounded


def first(module: ir.Module) -> RowProblem:
    kernel, *_ = kernels(module)
    types = layouts(module)[ir.StringAttr(kernel.attributes["sym_name"]).value]
    return RowProblem(kernel, types, RowWork(row_reduction(RowKernel(4096, 8, 4096, 132), 8), 4096, 4096, False, True, 0))


def names_of(work: RowWork, gpu: Gpu) -> tuple[str, ...]:
    return (MODEL, *map(str, candidates(work, gpu)))


@pytest.mark.parametrize("tune", ["off", "cached"])
def test_nothing_is_asked_for_nothing(tune: str, store: Store) -> None:
    assert annotated(module := fake(softmax, (4096, 4096)), store, tune) == [] and schedules(module) == [""]


def test_small_programs_and_others_are_not_asked_about(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuner, "decide", by_triton)
    for fn in (lambda x: x[:128].softmax(-1), lambda x: x.sum(0), lambda x: x + 1, lambda x: x.cumsum(-1)):
        assert annotated(fake(fn, (2048, 4096)), store, "quick") == []


def test_a_part_runs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel runs with its launch parameters and memory of its own: bools are bytes, and what it writes in place is
    elsewhere."""
    module, _ = planned(lambda x, m: torch.where(m, softmax(x), 0), [torch.randn(5, 40), torch.rand(5, 40) > 0.5])
    loaded: list[Program] = []

    class Loaded:
        def __init__(self, program: Program, artifact: object) -> None:
            loaded.append(program)

        def load(self, index: int) -> None: ...

    monkeypatch.setattr("lamina.tune.problems.parts.Executable", Loaded)
    with module.context:
        part = RowPart(first(module), False)
    inputs = random_inputs(part, torch.device("cpu"))
    assert sorted(str(x.dtype) for x in inputs) == ["torch.bool", "torch.float32"]
    for choice in (choices.MODEL, Choice(Simt(threads=64)), Choice(Triton(warps=1))):
        BuiltCandidate(part, choice, backend(Target.parse(TARGET)), Options(), module.context, inputs).compile()
    model, ours, triton = loaded
    assert [len(p.steps) for p in loaded] == [1, 1, 1] and model.inputs == ours.inputs == triton.inputs
    assert model.steps != ours.steps and not any(step.inplace for p in loaded for step in p.steps)  # type: ignore[union-attr]


def test_a_compilation_asks(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tuning runs between the plan and the programs, when layouts are known."""
    monkeypatch.setattr(tuner, "decide", by_triton)
    monkeypatch.setattr("lamina.tune.store.store.default_path", lambda: store.path)
    monkeypatch.setattr(lowering, "may_choose", lambda gpu, options: options.tune != "off")

    def rows_alone(module: ir.Module, target: Backend, gpu: int, options: Options, session: Session, before: int = -1) -> Any:
        return () if before < 0 else choose_kernels(module, target, 0, options, session, before)

    monkeypatch.setattr(lowering, "choose_kernels", rows_alone)
    with FakeTensorMode(), torch.no_grad():
        gm = make_fx(lambda x: [softmax(x)], decomposition_table=table())(torch.empty(4096, 4096, dtype=BF16))
    tuned, off = (stages.build(gm, options=Options(cache=False, tune=tune), target=TARGET) for tune in ("quick", "off"))
    assert [c.chosen for c in tuned.choices] == ["triton{n=0 warps=8}"] and off.choices == ()
    assert [step.threads for built in (tuned, off) for step in built.program.steps] == [256, 128]  # type: ignore[union-attr]


def test_inputs_may_be_spread() -> None:
    """A row that is broadcast to all rows is one row in a measurement's memory, too."""
    module, _ = planned(lambda x, y: softmax(x + y), [torch.randn(1, 4096).expand(64, 4096), torch.randn(64, 4200)[:, :4096]])
    before = torch.get_rng_state()
    with module.context:
        x, y = random_inputs(RowPart(first(module), False), torch.device("cpu"))
    assert torch.equal(torch.get_rng_state(), before)  # the model's next numbers are what they were without tuning
    assert x.stride() == (0, 1) and y.stride() == (4200, 1) and x.std() > 0.5 and y.std() > 0.5


# -- candidates

SHAPES: dict[str, tuple[Function, list[tuple[int, ...]], torch.dtype]] = {
    "softmax": (softmax, [(4096, 4096)], BF16),
    "long softmax": (softmax, [(2048, 128256)], torch.float32),
    "cross entropy": (lambda x: torch.logsumexp(x, -1), [(4096, 128256)], BF16),
    "norm": (lambda x, y, w, b: F.layer_norm(x + y, (768,), w, b), [(8192, 768)] * 2 + [(768,)] * 2, BF16),
    "groups": (lambda x, w, b: F.group_norm(x, 32, w, b), [(16, 320, 64, 64), (320,), (320,)], BF16),
    "odd": (softmax, [(4096, 3001)], BF16),
}


def asked_of(name: str, arch: str) -> tuple[ir.Module, list[tuple[ir.Operation, RowWork]]]:
    """Returns a module, and its programs that tuning asks about."""
    fn, shapes, dtype = SHAPES[name]
    module = fake(fn, *shapes, dtype=dtype, target=f"nvvm:{arch}")
    launched = layouts(module)
    found = [
        (k, work_of(k, launched[ir.StringAttr(k.attributes["sym_name"]).value], Gpu.named(arch), False)) for k in kernels(module)
    ]
    return module, [(k, w) for k, w in found if w is not None and w.moved >= LEAST_BYTES]


@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
def test_candidates_are_few_and_can_be(arch: str) -> None:
    """Candidates differ from each other and all compile to a cubin; the first to be tried spill at most one register."""
    for name in SHAPES:
        _module, ((kernel, work),) = asked_of(name, arch)
        names = names_of(work, Gpu.named(arch))
        assert names[0] == MODEL and len(set(names)) == len(names) <= 9
        assert {"simt", "triton"} == {n.partition("{")[0] for n in names[:3]} and len(names) > 3
        assert arch == "sm_90a" or not any("cluster=" in n and "cluster=1 " not in n for n in names)
        texts = names[1:3] if name in ("softmax", "long softmax", "odd") else ()
        for text in texts:
            (need,) = backend(Target.parse(f"nvvm:{arch}")).compile(alone(kernel, text, arch)).resources
            assert need.spill_stores <= 4


def alone(kernel: ir.Operation, text: str, arch: str) -> ir.Module:
    with kernel.context, ir.Location.unknown():
        module = ir.Module.create()
        Choice(read(text, KINDS)).write(kernel.clone(ip=ir.InsertionPoint(module.body)))
        run(f"builtin.module(lamina-tile{{target=nvvm:{arch}}})", module)
    return module


def test_what_the_model_takes_is_no_other_candidate() -> None:
    work = RowWork(row_reduction(RowKernel(4096, 8, 4096, 132), 8), 4096, 4096, walks=False, whole=True, moved=1 << 26)
    assert read("simt{threads=128}", KINDS).config(4096, 8) == work.config
    assert "simt{threads=128 chunks=0 cluster=1 resident=0}" not in names_of(work, HOPPER)
    assert candidates(replace(work, moved=LEAST_BYTES - 1), HOPPER) == ()
    for text in ("simt{threads=96}", "triton{n=100}", "simt{m=64}", "rows", "triton{stages=0}"):
        with pytest.raises(CompileError):
            read(text, KINDS)
    assert all(str(read(c, KINDS)) == c for c in names_of(work, AMPERE)[1:])


# -- values

SPREAD = (
    "simt{threads=16}",
    "simt{threads=1024}",
    "simt{threads=64 chunks=2}",
    "simt{threads=32 chunks=1 cluster=4 resident=2}",
    "simt{threads=32 cluster=16}",
    "simt{threads=128 cluster=2}",
)
WHOLE, PIECES = "triton{warps=4}", "triton{n=512 warps=2 stages=3}"


def r(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape).to(dtype)


CASES: dict[str, tuple[Function, list[Tensor]]] = {
    "softmax": (softmax, [r(2, 3072)]),
    "odd": (lambda a: torch.log_softmax(a, -1), [r(2, 2999, dtype=BF16)]),
    "norm": (lambda a, b, w, c: F.layer_norm(a + b, w.shape, w, c), [r(2, 1, 2000), r(2, 1, 2000), r(2000), r(2000)]),
    "loss": (lambda a: torch.logsumexp(a, -1), [r(2, 5000, dtype=BF16)]),
    "groups": (lambda a, w, c: F.group_norm(a, 2, w, c), [r(1, 8, 16, 20), r(8), r(8)]),
}


TRITON = [("softmax", PIECES), ("odd", WHOLE), ("norm", WHOLE), ("norm", PIECES), ("loss", PIECES), ("groups", PIECES)]


@pytest.mark.parametrize(("name", "text"), [*((name, text) for name in CASES for text in SPREAD), *TRITON])
def test_values(name: str, text: str) -> None:
    fn, inputs = CASES[name]
    (found,) = computed(fn, inputs, text)
    exact, bound = fn(*(a.double() for a in inputs)), 1e-2 if BF16 in {a.dtype for a in inputs} else 1e-5
    torch.testing.assert_close(found.double(), exact, rtol=bound, atol=bound)


def computed(fn: Function, inputs: Sequence[Tensor], text: str) -> list[Tensor]:
    """Computes by the simulator or Triton's interpreter."""
    module, interface = planned(fn, inputs)
    with module.context:
        for kernel in kernels(module):
            Choice(read(text, KINDS)).write(kernel)
    run(pipeline("plan", "tile", target=TARGET), module)
    with module.context:
        program = with_outputs(program_from(module, "cuda"), interface)
    keep_kernels(module)
    printed = triton_text.take(module, descriptors=True)
    assert bool(printed) == text.startswith("triton")
    if not printed:
        distribute(module)
    return Simulated(module, program, printed)(*inputs)


def test_numbers_that_are_not_stay_so() -> None:
    x = torch.tensor([[1.0, float("nan"), 3.0] * 400, [float("-inf")] * 1200, [float("inf")] + [0.0] * 1199])
    for text in ("simt{threads=32 chunks=1 cluster=2}", "triton{n=512 warps=2 stages=2}"):
        (found,) = computed(softmax, [x], text)
        torch.testing.assert_close(found, softmax(x), equal_nan=True)
