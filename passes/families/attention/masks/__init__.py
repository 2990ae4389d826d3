"""Attention masks: finds out what they mean, so that kernels need not read them, or read a smaller tensor instead."""
