# Everything sets itself up: a virtual environment in .venv, and a Java 17 runtime where none is found.
PYTHON ?= python3
BIN := .venv/bin
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export PYSPARK_DRIVER_PYTHON := $(PYSPARK_PYTHON)

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-core test-long check lint docs bench bench-peers clean

help:  ## Show this help
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: .venv/ready  ## Create .venv with all that is needed, and Java if there is none

.venv/ready: setup.cfg pyproject.toml
	@./.ci/need-java
	@./.ci/need-chromium
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@

demo: setup  ## Run the main job: count records of real Avro files, one of them huge, on Spark
	$(BIN)/python examples/read_fn.py

test: setup  ## Run all tests but the long ones
	$(BIN)/python -m pytest -m "not long"

test-core: setup  ## Run the tests that need no Spark, in seconds
	$(BIN)/python -m pytest -m "not spark and not long"

test-long: setup  ## Run the fault and soak runs
	$(BIN)/python -m pytest -m long

lint: setup  ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: setup  ## Build the documentation into build/docs
	$(BIN)/sphinx-build -W -q -b html docs build/docs

check: lint test test-long  ## What CI runs

bench: setup  ## Measure, as ratios within one run
	$(BIN)/python benchmarks/claims.py
	$(BIN)/python benchmarks/throughput.py
	$(BIN)/python benchmarks/connectors.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/lanes.py
	$(BIN)/python benchmarks/report.py
	$(BIN)/python benchmarks/skew.py --kind cpu --slots 2 --seconds 5 20
	$(BIN)/python benchmarks/skew.py --kind wait --slots 8 --seconds 5 20

bench-peers: setup build/peers/ready  ## Measure beside Beam, Dask, Ray, joblib and multiprocessing; installs them
	$(BIN)/python benchmarks/peers.py

build/peers/ready: benchmarks/peers.txt
	$(PYTHON) -m venv build/peers
	build/peers/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

clean:  ## Remove what the other targets made
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
