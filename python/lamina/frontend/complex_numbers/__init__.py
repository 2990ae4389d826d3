"""Complex tensors as real ones: rewrites the ops on them as ops on their real and imaginary parts, which fuse as any others do."""
