"""Rewrites of FX graphs before import: convolution epilogues, in-place ops, branches, numbers, known values."""
