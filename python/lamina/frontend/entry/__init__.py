"""The front doors: `lamina.compile`, `torch.compile(backend="lamina")`, `lamina.explain`, and compiled models."""
