"""lit's configuration: `lit test`, or pytest, which runs the same files through test/conftest.py."""

import importlib.util
import os
import sys

import lit.formats

config.name = "lamina"  # noqa: F821  # lit defines `config`
config = config  # noqa: F821
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "unit", "e2e"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.test_source_root, "Output")

for name in ("HOME", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "LAMINA_STRICT"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
config.environment["LAMINA_TUNE_STORE"] = os.path.join(config.test_exec_root, "tuning.json")  # not the user's, and never made

# The lamina that this process would import is the one under test; without an installed one, this tree's.
found = importlib.util.find_spec("lamina")
package = next(iter(found.submodule_search_locations or [])) if found else os.path.join(config.test_source_root, "../python/lamina")
paths = [os.path.dirname(os.path.abspath(package)), *filter(None, [os.environ.get("PYTHONPATH")])]
config.environment["PYTHONPATH"] = os.pathsep.join(paths)

# By a process that has imported them, which pytest starts.
tools = os.environ.get("LAMINA_TEST_TOOLS")
run = f"%python -S -E {config.test_source_root}/prefork.py {tools}" if tools else "%python -m"

# A tool's name counts where it stands as a word by itself, not inside a path.
for tool, module in (
    ("opt-driver", "lamina.tools.opt_driver"),
    ("FileCheck", "filecheck"),
    ("lamina(?= tune)", "lamina.tools.lamina_command"),
):
    config.substitutions.append((rf"(?<![\w/.-]){tool}(?![\w/.-])", f"{run} {module}"))
config.substitutions.append(("%python", sys.executable))
