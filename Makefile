# make demo   install, then the main job: all of level 1 on this machine's CPU, with the report
# make test   install, then the tests
# make check  install, then format, lint, types and the import contracts
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO_RUN ?= runs/demo
export LITELLM_LOCAL_MODEL_COST_MAP := True

.PHONY: demo test check format clean require

demo: $(STAMP)
	@if [ -e $(DEMO_RUN)/run.db ]; then $(BIN)/evokernel resume $(DEMO_RUN); \
	else $(BIN)/evokernel run --level 1 --generations 2 --preset demo --run $(DEMO_RUN); fi

test: $(STAMP)
	$(BIN)/python -m pytest -q -m "not alone" -n 2 --dist loadfile --no-loadscope-reorder
	$(BIN)/python -m pytest -q -m alone --reruns 1 --rerun-show-tracebacks

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV)

require:
	@command -v $(PYTHON) >/dev/null || { echo "EvoKernel needs Python 3.11 or newer, found no '$(PYTHON)': install it, or name one with 'make PYTHON=/path/to/python3 ...'." >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "EvoKernel needs Python 3.11 or newer, '$(PYTHON)' is $$($(PYTHON) -V 2>&1): name a newer one with 'make PYTHON=/path/to/python3 ...'." >&2; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "EvoKernel needs Python's venv module, '$(PYTHON)' lacks it: install it (Debian and Ubuntu: 'apt-get install python3-venv')." >&2; exit 2; }
	@command -v g++ >/dev/null || { echo "EvoKernel needs a C++ compiler, found no 'g++' on the PATH: install it (Debian and Ubuntu: 'apt-get install g++')." >&2; exit 2; }

$(STAMP): pyproject.toml constraints.txt | require
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt --editable . --group dev
	@touch $@
