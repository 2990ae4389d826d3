"""Rewrites of FX graphs before import: convolution epilogues, branches, numbers, instance norms."""
