"""From nn.Module to one flat aten graph: tracing, the state of Python that a trace depends on, and ops kept whole for it."""
