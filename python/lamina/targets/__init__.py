"""Targets: how a module of tile programs becomes code. Each has a folder, and a line in the registry."""

from .base import Artifact, Backend
from .registry import backend

__all__ = ["Artifact", "Backend", "backend"]
