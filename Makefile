# `make demo` and `make test` set up what they need. TRITON picks the version; PYTHON the interpreter.
# numpy stays below 2.4: Triton 3.6.0 cannot interpret kernels with a newer one.
TRITON ?= 3.9.0
PYTHON ?= $(shell for p in python3.12 python3.11 python3.13 python3; do $$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && command -v $$p && break; done)
TORCH ?= torch==2.13.0
VENV ?= .venv-$(TRITON)
BIN = $(VENV)/bin

.PHONY: demo test sweep lint format clean

$(VENV)/ready: pyproject.toml
	@test -n "$(PYTHON)" || { echo "No Python 3.11-3.13 was found; set PYTHON."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -U pip
	$(BIN)/python -m pip install -q $(TORCH) "numpy<2.4"
	$(BIN)/python -m pip install -q triton==$(TRITON) -e ".[dev,sweep]"
	touch $@

demo: $(VENV)/ready
	$(BIN)/python examples/demo.py

test: $(VENV)/ready
	$(BIN)/python -m pytest
	TRITON_INTERPRET=1 $(BIN)/python -m pytest tests/interpreted

sweep: $(VENV)/ready
	$(BIN)/python benchmarks/sweep/sweep.py benchmarks/results/sweep-triton-$(TRITON).json --journals sweep-$(TRITON)

lint: $(VENV)/ready
	$(BIN)/ruff check src tests examples benchmarks
	$(BIN)/ruff format --check src tests examples benchmarks
	$(BIN)/mypy

format: $(VENV)/ready
	$(BIN)/ruff check --fix src tests examples benchmarks
	$(BIN)/ruff format src tests examples benchmarks

clean:
	rm -rf .venv-* demo-out sweep-*
