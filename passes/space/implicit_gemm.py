"""Maps convolutions to implicit GEMMs: m is the pixels of all images, n the features, and k the windows with their channels.

Each of m, n and k is several axes of the space taken as one. If an index grows evenly along it, like that of a channels-last
result does from pixel to pixel, blocks read and write it as in any GEMM. Where it does not, as for an image under windows that
overlap, blocks are gathered (passes/tile/emit/gathers.py).
"""

from lamina.core.dtypes import HALF
from lamina.core.sizes import at_most

from ..ir.affine import Affine, Axis
from ..ir.expressions import Load
from .coalesce import Merged, as_one
from .contraction import Contraction, Unfit, before_rounding, check_surroundings, factors_of
from .space import Space

WIDE = 1 << 31  # elements from which on an index needs 64 bits


def windows_of(space: Space, factors: str) -> Contraction:
    """Returns the convolution of a space that passes/families/conv/implicit_gemm.py built. Raises Unfit if blocks cannot
    compute it.

    factors  the element type of image and weight; f32 where they are rounded to tf32
    """
    if len(space.reductions) != 1 or factors not in (*HALF, "f32"):
        raise Unfit(f"{len(space.reductions)} reductions on {factors}, not one on {', '.join(HALF)} or tf32")
    check_surroundings(space)
    (product,) = space.reductions
    pair = factors_of(product)
    image, weight = map(before_rounding, pair)
    if not (isinstance(image, Load) and isinstance(weight, Load)):
        raise Unfit("no sum of products of elements of an image and a weight")
    if factors == "f32" and image is pair[0]:
        raise Unfit("factors of f32 that are not rounded to tf32")
    rows = [x for x in space.rows if x.extent != 1]
    pixels = [x for x in rows if x in image.free and x not in weight.free]
    features = [x for x in rows if x in weight.free and x not in image.free]
    window = [x for x in space.columns if x.extent != 1]
    batch = tuple(x for x in rows if x in image.free and x in weight.free)
    if len(pixels) + len(features) + len(batch) < len(rows) or not (pixels and features and window):
        raise Unfit("a convolution without pixels, features or a window")
    _check_places(space)
    rename: dict[Axis, Affine] = {}
    axis_of: dict[Axis, Axis] = {}
    m, n, k = (as_one(axes, rename, axis_of) for axes in (pixels, features, window))
    merged = Merged((*batch, m, n), (k,), rename, axis_of)
    summed = (0,) * len(space.results)
    rounded = "tf32" if factors == "f32" else factors
    return Contraction(merged, batch, m, n, k, image, (weight,), rounded, space.reductions, space.results, summed)


def _check_places(space: Space) -> None:
    """Raises Unfit if an index does not fit in 32 bits. Where a call decides that, its tensors do (core/binding)."""
    for index in space.places():
        if index.opaque or at_most(WIDE, index.bounds()[1]):
            raise Unfit(f"a tensor of {WIDE} elements or more, or one that is read where other values say")
