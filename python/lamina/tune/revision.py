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
    "passes/emit_blocks.py",
    "passes/emit_convolution.py",
    "passes/emit_dot.py",
    "passes/emit_moments.py",
    "passes/hook.py",
    "passes/library_epilogues.py",
    "passes/mask_*.py",
    "passes/prologues.py",
    "passes/row_sums.py",
    "passes/split_groups.py",
    "passes/windows.py",
    "schedules/attention*.py",
    "schedules/contraction.py",
    "targets/grouped_products.py",
    "targets/attention*.py",
    "targets/triton_*.py",
)


@cache
def revision(package: Path = Path(__file__).parents[1]) -> str:
    """Of what writes the kernels of products and attention: of the text of its sources, so that no edit is forgotten."""
    digest = hashlib.sha256()
    for pattern in _GENERATORS:
        for file in sorted(package.glob(pattern)):
            digest.update(f"{file.name}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
