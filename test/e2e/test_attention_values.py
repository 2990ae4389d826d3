"""Compares attention that models write out with float64, through both entry points."""

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from attention_forms import FORMS, Form, Model, casts, filled_from_inputs, inputs, llama, minus_infinity_from_inputs, plain
from oracle import compare
from pairs import pairwise
from torch import Tensor, nn
from watched import compiled_programs, steps_of

import lamina
from lamina.core.program import Call
from lamina.frontend.attention import recognize as written_out

OPTIONS = {"strict": True, "cache": False}
F32_INSIDE = (llama, casts)
CALLEE = "aten._scaled_dot_product_flash_attention_for_cpu.default"


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Compares with bounds that follow eager's error. That is sometimes small by chance: one run of 300 had a gradient beyond
    them."""
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def however_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_out, "SMALL", {False: 0, True: 0})


def compiled(form: Callable[..., Any], given: tuple[Tensor, ...], entry_point: str) -> Callable[..., Any]:
    if entry_point == "compile":
        return lamina.compile(Model(form), given, options=OPTIONS)
    torch._dynamo.reset()
    return torch.compile(Model(form), backend="lamina", options=OPTIONS)


def gradients(run: Callable[..., Tensor], tensors: tuple[Tensor, ...]) -> list[Tensor]:
    """Returns the result, and the gradients of the first three tensors; the fifth is the result's gradient."""
    q, k, v = (t.detach().clone().requires_grad_() for t in tensors[:3])
    out = run(q, k, v, tensors[3])
    return [out, *torch.autograd.grad(out, (q, k, v), tensors[4].to(out.dtype))]


SIZES = [(3, 127, torch.float32), (127, 3, torch.bfloat16), (1, 3, torch.float32)]


@pytest.mark.parametrize(("form", "sizes", "entry_point"), pairwise([*FORMS], SIZES, ["compile", "torch.compile"]))
def test_values(form: Form, sizes: tuple[int, int, torch.dtype], entry_point: str) -> None:
    rows, columns, dtype = sizes
    given = inputs(dtype, rows, columns)
    with torch.no_grad():
        compare(form, given, [compiled(form, given, entry_point)(*given)])


@pytest.mark.parametrize(
    ("form", "dtype"),
    [
        (form, dtype)
        for dtype in (torch.float32, torch.bfloat16, torch.float64)
        for form in FORMS
        if form not in F32_INSIDE or dtype.itemsize < 8
    ],
)
def test_gradients(form: Form, dtype: torch.dtype) -> None:
    given = inputs(dtype, 7, 7)
    run = compiled(form, given, "torch.compile")

    grad = torch.randn(form(*given).shape)
    compare(lambda *tensors: gradients(form, tensors), (*given, grad), gradients(run, (*given, grad)), ulps=8)


@pytest.mark.parametrize("entry_point", ["compile", "torch.compile"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_hidden_by_infinity_are_nan(dtype: torch.dtype, entry_point: str) -> None:
    """As in eager, with NaN gradients wherever eager has them; fused kernels would return zeros."""
    given = inputs(dtype)
    given[3][1] = -1.0
    with torch.no_grad():
        found = compiled(minus_infinity_from_inputs, given, entry_point)(*given)
    assert found[1].isnan().all()
    compare(minus_infinity_from_inputs, given, [found])
    given = (*given, torch.ones(given[0].shape))
    ours = gradients(compiled(minus_infinity_from_inputs, given[:4], entry_point), given)
    for mine, eager in zip(ours, gradients(minus_infinity_from_inputs, given), strict=True):
        assert bool((mine.isnan() | ~eager.isnan()).all())


def added(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    return (q @ k.mT + m).softmax(-1) @ v


@pytest.mark.parametrize(
    ("low", "form", "dtype"), pairwise([-math.inf, None, -1e9], [added, filled_from_inputs], [torch.float32, torch.bfloat16])
)
def test_rows_hidden_as_a_whole(low: float | None, form: Form, dtype: torch.dtype) -> None:
    given = inputs(dtype)
    given[3][1] = torch.finfo(dtype).min if low is None else low
    with torch.no_grad():
        compare(form, given, [compiled(form, given, "compile")(*given)])


@pytest.mark.parametrize("training", [False, True])
def test_explain_shows_it(training: bool) -> None:
    given = tuple(t.requires_grad_(training) for t in inputs()[:3])
    found = lamina.explain(plain, (*given, inputs()[3]), training=training, show=False)
    assert [e.callee for e in found.graphs[0].externals] == [CALLEE]


def bert_model() -> nn.Module:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=97, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, attn_implementation="eager"
    )
    return transformers.BertModel(config, add_pooling_layer=False)


def gpt2_model() -> nn.Module:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=97, n_embd=32, n_layer=2, n_head=4, use_cache=False, attn_implementation="eager")
    return transformers.GPT2Model(config)


def llama_model() -> nn.Module:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=97, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=64,
        use_cache=False, attn_implementation="eager",
    )  # fmt: skip
    return transformers.LlamaModel(config)


class Hidden(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, mask: Tensor | None) -> Tensor:
        return self.model(input_ids=tokens, attention_mask=mask)[0]


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("make", [bert_model, gpt2_model, llama_model])
def test_models_of_transformers(make: Callable[[], nn.Module], padded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = compiled_programs(monkeypatch)
    model = Hidden(make()).eval()
    tokens, mask = torch.randint(0, 97, (2, 9)), None
    if padded:
        mask = torch.ones(2, 9, dtype=torch.long)
        mask[1, -3:] = 0
    with torch.no_grad():
        eager, exact = model(tokens, mask), copy.deepcopy(model).double()(tokens, mask)
        found = lamina.compile(model, (tokens, mask), options=OPTIONS)(tokens, mask)
        assert (found - exact).abs().max() <= 4 * (eager - exact).abs().max()
    assert [step.callee for step in steps_of(programs) if isinstance(step, Call)].count(CALLEE) == 2
