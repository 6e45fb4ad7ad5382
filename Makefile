# `make demo` and `make test` work on a fresh clone: they make .venv and install into it first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow lint bench results wheel clean

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

results: .venv/ready  ## the tables, figures and pages of the paper's record, from the runs that are finished
	$(BIN)/fedtrip reproduce all --only-finished --quiet > /dev/null
	$(BIN)/python -m tools.reproduction_page

wheel: .venv/ready
	$(BIN)/python -m build

clean:
	rm -rf .venv demo dist
