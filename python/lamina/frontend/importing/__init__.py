"""From an FX graph of aten ops to linalg on tensors, by torch-mlir; what it does not lower becomes calls of private functions."""
