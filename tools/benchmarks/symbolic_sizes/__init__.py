"""Benchmarks of programs for symbolic sizes against programs for each size (tools/sizes.py)."""
