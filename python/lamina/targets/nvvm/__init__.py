"""NVIDIA GPUs: tile programs -> threads -> NVVM -> PTX -> cubins."""
