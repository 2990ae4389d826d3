"""Rewrites of FX graphs before import: norms and activations into convolutions, in-place ops, branches, numbers, known values."""
