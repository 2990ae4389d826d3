"""Tests pipeline texts, typed options, the registry, and running mixed pipelines from Python."""

import re
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import pytest
from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.dialects import context
from lamina.passes.infra import registry
from lamina.passes.infra.base import Pass
from lamina.passes.infra.instrumentation import Instrumentation, PassTiming
from lamina.passes.infra.pipeline import PassFailure, clone, prepare, run
from lamina.passes.infra.pipeline_options import build, describe
from lamina.passes.infra.pipeline_text import PassCall, PipelineNest, parse
from lamina.passes.infra.upstream import upstream_passes
from lamina.targets.levels import LEVELS, pipeline

ROOT = Path(__file__).parents[1]
ADD = """
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.addf %a, %a : tensor<4xf32>
  %1 = arith.addf %a, %a : tensor<4xf32>
  %2 = arith.mulf %0, %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}
"""


@dataclass(frozen=True)
class Example(Pass):
    """Does nothing but have options.

    max_ops   at most this many
    """

    name: ClassVar[str] = "lamina-example"
    max_ops: int = 64
    scale: float = 1.0
    strict: bool = False
    names: tuple[str, ...] = ()
    block: tuple[int, int] = (1, 2)
    mode: Literal["fast", "small"] = "fast"
    target: str | None = None


@dataclass(frozen=True)
class Needs(Pass):
    """A pass with an option that has no default."""

    name: ClassVar[str] = "lamina-needs"
    level: int


@dataclass(frozen=True)
class Breaks(Pass):
    """A pass whose result does not verify."""

    name: ClassVar[str] = "lamina-breaks"
    how: str = "verify"

    def run(self, module: ir.Module) -> None:
        if self.how == "error":
            raise CompileError("no way", where="model.py:7", remedy="go round")
        if self.how == "fault":
            raise KeyError("x")
        function = module.body.operations[0]
        function.attributes["function_type"] = ir.TypeAttr.parse("() -> ()", module.context)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.PASSES, "lamina-breaks", f"{__name__}:Breaks")


def module(text: str = ADD) -> ir.Module:
    return ir.Module.parse(text, context())


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("builtin.module(cse)", "builtin.module(cse)"),
        ("cse , lamina-dce", "builtin.module(cse,lamina-dce)"),
        ("func.func(cse)", "builtin.module(func.func(cse))"),
        ("builtin.module( gpu.module( func.func( a , b{ x } ) , c ) )", "builtin.module(gpu.module(func.func(a,b{x}),c))"),
        ("a{x=1   y=b,c z={p,q r} w='k l'}", "builtin.module(a{x=1 y=b,c z={p,q r} w='k l'})"),
        ("inline{op-pipelines=func.func(a,b) x=2}", "builtin.module(inline{op-pipelines=func.func(a,b) x=2})"),
        ("a{}", "builtin.module(a)"),
        ("lamina-tile{target=nvvm:sm_90a}", "builtin.module(lamina-tile{target=nvvm:sm_90a})"),
        ("", "builtin.module()"),
        ("func.func()", "builtin.module(func.func())"),
    ],
)
def test_round_trip(text: str, canonical: str) -> None:
    tree = parse(text)
    assert str(tree) == canonical
    assert parse(str(tree)) == tree


def test_tree() -> None:
    cse = PassCall("cse", (("x", "1"), ("y", None)))
    assert parse("any(cse{x=1 y})") == PipelineNest("builtin.module", (PipelineNest("any", (cse,)),))


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("a,", "1:3", "expected the name of a pass"),
        ("(a)", "1:1", "not '('"),
        ("a)b", "1:2", "expected ',' or the end, not ')'"),
        ("f(a", "1:4", "ends inside '(...)'"),
        ("a{x=1", "1:6", "ends inside '{...}'"),
        ("a{=1}", "1:3", "expected the name of an option"),
        ("a{x='1}", "1:5", "the quote ' is not closed"),
        ("a b", "1:3", "expected ',' or the end, not 'b'"),
    ],
)
def test_syntax_error(text: str, where: str, message: str) -> None:
    with pytest.raises(CompileError, match="<pipeline>") as caught:
        parse(text)
    assert caught.value.where == f"<pipeline>:{where}"
    assert message in str(caught.value)


def options(text: str) -> Pass:
    (_, call), *_ = parse(f"lamina-example{{{text}}}").calls()
    return build(Example, call)


def test_options_have_types() -> None:
    given = options("max-ops=3 scale=1e-3 strict names=a,b block=4,5 mode=small target=cpu")
    assert given == Example(3, 1e-3, True, ("a", "b"), (4, 5), "small", "cpu")
    assert options("") == Example()
    assert options("strict=0 target=none names={a,b}") == Example(names=("a", "b"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max-op=3", "unknown option 'max-op' of lamina-example (did you mean 'max-ops'?)"),
        ("max_ops=3", "did you mean 'max-ops'?"),
        ("max-ops=x", "option 'max-ops' of lamina-example is int, given 'x'"),
        ("max-ops", "is int, given nothing"),
        ("strict=2", "is bool, given '2'"),
        ("block=1", "is (int, int), given '1'"),
        ("mode=large", "is fast or small, given 'large'"),
        ("strict strict", "is given twice"),
    ],
)
def test_wrong_option(text: str, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        options(text)
    assert message in str(caught.value)


def test_option_without_default() -> None:
    with pytest.raises(CompileError, match="lamina-needs needs its option 'level'"):
        build(Needs, PassCall("lamina-needs"))


def test_description() -> None:
    summary, listed = describe(Example)
    assert summary == "Does nothing but have options."
    assert listed[0] == ("max-ops=int [64]", "at most this many")
    assert listed[3] == ("names=list of str []", "")
    assert listed[6] == ("target=str or none [none]", "")


def test_mixed_run_times_every_pass() -> None:
    m = module()
    timings = run("builtin.module(func.func(canonicalize,cse),lamina-dce,symbol-dce)", m)
    assert [t.path for t in timings] == ["func.func(canonicalize)", "func.func(cse)", "lamina-dce", "symbol-dce"]
    assert all(isinstance(t, PassTiming) and 0 < t.seconds < 5 for t in timings)
    assert str(m).count("arith.addf") == 1


def test_stop_and_callback() -> None:
    seen: list[tuple[int, str]] = []
    m = module()
    run("canonicalize,cse", m, instrumentation=Instrumentation(on_pass=lambda i, name: seen.append((i, name))), stop=1)
    assert seen == [(0, "canonicalize")]
    assert str(m).count("arith.addf") == 2


def test_nothing_runs_before_all_names_are_known() -> None:
    m = module()
    with pytest.raises(CompileError, match="unknown pass 'canonicalise'"):
        run("cse,canonicalise", m)
    assert str(m).count("arith.addf") == 2


def test_prepared_steps_serve_several_modules() -> None:
    ctx = context()
    steps = prepare("cse", ctx)
    for _ in range(2):
        m = ir.Module.parse(ADD, ctx)
        run(steps, m)
        assert str(m).count("arith.addf") == 1


def test_clone_is_independent() -> None:
    m = ir.Module.parse(f"module @name {{ {ADD} }}", context())
    copy = clone(m)
    assert str(copy) == str(m)
    run("cse", m)
    assert str(copy).count("arith.addf") == 2


@pytest.mark.usefixtures("broken")
def test_failure_keeps_input_and_command(tmp_path: Path) -> None:
    file = tmp_path / "it is.mlir"
    with pytest.raises(PassFailure) as caught:
        run("func.func(cse),lamina-breaks{how=error},cse", module(), instrumentation=Instrumentation(reproducer=file))
    command = f"opt-driver '{file}' --pass-pipeline='builtin.module(lamina-breaks{{how=error}})'"
    assert str(caught.value) == f"model.py:7: no way (go round; repeat with: {command})"
    assert caught.value.pass_name == "lamina-breaks"
    assert [t.path for t in caught.value.timings] == ["func.func(cse)"]
    text = file.read_text()
    assert text.startswith(f"// {command}\n")
    assert str(ir.Module.parse(text, context())).count("arith.addf") == 1


@pytest.mark.usefixtures("broken")
def test_wrong_ir_is_blamed_on_the_pass() -> None:
    watch = Instrumentation(reproducer=False)
    with pytest.raises(PassFailure, match=r"-:2:1: lamina-breaks left wrong IR: .*entry block must have 0 arguments") as caught:
        run("lamina-breaks", module(), instrumentation=watch)
    assert caught.value.diagnostics[0].severity == "error"
    run("lamina-breaks", module(), instrumentation=Instrumentation(verify_each=False, reproducer=False))


@pytest.mark.usefixtures("broken")
def test_fault_of_a_pass_is_one_line() -> None:
    with pytest.raises(PassFailure, match="lamina-breaks has a fault: KeyError: 'x'") as caught:
        run("lamina-breaks{how=fault}", module(), instrumentation=Instrumentation(reproducer=False))
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("name", registry.PASSES)
def test_registered_pass(name: str) -> None:
    """Every pass loads, describes itself in a line, and has a lit test of its name."""
    cls = registry.load(name)
    summary, _ = describe(cls)
    assert summary and len(summary) < 130 and "(self" not in summary
    file = name.removeprefix("lamina-").replace("-", "_")
    assert [*ROOT.glob(f"passes/{file}*.mlir"), *ROOT.glob(f"targets/{file}*.mlir")], f"no test/passes/{file}.mlir"


@pytest.mark.parametrize("name", registry.PASSES)
def test_registered_pass_has_a_case_with_symbols(name: str) -> None:
    """A lit test runs the pass with symbolic sizes; tests of whole levels run it too, but do not count."""
    texts = [file.read_text() for file in ROOT.glob("passes/*.mlir")]
    assert any(re.search(r'"[^"]*s0~\d', text) and re.search(rf"RUN:.*\b{name}\b", text) for text in texts)


def test_upstream_list_is_that_of_the_toolchain() -> None:
    ctx = context()
    from torch_mlir._mlir_libs import _torchMlir

    _torchMlir.register_dialect(ctx)
    for name in upstream_passes():
        try:
            prepare(f"any({name})", ctx)
        except CompileError as error:
            assert " runs on " in error.message, error


@pytest.mark.parametrize("end", LEVELS)
def test_ways_between_levels_are_pipelines(end: str) -> None:
    text = pipeline("torch", end)
    assert str(parse(text)) == text
    prepare(text, context())


def test_unknown_level() -> None:
    with pytest.raises(CompileError, match="no level is called 'til'"):
        pipeline("torch", "til")


def driver(*flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *flags, "-m", "lamina.tools.opt_driver", "--in-process", "--pass-pipeline=cse"]
    return subprocess.run(command, input=ADD, capture_output=True, text=True, check=True)


def test_driver_imports_no_torch() -> None:
    modules = {line.rsplit("|")[-1].strip() for line in driver("-X", "importtime").stderr.splitlines()}
    assert "torch_mlir.ir" in modules
    assert not modules & {"torch", "llvmlite", "lamina.frontend"}


def test_driver_starts_in_half_a_second() -> None:
    """In processor time, which does not count other processes, and in the fastest of ten runs, since the state of caches varies."""

    def spent() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return children.ru_utime + children.ru_stime

    for _ in range(10):
        start = spent()
        driver()
        if (took := spent() - start) < 0.5:
            return
    pytest.fail(f"took {took:.2f} s")
