"""Targets: compile a module of tile programs to code. Each target has a folder and a line in the registry."""

from .base import Artifact, Backend
from .registry import backend

__all__ = ["Artifact", "Backend", "backend"]
