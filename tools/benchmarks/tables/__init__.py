"""Formats what the benchmarks measured: goals, tables in a terminal and in Markdown, and a plot against the roofline."""
