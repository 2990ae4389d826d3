"""Which kernels of ours a measurement was of: answers hold for those alone."""

import hashlib
from functools import cache
from pathlib import Path

_GENERATORS = (  # in the package
    "kernels/attention/*.py",
    "kernels/products/*.py",
    "passes/*attention*.py",
    "passes/*product*.py",
    "passes/column_sums.py",
    "passes/contraction.py",
    "passes/depthwise.py",
    "passes/emit_blocks.py",
    "passes/emit_convolution.py",
    "passes/emit_dot.py",
    "passes/emit_moments.py",
    "passes/emit_strips.py",
    "passes/hook.py",
    "passes/library_epilogues.py",
    "passes/mask_*.py",
    "passes/prologues.py",
    "passes/row_sums.py",
    "passes/split_groups.py",
    "passes/strips.py",
    "passes/windows.py",
    "schedules/attention*.py",
    "schedules/contraction.py",
    "schedules/nvvm.py",
    "targets/grouped_products.py",
    "targets/attention*.py",
    "targets/triton_*.py",
)

ROWS = (  # what writes those that reduce rows
    "passes/accumulators.py",
    "passes/by_triton.py",
    "passes/distribution/*.py",
    "passes/emit_*.py",
    "passes/gpu_math/*.py",
    "passes/nests.py",
    "passes/online.py",
    "passes/row_programs.py",
    "passes/schedule*.py",
    "passes/widths.py",
    "schedules/nvvm.py",
    "schedules/rows.py",
    "targets/triton_*.py",
)


@cache
def revision(package: Path = Path(__file__).parents[1], generators: tuple[str, ...] = _GENERATORS) -> str:
    """Of what writes kernels, those of products and attention unless others are named: of the text of its sources, so that no edit
    is forgotten."""
    digest = hashlib.sha256()
    for pattern in generators:
        for file in sorted(package.glob(pattern)):
            digest.update(f"{file.name}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
