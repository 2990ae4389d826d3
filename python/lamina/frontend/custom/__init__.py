"""Kernels of users: their declaration (`declare`), their launches in place of ops (`substitute`), and the op for that (`op`)."""
