# Everything sets itself up: a virtual environment in .venv, and a Java 17 runtime where none is found. What the demo needs
# is there first, in seconds; the rest comes with the first target that needs it.
BEGAN := $(shell date +%s)
PYTHON ?= python3
BIN := .venv/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PYTEST := $(BIN)/python -m pytest -n 4 --dist worksteal --durations 20  # much of it waits
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export PYSPARK_DRIVER_PYTHON := $(PYSPARK_PYTHON)
unexport PYTHONDONTWRITEBYTECODE  # images of containers set it; each process would compile sdf and the tests anew

BENCH := "claims.py" "element_costs.py" "throughput.py" "saving.py" "startup.py --slots 2" "startup.py --slots 8" \
	"connectors.py" "linear.py" "damage.py" "memory.py" \
	"streams.py" "catch_up.py" "many_files.py" "list_objects.py" "sql_csv.py" "hot_keys.py" "rate_limit.py" \
	"failures.py" "slow_host.py" "growth.py" "report.py" "lanes.py" "simulate.py" \
	"skew.py --kind cpu --slots 2" "skew.py --kind wait --slots 8" \
	"skew.py --kind wait --slots 4 --seconds 1 --rounds 3 --ways StagedRunner LiveRunner" \
	"skew.py --kind wait --slots 4 --seconds 2 --rounds 3 --ways StagedRunner LiveRunner" \
	"skew.py --kind cpu --slots 2 --seconds 1 --rounds 3 --ways StagedRunner LiveRunner" \
	"skew.py --kind cpu --slots 2 --seconds 2 --rounds 3 --ways StagedRunner LiveRunner" \
	"skew.py --kind wait --slots 4 --seconds 2 --rounds 3 --busy 4 --only giant --ways StagedRunner LiveRunner" \
	"skew.py --kind wait --slots 4 --seconds 5 --rounds 3 --busy 4 --only giant --ways StagedRunner LiveRunner" \
	"skew.py --kind wait --slots 4 --seconds 10 --busy 4 --only giant --ways StagedRunner LiveRunner"
BENCH_LONG := "growth.py --elements 1000 10000 100000 1000000 10000000 --own 1000000" "mixed.py" "hundred_lanes.py" \
	"memory.py --gigabytes 4 --files 100000" \
	"streams.py --batches 2000" "connectors.py --only gzip --gzip-megabytes 3500 --rounds 1" \
	"simulate.py --slots 10 100 1000 10000 --losses 0 --late 0" "simulate_moving.py" "moving.py" "ablate.py" \
	"skew.py --kind cpu --slots 2 --seconds 20 --ways 32-per-slot StagedRunner LiveRunner" \
	"skew.py --kind wait --slots 8 --seconds 20 --ways 32-per-slot StagedRunner LiveRunner" \
	"skew.py --kind cpu --slots 2 --seconds 60 --ways LiveRunner" \
	"skew.py --kind wait --slots 8 --seconds 60 --ways LiveRunner"

# One after another. One that fails is told at the end, when the others have run.
define measure
	@failed=; \
	for benchmark in $(2); do \
		echo; echo "=== $$benchmark $(3)"; \
		$(BIN)/python benchmarks/$$benchmark $(3) --results $(1) || failed="$$failed; $$benchmark"; \
	done; \
	$(BIN)/python benchmarks/results.py $(1) || failed="$$failed; results.py"; \
	test -z "$$failed" || { echo "these failed$$failed" >&2; exit 1; }
endef

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast test-all test-reached test-versions test-clusters soak check dist lint docs bench bench-quick bench-long bench-peers pictures clean

help:  ## Show this help
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

setup: .venv/ready  ## Create .venv with all that is needed, and Java if there is none

.venv/demo-ready: setup.cfg pyproject.toml
	@./.ci/need-java
	$(PYTHON) -m venv .venv
	$(PIP_INSTALL) --editable '.[avro]'
	@touch $@

.venv/ready: .venv/demo-ready
	@./.ci/need-chromium
	$(PIP_INSTALL) --editable '.[test]'
	@./.ci/share-classes
	@touch $@

demo: .venv/demo-ready  ## Count the words in real Avro files, one of them huge: with flatMap, and with run_sdf
	$(BIN)/python examples/read_fn.py --compare
	@echo "make demo took $$(($$(date +%s) - $(BEGAN))) s, setup and run."

test-fast: setup  ## Run two cases of each test that needs neither Spark nor a server
	$(PYTEST) --few-cases --ignore tests/spark -m "not server and not slow and not soak"

test: setup  ## Run a test of every capability, Spark's included
	$(PYTEST) -m "not slow and not soak"

test-all: setup  ## Run all tests but the soak
	$(PYTEST) -m "not soak"

test-reached: setup  ## Run those tests that make test leaves to make test-all, if what has changed since BASE reaches them
	@tests=$$($(BIN)/python .ci/reached.py $(BASE)); \
	if [ -z "$$tests" ]; then echo "No test reaches what has changed since $(BASE)."; \
	else $(PYTEST) -m "slow and not soak" $$tests || test $$? = 5; fi  # 5: none of them is slow

test-versions:  ## Run a test of every capability with every Spark, or with ONLY=3.5; see docs/versions.md
	@./.ci/need-java
	$(PYTHON) .ci/versions.py $(ONLY)

test-clusters: setup  ## Run tests on real clusters: HDFS, s3a, YARN, Kafka, hosts in network namespaces; fetches 165 MB once, by Maven
	$(PYTEST) --dist loadfile -raP --clusters -m clusters  # a file's tests share their daemons

soak: setup  ## Run faults in large numbers, and take guards out one by one, in an hour
	$(PYTEST) -rP -m soak

dist:  ## Build the wheel and the source distribution into dist/, and check what is in them
	$(PYTHON) -m venv build/for-dist
	build/for-dist/bin/python -m pip install --quiet --disable-pip-version-check build twine
	rm -rf dist
	build/for-dist/bin/python .ci/distributions.py dist

lint: setup  ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: setup  ## Build the documentation into build/docs
	$(BIN)/python docs/options.py
	$(BIN)/python docs/versions.py
	$(BIN)/sphinx-build -W -q -b html docs build/docs

check: lint test  ## Run what has to pass before a change is proposed

bench: setup  ## Measure everything into docs/benchmarks.md and benchmarks/RESULTS.md, in half an hour
	$(call measure,benchmarks/results,$(BENCH),)

bench-quick: setup  ## See that all benchmarks work, in minutes
	$(call measure,build/bench-quick,$(BENCH),--quick)

bench-long: setup  ## Measure the long runs: an hour and more
	$(call measure,benchmarks/results,$(BENCH_LONG),)

bench-peers: setup build/peers/ready  ## Measure beside Beam, Dask, Ray, joblib and multiprocessing; installs them
	PYTHONPATH=$(CURDIR) build/peers/bin/python benchmarks/claims.py --results benchmarks/results
	$(call measure,benchmarks/results,"peers.py",)

build/peers/ready: benchmarks/peers.txt
	$(PYTHON) -m venv build/peers
	build/peers/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

pictures: setup  ## Draw the pictures of README.md and the docs from real runs, and their front page into build
	$(BIN)/python benchmarks/pictures.py

clean:  ## Remove what the other targets made
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
