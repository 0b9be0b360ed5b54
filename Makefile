# Every target does all its own set-up, on a machine that has Python >= 3.11, git and make.
# Stamp files in .venv make a repeated call quick.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
SHELL := /bin/sh

VENV := .venv
BIN := $(VENV)/bin
# Silent but for errors.
PIP := $(BIN)/python -m pip --quiet --quiet --disable-pip-version-check --no-input
# More workers than cores: the tests wait for locks and syncs more than they compute.
WORKERS ?= 4
PYTEST_ARGS ?=
BENCH_ARGS ?=

.PHONY: help demo invoices test torture bench bench-peers bench-outbox lint format types contracts check lock clean

help: ## Say what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /  make \1\t/' | expand -t 20

demo: $(VENV)/.stamp-duly ## Show the whole promise in seconds
	@$(BIN)/duly demo

invoices: $(VENV)/.stamp-dev servers ## Bill 1,000 accounts while everything is killed for a minute, and prove the outcome
	$(BIN)/python examples/invoices/prove.py

test: $(VENV)/.stamp-dev servers ## Run the tests on SQLite, PostgreSQL and MariaDB
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not torture" $(PYTEST_ARGS)

torture: $(VENV)/.stamp-dev servers ## Run the whole matrix, also what is too long for `make test`
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -p tests.torture.report $(PYTEST_ARGS)

bench: $(VENV)/.stamp-dev servers ## Measure duly beside the same work by hand; writes bench/RESULTS.md
	$(BIN)/python bench/speed.py $(BENCH_ARGS)

# Each peer gets an environment of its own under .bench/.
bench-peers: $(VENV)/.stamp-dev servers ## Measure what peers cost and hold for the same work; writes bench/PEERS.md
	$(BIN)/python bench/peers.py $(BENCH_ARGS)

bench-outbox: $(VENV)/.stamp-dev servers ## Measure messages enqueued and delivered beside peers; writes bench/OUTBOX.md
	$(BIN)/python bench/outbox.py $(BENCH_ARGS)

lint: $(VENV)/.stamp-dev ## Check style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.stamp-dev ## Repair style and format where a machine can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.stamp-dev ## Check types, strictly
	$(BIN)/mypy

contracts: $(VENV)/.stamp-dev ## Check who imports whom
	$(BIN)/lint-imports

check: ## Everything that CI runs, in its order
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory types
	@$(MAKE) --no-print-directory contracts

# The file names versions, never where one machine gets them from (tests/tidy).
lock: $(VENV)/.stamp-dev ## Pin the newest versions of everything the development needs
	$(PIP) install uv
	$(BIN)/uv pip compile --quiet --no-config --upgrade --universal --python-version 3.11 \
		--custom-compile-command "make lock" \
		--group dev --output-file requirements-dev.lock pyproject.toml

clean: ## Remove the virtual environment and every cache
	rm -rf $(VENV) .bench .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache dist

# ----------------------------------------------------------------------------------------- set-up

.PHONY: servers
servers: $(VENV)/.stamp-venv
	@tests/servers/provision.sh $(BIN)/python

# The first Python that is new enough; a name may exist and yet not run, or be an older version.
$(VENV)/.stamp-venv:
	@for python in $$PYTHON python3 python3.14 python3.13 python3.12 python3.11 python; do \
		"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || continue; \
		"$$python" -c 'import ensurepip, venv' >/dev/null 2>&1 || { lame=$$python; continue; }; \
		rm -rf $(VENV) && "$$python" -m venv $(VENV) && touch $@ && exit 0; \
	done; \
	if [ -n "$$lame" ]; then \
		echo "$$lame cannot make a virtual environment: install its venv module (Debian: apt-get install python3-venv)" >&2; \
	else \
		echo "no Python 3.11 or newer found: install one, or name it: make PYTHON=/path/to/python3" >&2; \
	fi; exit 1

# What a user gets, at the versions that were tested.
$(VENV)/.stamp-duly: $(VENV)/.stamp-venv pyproject.toml requirements-dev.lock
	@echo "installing duly into $(VENV)"
	@$(PIP) install --constraint requirements-dev.lock hatchling editables
	@$(PIP) install --constraint requirements-dev.lock --no-build-isolation --editable .
	@touch $@

$(VENV)/.stamp-dev: $(VENV)/.stamp-duly
	@echo "installing the development tools into $(VENV)"
	@$(PIP) install --requirement requirements-dev.lock
	@touch $@
