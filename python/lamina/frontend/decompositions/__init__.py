"""Decompositions of aten ops for AOTAutograd and torch.export (`ops/` by kind), with eager's dtypes and layouts."""
