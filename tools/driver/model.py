"""Loads models named on the command line as `FILE.py:FACTORY`."""

import importlib.util
import os
import sys
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.core.errors import CompileError, suggestion
from lamina.core.options import Options
from lamina.passes.infra.pipeline_options import read
from lamina.passes.infra.pipeline_text import options_of

if TYPE_CHECKING:
    from lamina.passes.infra.instrumentation import Instrumentation, PassTiming


def emit(
    file: str, factory: str, *, target: str, level: str, options: str, instrumentation: "Instrumentation"
) -> "tuple[str, list[PassTiming]]":
    """Returns the text of a model at a level, and what each pass down to tile took. Raises CompileError if the options, the file
    or the factory are not valid."""
    given = options_from(options)
    warnings.simplefilter("ignore", FutureWarning)  # torch warns about its own code
    module, inputs, dynamic_shapes = load(file, factory)
    from lamina.frontend.entry.levels import Passes
    from lamina.frontend.entry.levels import emit as emit_level

    passes = Passes(instrumentation)
    try:
        text = emit_level(module, inputs, target=target, level=level, options=given, dynamic_shapes=dynamic_shapes, passes=passes)
    except ValueError as error:  # an example of a size that dynamic_shapes excludes
        raise CompileError(str(error), where=f"{file}:1:1") from error
    return text, passes.timings


def options_from(text: str) -> Options:
    """Parses options in the syntax of pass options, "strict fast-math=exp-log". Raises CompileError for invalid ones."""
    try:
        return Options(**read(Options, options_of(text), "--options"))
    except CompileError as error:
        raise CompileError(error.message, where="--options:1:1", remedy=error.remedy) from error


def build(file: str, factory: str) -> tuple[Any, tuple[Any, ...]]:
    """Returns the module and the example inputs of a factory; see load."""
    module, inputs, _ = load(file, factory)
    return module, inputs


def load(file: str, factory: str) -> tuple[Any, tuple[Any, ...], Any]:
    """Imports the file, calls the factory and returns its module, its example inputs and their dynamic shapes, None without any.

    Raises CompileError if the file is missing or fails, has no such function, or the function fails or returns something else.
    """
    if not Path(file).is_file():
        raise CompileError("no such file", where=f"{file}:1:1")
    sys.path.insert(0, str(Path(file).resolve().parent))
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    assert spec and spec.loader
    code = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = code
    try:
        spec.loader.exec_module(code)
    except (Exception, SystemExit) as error:
        raise _users_error(error, file) from error
    if not callable(make := getattr(code, factory, None)):
        functions = [name for name, value in vars(code).items() if callable(value) and not name.startswith("_")]
        raise CompileError(f"no function {factory!r}", where=f"{file}:1:1", remedy=suggestion(factory, functions))
    try:
        made = make()
    except (Exception, SystemExit) as error:
        raise _users_error(error, file) from error
    import torch

    match made:
        case (torch.nn.Module() as module, (tuple() | list()) as inputs, *rest) if len(rest) <= 1:
            return module, tuple(inputs), *(rest or [None])
        case (torch.nn.Module() as module, torch.Tensor() as only, *rest) if len(rest) <= 1:
            return module, (only,), *(rest or [None])
    where = f"{file}:{make.__code__.co_firstlineno}:1" if hasattr(make, "__code__") else f"{file}:1:1"
    raise CompileError(f"{factory}() returned {type(made).__name__}", where=where, remedy="return (module, (input, ...))")


def _users_error(error: BaseException, file: str) -> CompileError:
    """Converts an exception in the user's code into a CompileError at its innermost line in the user's file."""
    if isinstance(error, SyntaxError):
        where = f"{os.path.relpath(error.filename or file)}:{error.lineno or 1}:{error.offset or 1}"
        return CompileError(f"SyntaxError: {error.msg}", where=where)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if os.path.abspath(f.filename) == os.path.abspath(file)]
    line = frames[-1].lineno if frames else 1
    text = " ".join(str(error).split())
    return CompileError(f"{type(error).__name__}: {text}" if text else type(error).__name__, where=f"{file}:{line}:1")
