"""lamina-rewrite-patterns: replaces patterns of scalar ops, such as GELU written out by hand, by better forms."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from torch_mlir import ir

from lamina.core.errors import CompileError, suggestion

from ..infra.base import Pass
from ..ir.rewriting import tensor_blocks
from .matching.rule import FAMILIES
from .matching.rule_set import RuleSet

_LIBRARY = Path(__file__).with_name("patterns")


@dataclass(frozen=True)
class RewritePatterns(Pass):
    """Replace patterns of scalar ops by better ones: GELU in both forms, SiLU and RMSNorm.

    The pieces of x * 0.5 * (1 + erf(x / sqrt(2))), each a generic as torch-mlir leaves it, become

        %0 = linalg.generic {..., graph.pattern = "gelu_erf"} ins(%x) { ... math.erf ... } loc(fused[...])

    Matching sees through generics, casts between floats, transposes and broadcasts; the order of factors and terms does
    not matter, nor whether a constant divides or multiplies, nor pow(x, 3) against x*x*x; constants may differ by 5e-5
    (0.8% where the program computes in bf16). Where a result that is costly to compute twice is used outside the pattern, the
    pattern does not match. The new generic carries `graph.pattern`, the rule's name, and the locations of the ops it replaces.

    rules  names of the library's rules to use, all by default
    """

    name: ClassVar[str] = "lamina-rewrite-patterns"
    rules: tuple[str, ...] = ()

    def run(self, module: ir.Module) -> None:
        """Applies the rules. Raises CompileError for an unknown name."""
        with module.context, ir.Location.unknown():
            sets = [RuleSet.parse(text) for text in _library()]
            known = {rule.name for rules in sets for rule in rules.rules}
            for name in self.rules:
                if name not in known:
                    raise CompileError(f"no rule {name!r} among the patterns", remedy=suggestion(name, sorted(known)))
            wanted = set(self.rules) or known
            for block in list(tensor_blocks(module)):
                for rules in sets:
                    rules.only(wanted).apply(block)


@cache
def _library() -> tuple[str, ...]:
    return tuple((_LIBRARY / f"{family}.mlir").read_text() for family in FAMILIES)
