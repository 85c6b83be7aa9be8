# The door for people. Nothing has to be installed first but git, make and Python 3.11 or newer.
#
# Everything runs in .venv, which the first target that needs it makes from the hash-pinned files in requirements/.
# It is remade only when one of those files changes, or when the checkout has been moved or copied.

.DEFAULT_GOAL := help
.PHONY: help setup demo test bench crash soak lint check fmt docs lock clean
.DELETE_ON_ERROR:

# Another interpreter: make demo PYTHON=/path/to/python3.12
PYTHON ?=
# More for pytest: make test ARGS="tests/ledger -x"
ARGS ?=

# What a person's shell may have set and a locked environment must not inherit.
unexport PYTHONPATH PYTHONHOME PIP_TARGET PIP_PREFIX PIP_USER PIP_REQUIRE_VIRTUALENV PIP_NO_DEPS

HERE := $(shell pwd | cksum | cut -d ' ' -f 1)
READY := .venv/.ready-$(HERE)
RUN := .venv/bin/python -m

help: ## what can be asked for
	@echo "make demo    set up what is needed and run a whole Delivery, offline, in seconds"
	@echo "make test    set up what is needed and run the tests"
	@echo "make check   everything a change must pass: make lint, then make test"
	@echo "make bench   what it costs, beside its budgets and plain LangGraph; minutes (docs/performance.md)"
	@echo "make crash   kill it at every boundary, fail each kind of boundary in every other way; takes some minutes"
	@echo "make soak    kill, starve and surprise it at every boundary; takes 10 minutes, or SOAK_S seconds (docs/testing.md)"
	@echo "make lint    format, lint, strict types, import contracts, capabilities, tracked files"
	@echo "make fmt     put the code into the house's format"
	@echo "make docs    write the pages that are made from code (docs/events.md)"
	@echo "make lock    resolve the dependencies anew into requirements/*.txt"
	@echo "make clean   remove .venv and everything that tools left behind"

setup: $(READY)

$(READY): requirements/dev.txt pyproject.toml .ci/setup
	@PYTHON='$(PYTHON)' sh .ci/setup '$(READY)'

demo: $(READY)
	@.venv/bin/runner demo

test: $(READY)
	@$(RUN) pytest -n 2 --dist worksteal $(ARGS)

crash: $(READY)
	$(RUN) tests.crash every $(ARGS)

# Ten minutes, or as long as it is told: make soak SOAK_S=28800
SOAK_S ?= 600
soak: $(READY)
	$(RUN) tests.crash soak --seconds $(SOAK_S) $(ARGS)

# One part, or another form: make bench ARGS="recovery --json"
bench: $(READY)
	@$(RUN) benchmarks $(ARGS)

lint: $(READY)
	$(RUN) ruff format --check .
	$(RUN) ruff check .
	$(RUN) mypy
	.venv/bin/lint-imports
	$(RUN) tests.house

check: lint test

fmt: $(READY)
	$(RUN) ruff format .
	$(RUN) ruff check --fix .

docs: $(READY)
	$(RUN) tests.house.event_table

lock:
	@PYTHON='$(PYTHON)' sh .ci/lock

clean:
	rm -rf .venv build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache ./*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
