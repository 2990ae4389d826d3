"""Captures an nn.Module as one flat aten graph: tracing, the Python state that a trace depends on, and retracing by size."""
