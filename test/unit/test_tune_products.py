"""Tests tuning of matrix products, without a GPU: its questions, and the effect of an answer on the program."""

import json
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import TARGET
from problems import LIBRARY, kernels_of, product_of, products
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.core.gpu import Gpu
from lamina.core.options import Options
from lamina.core.program import Call, Launch
from lamina.core.target import Target
from lamina.frontend.compiling import lowering, stages
from lamina.frontend.compiling.tuning import Session, choose_kernels
from lamina.frontend.decompositions.table import table
from lamina.frontend.entry.dynamo import autograd
from lamina.frontend.entry.export import inference_graph
from lamina.frontend.rewrites.normalize import normalize
from lamina.passes.families.choice import CHOICE, Choice
from lamina.passes.families.surroundings import calls
from lamina.passes.infra.pipeline import run
from lamina.passes.plan.program import program_from
from lamina.schedules.contraction import GemmConfig
from lamina.schedules.product_cost import GemmWork, candidates
from lamina.targets import backend
from lamina.targets.levels import pipeline
from lamina.tune import tuner
from lamina.tune.choice import TunedChoice
from lamina.tune.problems import modules
from lamina.tune.problems.parts import random_inputs
from lamina.tune.problems.subgraph_extraction import Subgraph
from lamina.tune.question import Answer, Identity, Question
from lamina.tune.store.store import Store

OURS = str(candidates(GemmWork(1, 80, 96, 64), Gpu.named("sm_90a"))[0])


def mlp(x: Tensor, w: Tensor, b: Tensor, v: Tensor, activation: Callable[[Tensor], Tensor] = F.gelu) -> Tensor:
    return activation(F.linear(x, w, b)) @ v


def inputs(dtype: torch.dtype = torch.bfloat16) -> tuple[Tensor, ...]:
    return tuple(torch.randn(*shape).to(dtype) for shape in ((2, 40, 64), (96, 64), (96,), (96, 64)))


def graph_level(*given: Tensor, layers: int = 1, fn: Callable[..., Tensor] = mlp) -> ir.Module:
    def model(x: Tensor, *weights: Tensor) -> list[Tensor]:
        for _ in range(layers):
            x = fn(x, *weights)
        return [x]

    with torch.no_grad():
        gm = make_fx(functionalize(model), decomposition_table=table(), tracing_mode="fake")(*given)
    module = stages.import_linalg(normalize(gm), Options())
    run(pipeline("linalg", "graph", target=TARGET), module)
    return module


def annotated(module: ir.Module, store: Store, tune: str = "cached") -> list[tuple[Question, Answer]]:
    heard: list[tuple[Question, Answer]] = []
    modules.annotate(module, backend(Target.parse(TARGET)), 0, Options(tune=tune), store, lambda q, a: heard.append((q, a)))  # type: ignore[arg-type]
    return heard


def test_an_answer_makes_the_product_ours(store: Store, here: Identity) -> None:
    module = graph_level(*inputs())
    first, second = calls(module)
    cut = Subgraph(product_of(module, first))
    assert cut.what.startswith("addmm 80x64 by 64x96 and ")
    store.put(Question(cut.key, cut.what, (LIBRARY, OURS), LIBRARY), here, Answer(OURS, ((OURS, 1e-5), (LIBRARY, 2e-5))))
    heard = annotated(module, store)
    assert [answer.winner for _, answer in heard] == [OURS, LIBRARY]
    with module.context:
        assert [str(Choice.of(op, (GemmConfig,))) for op in (first, second)] == [OURS, LIBRARY]
    run(pipeline("graph", "tile", target=TARGET), module)
    with module.context:
        kinds = [type(step) for step in program_from(module, "cuda").steps]
    assert kinds == [Launch, Call]


def test_sums_along_rows_are_asked_about(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def ours_first(question: Question, *_: object, **__: object) -> Answer:
        return Answer(next(name for name in question.candidates if name != LIBRARY))

    def relu_sum(x: Tensor, w: Tensor) -> Tensor:
        return torch.relu(x @ w + 1).sum(1)

    monkeypatch.setattr(tuner, "decide", ours_first)
    module = graph_level(torch.randn(256, 64).bfloat16(), torch.randn(64, 512).bfloat16(), fn=relu_sum)
    ((question, answer),) = annotated(module, store, "quick")
    assert question.what.startswith("mm 256x64 by 64x512 and ") and answer.winner != LIBRARY
    run(pipeline("graph", "tile", target=TARGET), module)
    with module.context:
        assert all(isinstance(step, Launch) for step in program_from(module, "cuda").steps)


def test_answers_are_candidates(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuner, "decide", lambda *_, **__: Answer("triton{m=16 n=16}"))
    with pytest.raises(CompileError, match=r"'triton\{m=16 n=16\}' is not a candidate of addmm 80x64 by 64x96"):
        annotated(graph_level(*inputs()), store, "quick")


def test_each_question_is_announced(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[object] = []

    def decided(question: Question, *_: object, again: bool, watch: Callable[[str, float], None], **__: object) -> Answer:
        watch("timing", 0.5)
        said.append(again)
        return Answer(LIBRARY, ((LIBRARY, 2e-5), (OURS, 1e-5)), pin=OURS)

    monkeypatch.setattr(tuner, "decide", decided)
    monkeypatch.setattr("lamina.tune.store.store.default_path", lambda: store.path)
    session = Session(
        again=True,
        asking=lambda what, number, of: said.append((what.partition(" ")[0], number, of)),
        watch=lambda stage, share: said.append((stage, share)),
        answered=lambda choice: said.append(choice),
    )
    choices = choose_kernels(graph_level(*inputs()), backend(Target.parse(TARGET)), 0, Options(tune="full"), session)
    first, second = choices
    assert said == [("addmm", 1, 2), ("timing", 0.5), True, first, ("mm", 2, 2), ("timing", 0.5), True, second]
    assert first.chosen == OURS and first.pinned and [name for name, _ in first.seconds] == [OURS, LIBRARY]
    assert TunedChoice.from_json(json.loads(json.dumps(first.to_json()))) == first


def test_equal_surroundings_are_one_question(store: Store) -> None:
    one, other, bigger = (
        graph_level(*inputs()),
        graph_level(*inputs()),
        graph_level(*(torch.cat([x, x]) for x in inputs()[:1]), *inputs()[1:]),
    )
    keys = [[Subgraph(b).key for b in products(m)] for m in (one, other, bigger)]
    assert keys[0] == keys[1] and keys[0][0] != keys[0][1] and not set(keys[0]) & set(keys[2])


def test_answers_hold_for_these_kernels_of_ours(store: Store, here: Identity) -> None:
    """Not for kernels that round in other places."""
    module = graph_level(*inputs())
    problem = products(module)[0]
    cut, rounded = Subgraph(problem), Subgraph(problem, True)
    assert cut.key != rounded.key and Subgraph(problem).key == cut.key
    other = str(candidates(GemmWork(1, 80, 96, 64), Gpu.named("sm_90a"))[1])
    store.put(Question(rounded.key, cut.what, (LIBRARY, other), LIBRARY), here, Answer(other))
    assert other not in {answer.winner for _, answer in annotated(module, store)}


def test_a_pair_is_one_question(store: Store, here: Identity) -> None:
    """For products that share their left factor and meet in one group; in the library's case it computes both."""

    def swiglu(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
        return F.silu(x @ w) * (x @ v)

    given = tuple(torch.randn(*shape).bfloat16() for shape in ((80, 64), (64, 96), (64, 96)))
    module = graph_level(*given, fn=swiglu)
    (problem,) = products(module)
    cut = Subgraph(problem)
    assert len(problem.ops) == 2 and cut.what.startswith("2 x mm 80x64 by 64x96 and silu")
    assert [len(random_inputs(Subgraph(b), torch.device("cpu"))) for b in products(module)] == [3]
    ours = str(candidates(GemmWork(1, 80, 96, 64, products=2), Gpu.named("sm_90a"))[0])
    store.put(Question(cut.key, cut.what, (LIBRARY, ours), LIBRARY), here, Answer(ours, ((ours, 1e-5), (LIBRARY, 2e-5))))
    assert [answer.winner for _, answer in annotated(module, store)] == [ours]
    run(pipeline("graph", "tile", target=TARGET), module)
    with module.context:
        assert [type(step) for step in program_from(module, "cuda").steps] == [Launch]


@pytest.mark.parametrize(
    ("m", "n", "k", "first", "kinds"),
    [
        (4096, 8192, 4096, "first ", [Call, Launch]),
        (8192, 8192, 4096, "", [Call, Call, Launch]),
        (1024, 3072, 768, "triton", [Launch]),
    ],
)
def test_half_of_a_pair_may_be_the_default(
    m: int, n: int, k: int, first: str, kinds: list[type], store: Store, here: Identity
) -> None:
    """The other product is then an operand of a product that is worth a kernel of its own."""
    with FakeTensorMode():
        given = [torch.empty(*shape, dtype=torch.bfloat16) for shape in ((m, k), (k, n), (k, n))]
        module = graph_level(*given, fn=lambda x, w, v: F.gelu(x @ w) * (x @ v))
    (problem,) = products(module)
    names, default = kernels_of(problem, Gpu.named("sm_90a"))
    assert default[: len(first)] == first and (default in names) == bool(first) == bool(default)
    store.put(Question("another", "another", (LIBRARY, OURS)), here, Answer(OURS))
    assert [answer.winner for _, answer in annotated(module, store)] == [default or LIBRARY]
    run(pipeline("graph", "tile", target=TARGET), module)
    with module.context:
        assert [type(step) for step in program_from(module, "cuda").steps] == kinds


def test_layers_are_asked_about_once() -> None:
    """Groups that compute the same have names that differ by a number. A value inside the first, such as an empty tensor, may be
    an operand of later ones."""
    module = graph_level(*inputs(), layers=3)
    _, down, up, *last = map(Subgraph, products(module))
    assert up.key.startswith("addmm 80x64 by 64x96 and ") and down.key.startswith("mm ")
    assert [cut.key for cut in last] == [down.key, up.key, down.key]


def test_an_empty_store_changes_nothing(store: Store, here: Identity) -> None:
    module = graph_level(*inputs())
    assert annotated(module, store) == [] and all(CHOICE not in op.attributes for op in calls(module))
    assert not store.path.exists() and store.state(here) == ""


def test_state_follows_the_answers(store: Store, here: Identity) -> None:
    question = Question("key", "what", (LIBRARY, OURS))
    store.put(question, here, Answer(OURS))
    first = store.state(here)
    store.put(question, here, Answer(LIBRARY))
    assert first and store.state(here) not in ("", first)
    assert store.state(Identity("another", "versions")) == ""


def test_off_does_not_look(store: Store, here: Identity) -> None:
    module = graph_level(*inputs())
    cut = Subgraph(products(module)[0])
    store.put(Question(cut.key, cut.what, (LIBRARY, OURS)), here, Answer(OURS))
    assert annotated(module, store, "off") == []


def test_products_of_f32_are_not_asked_about(store: Store, here: Identity) -> None:
    store.put(Question("key", "what", (LIBRARY, OURS)), here, Answer(OURS))
    assert annotated(graph_level(*inputs(torch.float32)), store) == []


def test_inputs_lie_as_they_will(store: Store) -> None:
    module = graph_level(*inputs())
    cut = Subgraph(products(module)[0])
    made = random_inputs(cut, torch.device("cpu"))
    assert [tuple(x.shape) for x in made] == [(96,), (80, 64), (64, 96)]
    assert [x.stride() for x in made] == [(1,), (64, 1), (1, 64)] and made[1].std() > 0.5


def test_layers_and_entry_points_ask_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command asks the same questions for a model as torch.compile, and equal layers ask once."""
    asked: list[list[str]] = []

    def noted(module: ir.Module, *_: object) -> tuple[TunedChoice, ...]:
        asked.append([Subgraph(problem).key for problem in products(module)])
        return ()

    monkeypatch.setattr(lowering, "choose_kernels", noted)
    layer = torch.nn.Sequential(torch.nn.LayerNorm(64), torch.nn.Linear(64, 96), torch.nn.GELU(), torch.nn.Linear(96, 64))
    model = torch.nn.Sequential(layer, layer, torch.nn.LayerNorm(64)).bfloat16().eval()
    (x, *_) = inputs()
    options = Options(cache=False)
    stages.build(inference_graph(model, (x,)), options=options, target=TARGET)

    def through_dynamo(gm: torch.fx.GraphModule, given: list[Tensor]) -> object:
        return autograd(gm, given, options=options, target=TARGET, compile=built)

    def built(gm: torch.fx.GraphModule, **_: object) -> object:
        stages.build(gm, options=options, target=TARGET)
        return gm

    with torch.no_grad():
        torch.compile(model, backend=through_dynamo)(x)
    by_export, by_dynamo = asked
    assert by_export == by_dynamo
    assert by_export[0] == by_export[2] and by_export[1] == by_export[3]


def test_convolutions_are_asked_about(store: Store, here: Identity) -> None:
    """With the layout that their images will have, also of images that a kernel computes; unmeasured, the library is kept."""

    def net(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
        return F.conv2d(F.max_pool2d(F.relu(F.conv2d(x, w, padding=1)), 2), v)

    shapes = ((2, 16, 9, 11), (24, 16, 3, 3), (40, 24, 1, 1))
    module = graph_level(*(torch.randn(s).bfloat16().contiguous(memory_format=torch.channels_last) for s in shapes), fn=net)
    one, other = products(module)
    cuts = Subgraph(one), Subgraph(other)
    assert [c.what.partition(" and ")[0] for c in cuts] == [
        "convolution 2x16x9x11 by 24x16x3x3",
        "convolution 2x24x4x5 by 40x24x1x1",
    ]
    for cut in cuts:
        assert all(x.is_contiguous(memory_format=torch.channels_last) for x in random_inputs(cut, torch.device("cpu")))
    (ours, *_), default = kernels_of(one, Gpu.named("sm_90a"))
    assert default == "" and kernels_of(other, Gpu.named("sm_90a"))[0]
    question = Question(cuts[0].key, cuts[0].what, (LIBRARY, ours), LIBRARY)
    store.put(question, here, Answer(ours, ((ours, 1e-5), (LIBRARY, 2e-5))))
    assert [answer.winner for _, answer in annotated(module, store)] == [ours, LIBRARY]
    run(pipeline("graph", "tile", target=TARGET), module)
    with module.context:
        kinds = [type(step) for step in program_from(module, "cuda").steps]
    assert kinds == [Launch, Launch, Call]
