"""From nn.Module to the linalg level, and the Python entry points."""
