"""Tests lamina.explain and the parts of its report."""

import json
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import lamina
from lamina.core.device import host
from lamina.core.options import Tune
from lamina.core.program import Buffer, Call, Device, Launch, Program, Ref, TensorSpec
from lamina.report import roofline
from lamina.report.amounts import amount
from lamina.report.collect import graph
from lamina.report.explanation import Explanation, Peaks, Unfused
from lamina.report.measure import best
from lamina.tune.choice import TunedChoice

LIBRARY, OURS = "library", "triton{m=128 n=128 k=64 warps=4 stages=3 group=8 resident=0}"
PEAKS = Peaks("somecpu", 2, 10e9, 100e9)


def activation(x: Tensor, w: Tensor) -> Tensor:
    return torch.sigmoid(torch.relu(x * w))  # line 24


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(19, 33)

    def forward(self, x: Tensor) -> Tensor:
        return self.up(x).relu() + 1


def explain(model: object, inputs: object, **kwargs: object) -> Explanation:
    return lamina.explain(model, inputs, show=False, **kwargs)


@pytest.fixture(scope="module", autouse=True)
def peaks() -> object:
    """Skips the measurement of the machine's peaks, which takes time."""
    patch = pytest.MonkeyPatch()
    patch.setattr("lamina.frontend.entry.explain_backend.peaks", lambda again=False: PEAKS)
    yield
    patch.undo()


def test_a_fused_kernel_names_its_ops_lines_and_bytes() -> None:
    found = explain(activation, (torch.randn(37, 19), torch.randn(19)))
    (kernel,) = found.kernels
    assert kernel.ops == ("aten.mul.Tensor", "aten.relu.default", "aten.sigmoid.default")
    assert {place.rpartition(":")[0] for place in kernel.where} == {__file__}
    line = activation.__code__.co_firstlineno + 1
    assert [int(place.rpartition(":")[2]) for place in kernel.where] == [line]
    assert kernel.bytes == 4 * (2 * 37 * 19 + 19)
    assert kernel.flops > 37 * 19 and kernel.intensity == kernel.flops / kernel.bytes


def test_kernels_carry_the_names_of_the_models_ops() -> None:
    def by_hand(x: Tensor) -> Tensor:
        return x * 0.5 * (1 + torch.erf(x / 2**0.5)) - 1

    cases: list[tuple[object, str, tuple[str, ...]]] = [
        (nn.GELU(), "gelu", ("aten.gelu.default",)),
        (lambda x: nn.functional.gelu(x) * 2, "gelu_mul", ("aten.gelu.default", "aten.mul.Tensor")),
        (lambda x: nn.functional.layer_norm(x + 1, (19,)), "add_layer_norm", ("aten.add.Tensor", "aten.native_layer_norm.default")),
        (lambda x: x.softmax(-1), "softmax", ("aten._softmax.default",)),
    ]
    for model, name, ops in cases:
        (kernel,) = explain(model, (torch.randn(37, 19),)).kernels
        assert (kernel.name, kernel.ops) == (name, ops)
    (kernel,) = explain(by_hand, (torch.randn(37, 19),)).kernels
    assert kernel.name == "gelu_erf_sub"


def test_modules_of_torch_alone_are_named_where_there_is_no_line() -> None:
    model = nn.Sequential(nn.Linear(19, 33), nn.ModuleDict({"act": nn.GELU()})["act"], nn.Sequential(nn.LayerNorm(33)))
    found = explain(model, (torch.randn(5, 19),))
    assert found.externals[0].where == ("0: Linear",)
    assert found.kernels[0].where == ("1: GELU", "2.0: LayerNorm")
    assert "1: GELU  2.0: LayerNorm" in str(found)
    assert explain(nn.Softmax(-1), (torch.randn(5, 19),)).kernels[0].where == ("Softmax",)


def test_before_fusion_every_op_reads_and_writes() -> None:
    found = explain(activation, (torch.randn(37, 19), torch.randn(19)))
    assert found.graphs[0].before == Unfused(3, 4 * (6 * 37 * 19 + 19))


def test_external_calls_have_a_reason_and_a_line() -> None:
    found = explain(Layer(), (torch.randn(5, 19),))
    (call,) = found.externals
    assert (call.callee, call.reason) == ("aten.addmm.default", "library")
    assert call.where[0].startswith(__file__)
    assert not found.graphs[0].fallbacks


def test_graph_breaks_and_recompiles_name_the_line() -> None:
    def broken(x: Tensor) -> Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    found = explain(broken, (torch.randn(7, 3),), more=[(torch.randn(8, 3),)])
    line = broken.__code__.co_firstlineno + 2
    assert any(f"{__file__}:{line}" in b.where for b in found.breaks)
    assert found.recompiles and "size mismatch" in found.recompiles[0].reason
    assert any(g.kind == "TENSOR_MATCH" and "'x'" in g.source for g in found.guards)


def test_recompiles_are_told_when_torch_remembers_no_more_compilations() -> None:
    torch._dynamo.utils.set_compilation_metrics_limit(2)
    try:
        for _ in range(2):
            found = explain(activation, (torch.randn(7, 3), torch.randn(3)), more=[(torch.randn(8, 3), torch.randn(3))])
            assert len(found.recompiles) == 1
    finally:
        torch._dynamo.utils.set_compilation_metrics_limit(torch._dynamo.utils.DEFAULT_COMPILATION_METRICS_LIMIT)


def test_training_shows_the_backward_graph_and_leaves_the_model_alone() -> None:
    model = nn.Sequential(nn.Linear(9, 16), nn.BatchNorm1d(16), nn.ReLU())
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = explain(model, (torch.randn(4, 9),), training=True)
    assert [g.name for g in found.graphs] == ["graph 0", "graph 0 backward"]
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_measured_kernels_have_times() -> None:
    found = explain(Layer(), (torch.randn(5, 19),), measure=True)
    assert all(step.seconds is not None and 0 < step.seconds < 10 for step in (*found.kernels, *found.externals))
    assert "of roof" in str(found)


def test_time_of_every_pass() -> None:
    seconds = explain(activation, (torch.randn(37, 19), torch.randn(19))).graphs[0].seconds
    assert {"import", "lamina-fuse", "lamina-plan"} <= {name.partition("{")[0] for name in seconds}
    assert all(value >= 0 for value in seconds.values())


def test_json_holds_all_of_it() -> None:
    found = explain(Layer(), (torch.randn(5, 19),))
    data = json.loads(found.to_json())
    assert data["graphs"][0]["kernels"][0]["bytes"] == found.kernels[0].bytes
    assert data["graphs"][0]["memory"]["arena_bytes"] == found.graphs[0].memory.arena_bytes
    assert data["peaks"]["bandwidth"] == PEAKS.bandwidth


def test_a_compiled_model_is_explained_as_what_it_was_made_of() -> None:
    model = Layer().eval()
    found = explain(torch.compile(model, backend="eager"), (torch.randn(5, 19),))
    assert len(found.graphs) == 1


def program() -> Program:
    """x -> relu -> mm(x, x) -> add -> result, 16 elements each."""

    def ref(buffer: int) -> Ref:
        return Ref(buffer, 0, "f32", (4, 4), (4, 1))

    buffers = (
        Buffer("input", 0, 0, 64, 1), Buffer("arena", 0, 0, 64, 1), Buffer("arena", 0, 64, 64, 2), Buffer("output", 0, 0, 64, -1),
    )  # fmt: skip
    steps = (
        Launch("k0", (ref(0), ref(1)), 1, 1, 128, 16, "relu", ("m.py:3",), ("aten.relu.default",)),
        Call("aten.mm.default", "library", (ref(1), ref(0)), (), (ref(2),), (), "mm", ("m.py:4",)),
        Launch("k1", (ref(2), ref(1), ref(3)), 1, 1, 192, 16, "add", ("m.py:5",), ("aten.add.Tensor",)),
    )
    return Program(128, 128, 128, (TensorSpec("f32", (4, 4), (4, 1)),), buffers, (), steps, (ref(3),))


def test_memory_plan_has_lifetimes() -> None:
    memory = graph("g", program(), Unfused(2, 320), {}).memory
    lives = {p.buffer: (p.kind, p.name, p.first, p.last) for p in memory.places}
    assert lives == {
        0: ("input", "argument 0", 0, 1),
        1: ("arena", "relu", 0, 2),
        2: ("arena", "mm", 1, 2),
        3: ("output", "add", 2, -1),
    }
    assert (memory.arena_bytes, memory.sum_bytes, memory.lower_bound) == (128, 128, 128)


def test_tables_show_every_part() -> None:
    made = graph("the graph", program(), Unfused(3, 1000), {"lamina-fuse": 0.5, "emit": 0.5}, [1e-6, 2e-6, 3e-6])
    text = str(Explanation((made,), (), (), (), PEAKS))
    for part in ("the graph", "3 kernels moving 1 kB -> 2 kernels moving 320 B, 68% fewer bytes", "m.py:3", "library", "in place",
                 "arena 128 B", "0 to 2", "lamina-fuse", "50%", "0 graph breaks"):  # fmt: skip
        assert part in text, part


def product(device: Device, dtype: str, callee: str = "aten.mm.default") -> Program:
    """x @ y"""
    x, y, out = (Ref(buffer, 0, dtype, (16, 16), (16, 1)) for buffer in range(3))
    buffers = (Buffer("input", 0, 0, 1024, 0), Buffer("input", 1, 0, 1024, 0), Buffer("output", 0, 0, 1024, -1))
    specs = (TensorSpec(dtype, (16, 16), (16, 1)),) * 2
    return Program(0, 0, 0, specs, buffers, (), (Call(callee, "library", (x, y), (), (out,), (), "mm"),), (out,), device=device)


CHOICES = (
    TunedChoice("mm 64x64 by 64x64 and gelu", OURS, ((OURS, 1e-5), (LIBRARY, 2e-5), ("c", 3e-5), ("d", 4e-5), ("e", 5e-5)),
           (("f", "wrong numbers: all [of them]"), ("g", "too large"), ("h", "too large"))),
    TunedChoice("mm 8x8 by 8x8", LIBRARY, ((OURS, 1e-6), (LIBRARY, 2e-6)), pinned=True),
    TunedChoice("mm 4x4 by 4x4", LIBRARY),
)  # fmt: skip


def test_choices_name_candidates_with_their_times() -> None:
    made = graph("g", product("cuda", "bf16"), Unfused(1, 10), {}, choices=CHOICES)
    assert made.products == ""
    text = str(Explanation((made,), (), (), (), PEAKS))
    shown = text[text.index("hot op") : text.index("memory:")]
    assert [line.split("  ", 1)[0] for line in shown.splitlines()] == [
        "hot op", CHOICES[0].what, *[""] * 5, CHOICES[1].what, "", CHOICES[2].what,
    ]  # fmt: skip
    rows = [" ".join(line.split()) for line in shown.splitlines()[1:]]
    assert rows == [
        f"{CHOICES[0].what} {OURS} 10.0 us chosen", f"{LIBRARY} 20.0 us", "c 30.0 us", "2 more to 50.0 us",
        "f dropped: wrong numbers: all [of them]", "g and 1 more dropped: too large",
        f"{CHOICES[1].what} {LIBRARY} 2.0 us chosen, pinned", f"{OURS} 1.0 us",
        f"{CHOICES[2].what} {LIBRARY} chosen, not measured",
    ]  # fmt: skip


def test_choices_have_a_json_form() -> None:
    made = graph("g", product("cuda", "bf16"), Unfused(1, 10), {}, choices=CHOICES)
    data = json.loads(Explanation((made,), (), (), (), PEAKS).to_json())
    first, second, _ = data["graphs"][0]["choices"]
    assert first["chosen"] == OURS and first["seconds"][LIBRARY] == 2e-5 and first["dropped"]["g"] == "too large"
    assert second["pinned"] and data["graphs"][0]["products"] == ""


@pytest.mark.parametrize(
    ("program", "tune", "said"),
    [
        (product("cpu", "bf16"), "cached", "on a CPU there is no other choice"),
        (product("cuda", "f32"), "full", "tuning chooses for f16 and bf16 alone"),
        (
            product("cuda", "f16"),
            "off",
            'by the cost model (tune=off); tune="quick" or `lamina tune FILE.py:FACTORY` measures them',
        ),
        (product("cuda", "bf16"), "cached", 'by the cost model (untuned); tune="quick" or `lamina tune'),
        (product("cuda", "bf16"), "quick", "no kernel of Lamina computes these"),
    ],
)
def test_where_nothing_was_chosen_the_default_is_named(program: Program, tune: Tune, said: str) -> None:
    made = graph("g", program, Unfused(1, 10), {}, tune=tune)
    assert made.products.startswith("1 matrix product, 1 by the library") and said in made.products
    assert made.products in str(Explanation((made,), (), (), (), PEAKS))


def test_rows_stand_beside_products_that_nothing_is_known_of() -> None:
    rows = TunedChoice(
        "softmax 4096x4096 bf16", "triton{n=0 warps=8 stages=1}", (("triton{n=0 warps=8 stages=1}", 1e-5), ("simt", 2e-5))
    )
    made = graph("g", product("cuda", "f32"), Unfused(1, 10), {}, tune="quick", choices=(rows,))
    text = str(Explanation((made,), (), (), (), PEAKS))
    assert "simt" in text and "tuning chooses for f16 and bf16 alone" in text


def test_without_matrix_products_nothing_is_said_of_them() -> None:
    ours = Launch("k0", (), 0, 1, 1, 1, "mm_relu", (), ("aten.mm.default", "aten.relu.default"))
    made = product("cuda", "bf16")
    both = replace(made, steps=(ours, *made.steps))
    assert graph("g", both, Unfused(1, 10), {}).products.startswith("2 matrix products, 1 by the library, by the cost model")
    assert graph("g", product("cuda", "bf16", "aten.convolution.default"), Unfused(1, 10), {}).products == ""
    assert "on a CPU there is no other choice" in explain(Layer(), (torch.randn(5, 19),)).graphs[0].products


def test_share_of_the_roof() -> None:
    assert PEAKS.attainable(1.0) == 10e9 and PEAKS.attainable(50.0) == 100e9
    assert PEAKS.least(10_000, 0) == pytest.approx(1e-6) and PEAKS.least(0, 100_000) == pytest.approx(1e-6)


def test_events_are_matched_to_steps() -> None:
    """An event that a library records inside its step has the step's name and counts towards it."""
    one = [("relu", 0.0, 2.0), ("mm", 3.0, 9.0), ("mm", 4.0, 8.0), ("relu", 10.0, 11.0)]
    events = [*one, *((n, a + 20, b + 21) for n, a, b in one)]
    assert best(("relu", "mm", "relu"), events, 2) == pytest.approx([2e-6, 6e-6, 1e-6])
    with pytest.raises(RuntimeError, match="1 of 2"):
        best(("relu", "mm", "relu"), events[:5], 2)


def test_peaks_are_measured_once(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(roofline, "measure", lambda processor, threads: Peaks(processor, threads, 1.0, 2.0))
    first = roofline.peaks(2)
    monkeypatch.setattr(roofline, "measure", lambda processor, threads: Peaks(processor, threads, 0.5, 3.0))
    assert roofline.peaks(2) == first == Peaks(host().processor, 2, 1.0, 2.0)
    assert roofline.peaks(2, again=True) == replace(first, flops=3.0)


def test_peaks_are_plausible() -> None:
    assert 1e8 < roofline.copy_bandwidth(1 << 20) < 1e13
    assert 1e8 < roofline.product_rate(256) < 1e13
    threads = torch.get_num_threads()
    assert roofline.measure("somecpu", 1).threads == 1 and torch.get_num_threads() == threads


@pytest.mark.parametrize(("n", "text"), [(0, "0 "), (999, "999 "), (1000, "1 k"), (1234567, "1.23 M"), (5e12, "5 T")])
def test_amounts(n: float, text: str) -> None:
    assert amount(n) == text
