# `make demo` and `make test` work on a fresh clone: they make .venv and install into it first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow lint bench reliability reliability-overhead wheel clean

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: .venv/ready  ## the six methods of the paper on scikit-learn's digits: a table and a plot
	$(BIN)/fedtrip compare --out demo --overwrite

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint  ## everything but what needs minutes
	$(BIN)/pytest -m "not slow"

test-slow: .venv/ready  ## what needs minutes
	$(BIN)/pytest -m slow

bench: .venv/ready  ## speed against a plain PyTorch loop; writes bench/README.md
	$(BIN)/python -m bench

reliability: .venv/ready  ## kills, faults, bad input, cost of checkpoints; writes docs/reliability.md
	$(BIN)/python tests/reliability.py

reliability-overhead: .venv/ready  ## only the cost of checkpoints, when nothing else runs on the machine
	$(BIN)/python tests/reliability.py overhead

wheel: .venv/ready
	$(BIN)/python -m build

clean:
	rm -rf .venv demo dist
