"""Lamina's entry points: `lamina.compile`, `torch.compile(backend="lamina")`, `lamina.explain`, and compiled models."""
