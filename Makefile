# `make demo` and `make test` work on a fresh clone: they make .venv and install into it first.
PYTHON ?= python3
BIN := .venv/bin
CORES := $(shell nproc)
NATIVE := src/fedtrip/native/libfedtrip_native.so
CMAKE := $(or $(shell command -v cmake),$(BIN)/cmake)

.PHONY: native demo test test-slow cross lint bench results docs evidence race reliability reliability-overhead wheel clean

.venv/runtime: pyproject.toml constraints.txt
	@echo "Installing what fedtrip runs with, half of it PyTorch, into .venv: 1.4 GB, some minutes."
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --constraint constraints.txt --editable .
	touch $@

.venv/ready: .venv/runtime
	@echo "Installing what the tests need too, among it Flower and Ray, into .venv: some minutes more."
	$(BIN)/python -m pip install --constraint constraints.txt --editable '.[dev]'
	touch $@

$(BIN)/cmake: | .venv/runtime
	$(BIN)/python -m pip install --constraint constraints.txt cmake

$(NATIVE): CMakeLists.txt $(wildcard src/fedtrip/native/engine/*.* src/fedtrip/native/engine/kernels/*) | $(CMAKE)
	$(CMAKE) -S . -B build/native
	$(CMAKE) --build build/native --parallel $(CORES)
	cp build/native/$(@F) $@.new && mv $@.new $@  # never over the file: a process may be using it

native: $(NATIVE)  ## the compiled library, in its place in src/

# Tests and measurements must not run on torch alone because the library could not be built. The demo may.
test test-slow cross bench race evidence reliability reliability-overhead: export FEDTRIP_NATIVE = required

demo: .venv/runtime  ## the paper's methods and fedtrip-auto on digits: a table, a plot and a report
	@$(MAKE) --no-print-directory native || echo "The native library could not be built; the demo runs on torch alone."
	$(BIN)/fedtrip compare --out demo --overwrite

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

test: lint $(NATIVE)  ## everything but what needs minutes
	$(BIN)/pytest -n $(CORES) --dist worksteal -m "not slow and not cross"

test-slow: .venv/ready $(NATIVE)  ## what needs minutes
	$(BIN)/pytest -n $(CORES) --dist loadfile -m slow

cross: .venv/ready $(NATIVE)  ## every combination of rules, and kills at every moment for every method that keeps something
	$(BIN)/pytest -n $(CORES) --dist worksteal -m cross

bench: .venv/ready $(NATIVE)  ## speed against a plain PyTorch loop and sgemm, more than an hour; writes bench/README.md
	$(BIN)/python -m bench

race: .venv/ready $(NATIVE)  ## the same task on Flower's simulation and on pfl, each in an environment of its own; writes bench/RACE.md
	$(BIN)/python -m bench.race

results: .venv/ready  ## the tables, figures and pages of the paper's record, from the runs that are finished
	$(BIN)/fedtrip reproduce all --only-finished --quiet > /dev/null
	$(BIN)/python -m tools.reproduction_page

.venv/docs: .venv/ready
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

docs: .venv/docs  ## the documentation as pages in site/; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

evidence: .venv/ready $(NATIVE)  ## measures docs/evidence/ again: every method in four federations on digits, ten trials each, and tuned; an hour
	$(BIN)/python -m tools.evidence

reliability: .venv/ready $(NATIVE)  ## kills, faults, bad input, cost of checkpoints; writes docs/reliability.md
	$(BIN)/python tests/reliability.py

reliability-overhead: .venv/ready $(NATIVE)  ## only the cost of checkpoints, when nothing else runs on the machine
	$(BIN)/python tests/reliability.py overhead

wheel: .venv/ready  ## the sdist and a wheel for every Linux with a C library that is not older than it needs
	rm -rf build/wheel
	$(BIN)/python -m build --outdir build/wheel
	PATH="$(CURDIR)/$(BIN):$$PATH" auditwheel repair --wheel-dir dist build/wheel/*.whl
	mv build/wheel/*.tar.gz dist/

clean:
	rm -rf .venv build demo dist site $(NATIVE)
