"""Kernels of users: how one is declared (`declare`), where an op becomes a launch of it (`substitute`), the op for that (`op`)."""
