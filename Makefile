# `make demo` and `make test` work on a fresh clone: they make .venv and install into it first.
PYTHON ?= python3
BIN := .venv/bin
CORES := $(shell nproc)

.PHONY: demo test test-slow lint bench results docs evidence reliability reliability-overhead wheel clean

.venv/runtime: pyproject.toml constraints.txt
	@echo "Installing what fedtrip runs with, half of it PyTorch, into .venv: 1.4 GB, some minutes."
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --constraint constraints.txt --editable .
	touch $@

.venv/ready: .venv/runtime
	@echo "Installing what the tests need too, among it Flower and Ray, into .venv: some minutes more."
	$(BIN)/python -m pip install --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: .venv/runtime  ## the six methods of the paper on digits: a table, a plot and a report
	$(BIN)/fedtrip compare --out demo --overwrite

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint  ## everything but what needs minutes
	$(BIN)/pytest -n $(CORES) --dist worksteal -m "not slow"

test-slow: .venv/ready  ## what needs minutes
	$(BIN)/pytest -n $(CORES) --dist loadfile -m slow

bench: .venv/ready  ## speed against a plain PyTorch loop; writes bench/README.md
	$(BIN)/python -m bench

results: .venv/ready  ## the tables, figures and pages of the paper's record, from the runs that are finished
	$(BIN)/fedtrip reproduce all --only-finished --quiet > /dev/null
	$(BIN)/python -m tools.reproduction_page

.venv/docs: .venv/ready
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

docs: .venv/docs  ## the documentation as pages in site/; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

evidence: .venv/ready  ## measures docs/evidence/ again: ten methods on digits, ten trials each, in about ten minutes
	for alpha in 0.5 0.1; do \
	  $(BIN)/fedtrip compare --methods all --trials 10 --partition dirichlet:$$alpha --out runs/evidence-$$alpha --overwrite && \
	  for file in table.md table.json convergence.png; do \
	    cp runs/evidence-$$alpha/$$file docs/evidence/digits-dirichlet-$$alpha/ || exit 1; \
	  done || exit 1; \
	done

reliability: .venv/ready  ## kills, faults, bad input, cost of checkpoints; writes docs/reliability.md
	$(BIN)/python tests/reliability.py

reliability-overhead: .venv/ready  ## only the cost of checkpoints, when nothing else runs on the machine
	$(BIN)/python tests/reliability.py overhead

wheel: .venv/ready
	$(BIN)/python -m build

clean:
	rm -rf .venv demo dist site
