"""Rules on powers and roots. The forms are those of eager's own kernels, which take the same shortcuts."""

from torch_mlir import ir

from ...ir.rewriting import replace_op
from ..scalars import ScalarRef
from ..scope import RewriteScope

_CHAIN = (2, 3, 4)
_WIDE_CHAIN = 16  # largest exponent of f16 and bf16 that is expanded to f32 products


def power(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """x**c for constant c: products for 2, 3, 4, reciprocals for -1 and -2, roots for 0.5 and -0.5.

    Within 2 ulp of the exact power. As in eager, (-0.0)**0.5 is -0.0 and (-inf)**0.5 is NaN. Any other integer exponent
    becomes a powf, so that no fpowi is left. f16 and bf16 allow one rounding only: chains of products are computed in f32.
    """
    base, exponent = s.args(op)
    c, type_ = s.number(exponent), op.results[0].type
    if c is None:
        return None
    if c == 0:
        return s.constant(1.0, type_, op)
    x = s.use(base, op)
    if c == 1:
        return x
    if _half(type_) and c == int(c) and c not in (2, -1) and abs(c) <= _WIDE_CHAIN:
        wide = ir.F32Type.get()
        power = _integer_power(s, s.build("arith.extf", wide, [x], op), int(c), wide, op)
        return s.build("arith.truncf", type_, [power], op)
    if c in _CHAIN or c in (-1, -2):
        return _integer_power(s, x, int(c), type_, op)
    if c in (0.5, -0.5):
        return s.build("math.sqrt" if c > 0 else "math.rsqrt", type_, [x], op)
    if op.name == "math.fpowi":
        return s.build("math.powf", type_, [x, s.constant(c, type_, op)], op)
    return None


def _half(type_: ir.Type) -> bool:
    return isinstance(type_, ir.BF16Type | ir.F16Type)


def _integer_power(s: RewriteScope, x: ir.Value | None, c: int, type_: ir.Type, op: ir.Operation) -> ir.Value:
    product = _product(s, x, abs(c), op)
    return product if c > 0 else s.build("arith.divf", type_, [s.constant(1.0, type_, op), product], op)


def _product(s: RewriteScope, x: ir.Value | None, n: int, op: ir.Operation) -> ir.Value | None:
    """Returns x**n by squaring."""
    if n == 1 or x is None:
        return x
    half = _product(s, x, n // 2, op)
    assert half is not None
    square = s.build("arith.mulf", x.type, [half, half], op)
    return s.build("arith.mulf", x.type, [square, x], op) if n % 2 else square


def divide_by_root(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """1 / sqrt(y) -> rsqrt(y), and x / sqrt(y) -> x * rsqrt(y) where y has fewer elements (a norm of every row).

    The former rounds once less; the latter is within 2 ulp, and divides once per row instead of once per element.
    """
    a, b = s.args(op)
    root, type_ = s.node(b, "math.sqrt"), op.results[0].type
    if root is None:
        return None
    if s.number(a) == 1:
        return s.build("math.rsqrt", type_, [s.use(root.args[0], op)], op)
    reciprocal = None if _half(type_) else _reciprocal_root(s, b, root.op)
    return None if reciprocal is None else s.build("arith.mulf", type_, [s.use(a, op), s.use(reciprocal, op)], op)


def _reciprocal_root(s: RewriteScope, ref: ScalarRef, root: ir.Operation) -> ScalarRef | None:
    """Clones the generic that yields `root` with rsqrt in its place, when it runs over fewer loops than this one."""
    while True:
        further = s.scalars.step(ref)
        if further is None or further.value == root.results[0]:
            break
        ref = further
    owner = root.block.owner.operation
    loops = {d for d in ref.index if d >= 0}
    if further is None or not isinstance(ref.value.type, ir.RankedTensorType) or len(owner.results) != 1:
        return None
    if owner.name != "linalg.generic" or len(loops) >= len(s.loops):
        return None
    twin = owner.clone(ip=ir.InsertionPoint.after(owner)).operation
    for inner in twin.regions[0].blocks[0].operations:
        last = inner.operation
    sqrt = last.operands[0].owner.operation
    rsqrt = ir.Operation.create(
        "math.rsqrt", [sqrt.results[0].type], list(sqrt.operands), loc=sqrt.location, ip=ir.InsertionPoint(sqrt)
    )
    replace_op(sqrt, rsqrt.results[0])
    return ScalarRef(twin.results[0], ref.index)
