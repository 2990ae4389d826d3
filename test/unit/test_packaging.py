"""Tests the packaging: version ranges and pins agree, and the package contains all of Lamina."""

import importlib
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LINES = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]


def requirements() -> list[Requirement]:
    project = PROJECT["project"]
    extras = [r for group in project["optional-dependencies"].values() for r in group]
    return [Requirement(r) for r in project["dependencies"] + extras + PROJECT["build-system"]["requires"]]


def test_every_requirement_is_a_range_with_one_pin_in_it() -> None:
    pins = dict(line.split("==") for line in LINES)
    for requirement in requirements():
        assert not any(s.operator == "==" for s in requirement.specifier), f"{requirement} pins a version"
        assert requirement.specifier.contains(pins[requirement.name]), f"constraints.txt lies outside {requirement}"


def test_torch_and_triton_have_no_upper_bound() -> None:
    for requirement in requirements():
        if requirement.name in ("torch", "triton"):
            assert all(s.operator == ">=" for s in requirement.specifier)


def test_entry_points_exist() -> None:
    project = PROJECT["project"]
    targets = [*project["scripts"].values(), *project["entry-points"]["torch_dynamo_backends"].values()]
    for target in targets:
        module, name = target.split(":")
        assert callable(getattr(importlib.import_module(module), name))


def test_top_level_folders_are_part_of_the_package() -> None:
    for folder in ("dialects", "passes", "tools"):
        link = ROOT / "python" / "lamina" / folder
        assert link.resolve() == ROOT / folder and (link / "__init__.py").exists()
