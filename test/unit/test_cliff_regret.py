"""Tests the evaluation of cost models (`cliffs.py regret`) on choices with known times."""

import math

import pytest

from lamina.tools.cliff_finder.findings import Finding
from lamina.tools.cliff_finder.regret import judged, regret_table
from lamina.tune.choice import TunedChoice


def finding(seed: str, *choices: TunedChoice) -> Finding:
    return Finding(seed, choices=[choice.to_json() for choice in choices])


def choice(what: str, order: str, times: dict[str, float], **dropped: str) -> TunedChoice:
    return TunedChoice(what, min(times, key=times.__getitem__), tuple(times.items()), tuple(dropped.items()), order=tuple(order))


def test_order_and_regret() -> None:
    right = choice("mm 8x8 by 8x8", "abcd", {"a": 1e-6, "b": 2e-6, "c": 3e-6, "d": 4e-6})
    wrong = choice("attention 1x1x8x8", "abc", {"a": 3e-6, "b": 2e-6, "c": 1e-6})
    worst, least = judged([finding("1 0", right), finding("1 1", wrong, right)])
    assert (worst.kind, worst.first, worst.fastest, least.kind) == ("attention", "a", "c", "product")
    assert worst.regret == pytest.approx(2.0) and least.regret == 0.0
    assert worst.correlation == pytest.approx(-1.0) and least.correlation == pytest.approx(1.0)


def test_a_first_that_does_not_work_is_named_with_the_reason() -> None:
    one = choice("convolution 1x8x4x4 by 8x8x3x3", "abc", {"b": 1e-6, "c": 2e-6}, a="wrong numbers")
    (found,) = judged([finding("1 0", one)])
    assert math.isinf(found.regret) and math.isnan(found.correlation) and found.kind == "convolution"
    assert "`a` (wrong numbers) | `b`" in regret_table([finding("1 0", one)])


def test_an_op_with_one_candidate_says_nothing() -> None:
    assert regret_table([finding("1 0", choice("mm", "a", {"a": 1e-6})), finding("1 1")]) == ""


def test_findings_keep_choices() -> None:
    one = choice("mm", "ab", {"a": 1e-6, "b": 2e-6})
    assert TunedChoice.from_json(finding("1 0", one).choices[0]) == one
