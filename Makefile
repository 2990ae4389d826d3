# Every target sets up what it needs and is quick when nothing changed.
#   make demo | test | bench | cliffs | lint     do their job in .venv
#   make native                         builds the native part into the tree, for PYTHONPATH=python (see CONTRIBUTING.md)
#   make clean                          removes what the others made
# CLIFFS are options of tools/cliffs.py run, as CLIFFS="--graphs=300 --device=cuda --seed=7".
# PYTHON names the interpreter to start from (3.11 to 3.13), VENV the environment, CONSTRAINTS the file of exact versions.

VENV ?= .venv
CONSTRAINTS ?= constraints.txt
PYTHON ?= $(firstword $(foreach v,python3 python3.13 python3.12 python3.11,\
            $(shell $(v) -c 'import sys; (3, 11) <= sys.version_info < (3, 14) and print("$(v)")' 2>/dev/null)))

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install -q -c $(CONSTRAINTS)
NATIVE := CMakeLists.txt $(wildcard python/lamina/runtime/native/*)
TORCH := $(shell sed -n 's/^torch==/torch==/p' $(CONSTRAINTS))

# Without compiled files each process compiles all of Lamina anew, and the tests start many: most of two seconds for each.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test bench cliffs lint native clean
.DELETE_ON_ERROR:

demo: $(VENV)/.native
	$(BIN)/python tools/demo.py

test: $(VENV)/.native
	$(BIN)/python -m pytest -n auto --maxprocesses=8 --dist worksteal

bench: $(VENV)/.bench
	$(BIN)/python tools/bench.py

cliffs: $(VENV)/.bench
	$(BIN)/python tools/cliffs.py run $(CLIFFS)

lint: $(VENV)/.native
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The exact torch first: a range would fetch the newest, several gigabytes with its CUDA libraries. What builds the native part is
# installed too, so that the build is not isolated and finds nothing to download.
$(VENV)/.packages: pyproject.toml $(CONSTRAINTS)
	@test -n "$(PYTHON)" || { echo "Lamina needs Python 3.11 to 3.13: make PYTHON=/path/to/python3.12"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) "$(TORCH)"
	$(INSTALL) scikit-build-core nanobind cmake ninja
	$(BIN)/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; extra = p["optional-dependencies"]; \
	  print(*p["dependencies"], *extra["test"], *extra["lint"], sep="\n")' > $(VENV)/requirements.txt
	$(INSTALL) -r $(VENV)/requirements.txt
	touch $@

$(VENV)/.native: $(VENV)/.packages $(NATIVE)
	PATH="$(abspath $(BIN)):$$PATH" $(INSTALL) --no-build-isolation --no-deps -e .
	$(PIP) check
	touch $@

$(VENV)/.bench: $(VENV)/.native
	$(INSTALL) transformers
	touch $@

native:
	cmake -G Ninja -S . -B build/native -DPython_EXECUTABLE="$$(command -v $(PYTHON))" -DCMAKE_LIBRARY_OUTPUT_DIRECTORY="$(CURDIR)/python/lamina"
	cmake --build build/native

clean:
	rm -rf $(VENV) build python/lamina/*.so
