"""Turns calls of Lamina's own source kernels, as the kernel families emit them, into calls like those of users' kernels."""

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any

from lamina.core.gpu import Gpu
from lamina.core.program import Call, Program
from lamina.passes.families.select import FAMILIES


def place_own_kernels(program: Program, gpu: Gpu) -> tuple[Program, Mapping[str, Any]]:
    """Describes the launches of a program's calls of Lamina's kernels (see user). Returns the program and the kernels' functions by
    key."""
    sources = {callee: source for family in FAMILIES for callee, source in family.sources.items()}
    functions: dict[str, Any] = {}

    def step(call: Any) -> Any:
        """Makes a call of one of Lamina's kernels in source a call of a user's kernel."""
        if not isinstance(call, Call) or call.callee not in sources:
            return call
        adapt = sources[call.callee].on_gpu
        call = call if adapt is None else adapt(call, gpu)
        source = sources[call.callee]
        module, _, name = source.function.partition(":")
        function = getattr(import_module(module), name)
        functions[function.cache_key] = function
        launch = source.launch(call)
        given = launch.pop("arguments")
        launch["call"] = ", ".join(f"{parameter}={given[parameter]}" for parameter in function.arg_names if parameter in given)
        launch |= {"name": call.callee.partition(".")[2], "key": function.cache_key, "gluon": function.is_gluon()}
        return replace(call, kwargs=tuple(launch.items()))

    return replace(program, steps=tuple(map(step, program.steps))), functions
