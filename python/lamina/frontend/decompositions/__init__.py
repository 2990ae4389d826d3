"""What ops are made of: the table for AOTAutograd and torch.export (`ops/` by kind), with eager's dtypes and layouts."""
