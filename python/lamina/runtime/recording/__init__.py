"""Records a program as a CUDA graph: whether it can be, whether that pays, and what came of it."""
