"""Records programs as CUDA graphs: decides whether a program can be recorded, measures whether that is faster, and keeps its
status."""
