"""Workloads, worker processes and figures of `make bench`."""
