"""Prints tile programs as Triton kernels, and chooses among their forms: plain, of joint products, and ping-pong."""

from dataclasses import replace

from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.passes.ir.reading import name_of

from .printing.blocks import config_of
from .printing.pairs import print_either
from .printing.ping_pong import NoPingPong, PingPongPrinter
from .printing.printed import Printed, module_text
from .printing.printer import Printer


def take(module: ir.Module, descriptors: bool) -> list[Printed]:
    """Prints the programs of a module that are for Triton, and removes them from it."""
    found = [op.operation for op in module.body.operations if "tile.triton" in op.operation.attributes]
    out = [print_kernel(function, descriptors) for function in found]
    for function in found:
        function.erase()
    return out


def others(module: ir.Module) -> str:
    """Prints programs that Triton could compile but that are lowered by lamina-distribute."""
    kernels, refused = [], []
    for op in (o.operation for o in module.body.operations if "tile.triton" in o.operation.attributes):
        try:
            kernels.append(print_kernel(op, False))
        except CompileError as why:
            refused.append(f"# {why}")
    texts = ["# By lamina-distribute, not by Triton; here as lamina-route-to-triton would have them:", *refused]
    return "\n".join([*texts, module_text(kernels).rstrip()] if kernels else texts)


def print_kernel(function: ir.Operation, descriptors: bool) -> Printed:
    """Prints a tile program with `tile.triton`. Raises CompileError for an op without a Triton form.

    descriptors  whether the chip has a tensor memory accelerator (sm_90 and newer)
    """
    name = name_of(function)
    plain = _plain(function, descriptors, name)
    if not config_of(function).ping_pong:
        return plain
    try:
        return replace(PingPongPrinter(function, descriptors, name).run(), otherwise=plain)
    except NoPingPong as why:
        return plain.instead(str(why))


def _plain(function: ir.Operation, descriptors: bool, name: str) -> Printed:
    plain = Printer(function, descriptors, name).run()
    near = Printer(function, descriptors, f"{name}_near", joint=True)
    joint = near.run() if near.joint else plain
    if near.near is None:
        return plain
    apart = Printer(function, descriptors, f"{name}_apart").run()
    text = print_either(name, near.parameters, near.near, (joint.name, apart.name))
    functions = tuple(dict.fromkeys((*joint.calls, *apart.calls)))
    return replace(joint, name=name, kernel="\n\n\n".join((joint.kernel, apart.kernel, text)), calls=functions)
