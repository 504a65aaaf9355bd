# Everything here works in .venv, which the set-up targets make; PYTHON=/path/to/python chooses the interpreter.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup light model demo test unit lint types integration bench bundle clean

BIN := .venv/bin

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Make .venv with everything pinned: vLLM for the CPU, the fallback engine, the tools (about 1 GB to download)
	@scripts/setup.sh

# The light set is enough for lint, types and unit; where the full set is there, it is used as it is.
light:
	@scripts/setup.sh --unit

model: setup
	@$(BIN)/python scripts/tiny_model.py

demo: setup model ## Run one small debate on the CPU, from nothing: set-up, tiny model (93 MB), report
	$(BIN)/roundtable-local run examples/modular-monolith.md --protocol supermajority --model tiny-cpu --seed 1

test: setup model lint types unit integration ## Run every check: lint, types, unit and engine tests (GPU tests are left out)

unit: light ## Run the tests that need no engine; installs neither vLLM nor torch
	$(BIN)/python -m pytest -m "not engine and not gpu"

lint: light ## Check the style of Python (ruff) and, where shellcheck is installed, of the shell scripts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@if command -v shellcheck >/dev/null; then echo shellcheck; shellcheck scripts/*.sh .ci/run; \
	else echo "shellcheck is not installed: the shell scripts were not checked"; fi

types: light ## Check the types (mypy, strict)
	$(BIN)/mypy
	$(BIN)/mypy scripts

integration: setup model ## Run the tests that use the real vLLM engine with the tiny model, on the CPU
	$(BIN)/python -m pytest -m "engine and not gpu"

bench: setup model ## Measure order of prompts and overhead with the tiny model on this machine (about 15 minutes)
	$(BIN)/python scripts/bench_overhead.py
	$(BIN)/python scripts/bench_round.py

bundle: setup ## Make an air-gap kit with the tiny model in ./bundle (about 1 GB); OUT=DIR and MODEL=DIR name others
	@scripts/make_bundle.sh --out "$(or $(OUT),bundle)" --model "$(or $(MODEL),tiny)"

clean: ## Remove .venv, caches and builds; debates in roundtables/ and the model in the user's cache stay
	rm -rf .venv .venv.lock build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .coverage htmlcov
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
