"""The NVIDIA target: tile programs -> threads -> NVVM -> PTX -> cubins."""
