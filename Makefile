# `make test` needs only Python 3.11 or later (with venv), git and make.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
EXTRAS := dev,deep,docs,ray,gym,serve
WORKERS ?= 2

.PHONY: help install reproduce docs lint browser test test-all lock clean
.DEFAULT_GOAL := help

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml requirements.lock | $(BIN)/python
	$(BIN)/python -m pip install --quiet --no-compile -c requirements.lock -e ".[$(EXTRAS)]"
	@touch $@

install: $(VENV)/.installed ## make .venv with the package and all it needs

reproduce: install ## from a fresh clone to the paper's figures
	$(BIN)/cpsrl reproduce

docs: install ## build the site in build/docs, examples executed; warnings are errors
	rm -rf build/docs docs/api/generated
	$(BIN)/python -m sphinx -q -W --keep-going -n -j auto docs build/docs
	@echo "the site is in build/docs/index.html"

lint: install ## ruff and mypy
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

browser: ## install Debian's chromium, in which the tests look at pages
	@command -v chromium || { \
		root=$$([ "$$(id -u)" = 0 ] || echo sudo); \
		$$root apt-get update -qq && \
		$$root apt-get install -qq --yes --no-install-recommends chromium && chromium --version; }

test: lint ## lint, types and tests
	$(BIN)/python -m pytest -n $(WORKERS)

test-all: lint ## the same with the slow tests
	$(BIN)/python -m pytest -n $(WORKERS) -m ""

lock: ## choose the newest versions of everything and write them to requirements.lock
	$(PYTHON) -m venv --clear $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --quiet -e ".[$(EXTRAS),bench]"
	$(VENV)-lock/bin/python -m pip freeze --exclude-editable | sed 's/+cpu$$//' > requirements.lock
	rm -rf $(VENV)-lock

clean: ## remove everything that can be made again
	rm -rf $(VENV) $(VENV)-lock build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf docs/api/generated docs/gallery
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
