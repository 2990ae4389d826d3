"""The problems of a module by kernel family, with choices as text."""

from torch_mlir import ir

from lamina.core.gpu import Gpu
from lamina.passes.families import choice
from lamina.passes.families.attention.family import AttentionFamily, AttentionProblem
from lamina.passes.families.gemm.family import GemmFamily, ProductProblem, choices_of

LIBRARY = str(choice.LIBRARY)


def products(module: ir.Module) -> list[ProductProblem]:
    return list(GemmFamily().problems(module))


def product_of(module: ir.Module, op: ir.Operation) -> ProductProblem:
    return next(problem for problem in products(module) if op in problem.ops)


def attentions(module: ir.Module) -> list[AttentionProblem]:
    return list(AttentionFamily().problems(module))


def kernels_of(problem: ProductProblem, gpu: Gpu) -> tuple[tuple[str, ...], str]:
    """Returns the candidates and the cost model's choice, "" for the library."""
    found, default = choices_of(problem.gemm, gpu)
    return tuple(map(str, found)), "" if default == choice.LIBRARY else str(default)
