"""Tests the program format: JSON round trips, and errors for bad text."""

import json
import math

import pytest

from lamina.core import program_json
from lamina.core.errors import CompileError
from lamina.core.program import Buffer, Call, Constant, Launch, Program, Ref, TensorSpec
from lamina.core.sizes import Size, evaluate


def example() -> Program:
    n = Size.of("n")
    x = Ref(0, 0, "f32", (n, 3), (3, 1))
    t = Ref(1, 16, "f32", (n, 3), (3, 1))
    return Program(
        arena_bytes=n * 12 + 64,
        sum_bytes=n * 12,
        lower_bound=n * 12,
        inputs=(TensorSpec("f32", (n, 3), (3, 1)),),
        buffers=(Buffer("input", 0, 0, n * 12, 0), Buffer("arena", 0, 64, n * 12, 1), Buffer("owned", 0, 0, 48, -1)),
        constants=(Constant("bool", (3,), b"\x00\x01\x01"),),
        steps=(
            Launch("relu", (x, t), 1, n, n * 24, n * 3, "relu", ("m.py:3",), ("aten.relu.default",), ((0, 1),), 256, 2, 1024),
            Call(
                "aten.sort.default",
                "fallback",
                (t, None, -1, True, 2.5, math.inf, (1, (t,)), "torch.float32"),
                (("dim", -1),),
                (),
                (None, Ref(2, 0, "i64", (6,), (1,))),
                "sort",
            ),
        ),
        outputs=(Ref(2, 8, "i64", (2,), (1,)),),
        sizes=((n, n * 3),),
        device="cuda",
    )


def test_json_there_and_back() -> None:
    program = example()
    assert program_json.loads(program_json.dumps(program)) == program


def test_constant_sizes_are_plain_numbers() -> None:
    data = json.loads(program_json.dumps(Program(0, 0, 0, (TensorSpec("f32", (2, 3), (3, 1)),), (), (), (), ())))
    arena, _, _, inputs, *_ = data["program"]
    assert inputs == [["f32", [2, 3], [3, 1], 16]]
    assert arena == 0


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"version": 0}', '{"version": 1}', '"x'])
def test_bad_text_is_a_compile_error(text: str) -> None:
    with pytest.raises(CompileError, match="compile it again"):
        program_json.loads(text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"f32"', '"f33"'),
        ('"cuda"', '"tpu"'),
        ('"Launch"', '"Lunch"'),
        ('"relu"', "3"),
        ("false", "0"),
        ('"arena"', '"area"'),
        ("[0,1]", "[0]"),
    ],
)
def test_wrong_fields_are_a_compile_error(old: str, new: str) -> None:
    text = program_json.dumps(example())
    assert old in text
    with pytest.raises(CompileError, match="compile it again"):
        program_json.loads(text.replace(old, new, 1))


def test_cut_text_is_a_compile_error() -> None:
    text = program_json.dumps(example())
    for end in range(0, len(text), 37):
        with pytest.raises(CompileError):
            program_json.loads(text[:end])


def test_sizes() -> None:
    n, m = Size.of("n"), Size.of("m")
    total = n * 4 + m + 5
    assert evaluate(total, {"n": 2, "m": 3}) == 16
    assert str(total) == "m~2 + 4*n~2 + 5"
    assert n + n * -1 == 0
    assert evaluate(7, {}) == 7
    with pytest.raises(KeyError, match="m"):
        evaluate(total, {"n": 2})
