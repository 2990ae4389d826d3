"""Rewrites that make up lamina-gpu-to-nvvm: 16-bit floats, indices, ops by lane, remainders, function attributes."""
