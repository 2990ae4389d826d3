"""The CPU target: tile programs -> LLVM -> an object file."""
