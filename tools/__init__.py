"""Command-line tools: opt-driver, `lamina tune`, benchmarks, the cliff finder, and generators of checked-in files."""
