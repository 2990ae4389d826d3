"""Elementwise functions of complex numbers, in terms of the parts of their arguments.

A rule takes an emitter and the op's arguments, with a ComplexValue for each complex tensor. It returns the two parts of the result,
or the one real result.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from .parts import ComplexValue, Emitter, Part

aten = torch.ops.aten

Parts = tuple[Part, Part]


def parts_of(e: Emitter, value: Any) -> Parts:
    """Returns both parts of a value, complex, or a real node or number, in the dtype that the op computes in."""
    return e.to(e.part(value, 0), e.dtype), e.to(e.part(value, 1), e.dtype)


def product(e: Emitter, x: Parts, y: Parts) -> Parts:
    """Returns x * y."""
    (a, b), (c, d) = x, y
    return e.sub(e.mul(a, c), e.mul(b, d)), e.add(e.mul(a, d), e.mul(b, c))


def quotient(e: Emitter, x: Parts, y: Parts) -> Parts:
    """Returns x / y. The divisor is scaled by its greater part first, so that its square stays in range."""
    (a, b), (c, d) = x, y
    if not isinstance(d, fx.Node) and d == 0:
        return e.div(a, c), e.div(b, c)
    if not isinstance(c, fx.Node) and not isinstance(d, fx.Node):
        inverse = 1 / complex(c, d)
        return product(e, x, (inverse.real, inverse.imag))
    scale = e.div(1.0, _greater(e, c, d))
    c, d = e.mul(c, scale), e.mul(d, scale)
    scale = e.div(scale, e.add(e.mul(c, c), e.mul(d, d)))
    re, im = product(e, x, (c, e.neg(d)))
    return e.mul(re, scale), e.mul(im, scale)


def _greater(e: Emitter, a: Part, b: Part) -> Part:
    a, b = (_node(e, aten.abs.default, n) if isinstance(n, fx.Node) else abs(n) for n in (a, b))
    if isinstance(a, fx.Node) and isinstance(b, fx.Node):
        return e(aten.maximum.default, a, b)
    a, b = (a, b) if isinstance(a, fx.Node) else (b, a)
    assert isinstance(a, fx.Node)
    return e(aten.maximum.default, a, e(aten.full_like.default, a, b))


def absolute(e: Emitter, x: Parts) -> fx.Node:
    """Returns |x|, without overflow on the way."""
    a, b = x
    if not isinstance(a, fx.Node) or not isinstance(b, fx.Node):
        return _node(e, aten.abs.default, a if isinstance(a, fx.Node) else b)
    return e(aten.hypot.default, a, b)


def angle(e: Emitter, x: Parts) -> fx.Node:
    """Returns the angle between x and the positive real axis."""
    a, b = _nodes(e, x)
    return e(aten.atan2.default, b, a)


def exponential(e: Emitter, x: Parts) -> Parts:
    """Returns e ** x."""
    a, b = x
    size = e(aten.exp.default, a) if isinstance(a, fx.Node) else math.exp(a)
    if not isinstance(b, fx.Node):
        return e.mul(size, math.cos(b)), e.mul(size, math.sin(b))
    return e.mul(size, e(aten.cos.default, b)), e.mul(size, e(aten.sin.default, b))


def logarithm(e: Emitter, x: Parts) -> Parts:
    """Returns the principal logarithm of x."""
    return e(aten.log.default, absolute(e, x)), angle(e, x)


def root(e: Emitter, x: Parts) -> Parts:
    """Returns the square root of x with a real part that is not negative."""
    a, b = _nodes(e, x)
    size = absolute(e, (a, b))
    # of the two half-angle formulas the one that does not cancel: s = sqrt((|x| + |a|) / 2), and |b| / (2 s) for the other part
    long = e(aten.sqrt.default, e.mul(e.add(size, e(aten.abs.default, a)), 0.5))
    zero = e(aten.eq.Scalar, long, 0)
    short = e.div(e.mul(e(aten.abs.default, b), 0.5), e(aten.where.self, zero, e(aten.full_like.default, long, 1.0), long))
    right, below = e(aten.ge.Scalar, a, 0), e(aten.lt.Scalar, b, 0)
    imaginary = e(aten.where.self, right, short, long)
    return e(aten.where.self, right, long, short), e(aten.where.self, below, e.neg(imaginary), imaginary)


def sign(e: Emitter, x: Parts) -> Parts:
    """Returns x / |x|, and 0 for 0."""
    a, b = _nodes(e, x)
    size = absolute(e, (a, b))
    size = e(aten.where.self, e(aten.eq.Scalar, size, 0), e(aten.full_like.default, size, 1.0), size)
    return e.div(a, size), e.div(b, size)


def sine(e: Emitter, x: Parts) -> Parts:
    """Returns the sine of x."""
    a, b = _nodes(e, x)
    return (e.mul(e(aten.sin.default, a), e(aten.cosh.default, b)), e.mul(e(aten.cos.default, a), e(aten.sinh.default, b)))


def cosine(e: Emitter, x: Parts) -> Parts:
    """Returns the cosine of x."""
    a, b = _nodes(e, x)
    return (e.mul(e(aten.cos.default, a), e(aten.cosh.default, b)), e.neg(e.mul(e(aten.sin.default, a), e(aten.sinh.default, b))))


def _turned(function: Callable[[Emitter, Parts], Parts], e: Emitter, x: Parts) -> Parts:
    """Returns function(i * x)."""
    a, b = x
    return function(e, (e.neg(b), a))


def hyperbolic_sine(e: Emitter, x: Parts) -> Parts:
    """Returns -i * sin(i * x)."""
    a, b = _turned(sine, e, x)
    return b, e.neg(a)


def hyperbolic_cosine(e: Emitter, x: Parts) -> Parts:
    """Returns cos(i * x)."""
    return _turned(cosine, e, x)


def hyperbolic_tangent(e: Emitter, x: Parts) -> Parts:
    """Returns the hyperbolic tangent of x, from those of its parts, none of which overflows."""
    a, b = _nodes(e, x)
    t, k = e(aten.tanh.default, a), e(aten.tan.default, b)
    return quotient(e, (t, k), (1.0, e.mul(t, k)))


def logistic(e: Emitter, x: Parts) -> Parts:
    """Returns 1 / (1 + exp(-x))."""
    a, b = exponential(e, (e.neg(x[0]), e.neg(x[1])))
    return quotient(e, (1.0, 0.0), (e.add(a, 1.0), b))


def power(e: Emitter, x: Parts, exponent: complex | Parts) -> Parts:
    """Returns x ** exponent: small whole exponents by products, others by logarithms. 0 ** y is 0."""
    if not isinstance(exponent, tuple) and exponent in (1, 2, 3):
        made = x
        for _ in range(int(complex(exponent).real) - 1):
            made = product(e, made, x)
        return made
    if not isinstance(exponent, tuple) and exponent == -1:
        return quotient(e, (1.0, 0.0), x)
    if not isinstance(exponent, tuple) and exponent == 0.5:
        return root(e, x)
    y = exponent if isinstance(exponent, tuple) else (complex(exponent).real, complex(exponent).imag)
    a, b = _nodes(e, x)
    re, im = _nodes(e, exponential(e, product(e, logarithm(e, (a, b)), y)))
    zero = e(aten.logical_and.default, e(aten.eq.Scalar, a, 0), e(aten.eq.Scalar, b, 0))
    nothing = e(aten.full_like.default, re, 0.0)
    return e(aten.where.self, zero, nothing, re), e(aten.where.self, zero, nothing, im)


def _node(e: Emitter, target: Any, part: Part) -> fx.Node:
    assert isinstance(part, fx.Node), "a complex tensor has a part that is a tensor"
    return e(target, part)


def _nodes(e: Emitter, parts: Sequence[Part]) -> tuple[fx.Node, ...]:
    """Returns the parts as nodes; one of them is one."""
    like = next(p for p in parts if isinstance(p, fx.Node))
    return tuple(p if isinstance(p, fx.Node) else e(aten.full_like.default, like, p) for p in parts)


def _unary(function: Callable[[Emitter, Parts], Any]) -> Callable[..., Any]:
    def rule(e: Emitter, x: ComplexValue) -> Any:
        """Applies the function to the parts of `x`."""
        return function(e, parts_of(e, x))

    return rule


def _plus(e: Emitter, x: Any, y: Parts, factor: Any, join: Callable[[Part, Part], Part] | None = None) -> Parts:
    """Returns x + factor * y, or what `join` makes of the parts of both."""
    a, b = product(e, y, parts_of(e, factor))
    c, d = parts_of(e, x)
    join = join or e.add
    return join(c, a), join(d, b)


def _add(e: Emitter, x: Any, y: Any, alpha: Any = 1) -> Parts:
    return _plus(e, x, parts_of(e, y), alpha)


def _sub(e: Emitter, x: Any, y: Any, alpha: Any = 1) -> Parts:
    return _plus(e, x, parts_of(e, y), alpha, e.sub)


def _rsub(e: Emitter, x: Any, y: Any, alpha: Any = 1) -> Parts:
    return _sub(e, y, x, alpha)


def _binary(function: Callable[[Emitter, Parts, Parts], Parts]) -> Callable[..., Any]:
    def rule(e: Emitter, x: Any, y: Any) -> Parts:
        """Applies the function to the parts of `x` and `y`."""
        return function(e, parts_of(e, x), parts_of(e, y))

    return rule


def _pow(e: Emitter, x: Any, y: Any) -> Parts:
    return power(e, parts_of(e, x), parts_of(e, y) if isinstance(y, ComplexValue | fx.Node) else y)


def _pow_scalar(e: Emitter, x: Any, y: Any) -> Parts:
    """A number's power is e ** (y * log(x)); the number 0 is left to ATen."""
    x = complex(x)
    if x == 0:
        return NotImplemented
    size, turn = math.log(abs(x)), math.atan2(x.imag, x.real)
    return exponential(e, product(e, parts_of(e, y), (size, turn)))


def _conjugate(e: Emitter, x: Parts) -> Parts:
    return x[0], e.neg(x[1])


def _equal(e: Emitter, x: Any, y: Any) -> fx.Node:
    a, b, c, d = _nodes(e, (*parts_of(e, x), *parts_of(e, y)))
    return e(aten.logical_and.default, e(aten.eq.Tensor, a, c), e(aten.eq.Tensor, b, d))


def _differ(e: Emitter, x: Any, y: Any) -> fx.Node:
    a, b, c, d = _nodes(e, (*parts_of(e, x), *parts_of(e, y)))
    return e(aten.logical_or.default, e(aten.ne.Tensor, a, c), e(aten.ne.Tensor, b, d))


def _logarithm_to(base: float) -> Callable[[Emitter, Parts], Parts]:
    """Returns the rule of a logarithm to a base."""

    def rule(e: Emitter, x: Parts) -> Parts:
        """Scales the natural one."""
        re, im = logarithm(e, x)
        return e.mul(re, 1 / math.log(base)), e.mul(im, 1 / math.log(base))

    return rule


def _is_nan(e: Emitter, x: Any) -> fx.Node:
    return e(aten.logical_or.default, *(e(aten.ne.Tensor, part, part) for part in _nodes(e, parts_of(e, x))))


def _is_zero(e: Emitter, x: Any) -> fx.Node:
    return _equal(e, x, 0)


def _polar(e: Emitter, size: fx.Node, turn: fx.Node) -> Parts:
    return e.mul(size, e(aten.cos.default, turn)), e.mul(size, e(aten.sin.default, turn))


def _with_product(e: Emitter, x: Any, y: Any, z: Any, value: Any = 1) -> Parts:
    return _plus(e, x, product(e, parts_of(e, y), parts_of(e, z)), value)


def _with_quotient(e: Emitter, x: Any, y: Any, z: Any, value: Any = 1) -> Parts:
    return _plus(e, x, quotient(e, parts_of(e, y), parts_of(e, z)), value)


ELEMENTARY: dict[Any, Callable[..., Any]] = {
    aten.add.Tensor: _add, aten.add.Scalar: _add, aten.sub.Tensor: _sub, aten.sub.Scalar: _sub,
    aten.rsub.Scalar: _rsub, aten.rsub.Tensor: _rsub,
    aten.mul.Tensor: _binary(product), aten.mul.Scalar: _binary(product),
    aten.div.Tensor: _binary(quotient), aten.div.Scalar: _binary(quotient),
    aten.reciprocal.default: _unary(lambda e, x: quotient(e, (1.0, 0.0), x)),
    aten.square.default: _unary(lambda e, x: product(e, x, x)),
    aten.addcmul.default: _with_product, aten.addcdiv.default: _with_quotient,
    aten._conj.default: _unary(_conjugate), aten._conj_physical.default: _unary(_conjugate),
    aten.conj_physical.default: _unary(_conjugate),
    aten.abs.default: _unary(absolute), aten.angle.default: _unary(angle), aten.sgn.default: _unary(sign),
    aten.exp.default: _unary(exponential), aten.log.default: _unary(logarithm), aten.sqrt.default: _unary(root),
    aten.rsqrt.default: _unary(lambda e, x: quotient(e, (1.0, 0.0), root(e, x))),
    aten.sin.default: _unary(sine), aten.cos.default: _unary(cosine),
    aten.sinh.default: _unary(hyperbolic_sine), aten.cosh.default: _unary(hyperbolic_cosine),
    aten.tanh.default: _unary(hyperbolic_tangent), aten.sigmoid.default: _unary(logistic),
    aten.pow.Tensor_Scalar: _pow, aten.pow.Tensor_Tensor: _pow, aten.pow.Scalar: _pow_scalar,
    aten.eq.Tensor: _equal, aten.eq.Scalar: _equal, aten.ne.Tensor: _differ, aten.ne.Scalar: _differ,
    aten.log2.default: _unary(_logarithm_to(2)), aten.log10.default: _unary(_logarithm_to(10)),
    aten.isnan.default: _is_nan, aten.logical_not.default: _is_zero,
    aten.complex.default: lambda e, re, im: (re, im), aten.polar.default: _polar,
}  # fmt: skip
"""Rules by overload."""
