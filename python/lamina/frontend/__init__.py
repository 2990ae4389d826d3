"""From nn.Module to the linalg level, and the Python front doors."""
