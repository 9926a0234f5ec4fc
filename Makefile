# `make test` needs only Python 3.11, 3.12 or 3.13 (with venv), git and make.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
VERSIONS := 3.11 3.12 3.13
EXTRAS := dev,deep,docs,ray,gym,serve,worlds
WORKERS ?= 2

.PHONY: help install reproduce docs lint browser test test-all test-one test-versions release-check lock clean
.DEFAULT_GOAL := help

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

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

test-all: lint ## all tests, the slow ones too, on every Python from 3.11 to 3.13 that is found
	@own=$$($(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])') && \
	for version in $(VERSIONS); do \
		if [ $$version = $$own ]; then $(MAKE) test-one || exit 1; continue; fi; \
		found=; \
		for python in python$$version $${PYENV_ROOT:-$$HOME/.pyenv}/versions/$$version.*/bin/python; do \
			if "$$python" -c "import ssl, venv" 2>/dev/null; then found=$$python; break; fi; \
		done; \
		if [ -z "$$found" ]; then echo "==== no Python $$version was found ===="; continue; fi; \
		$(MAKE) test-one PYTHON="$$found" VENV=$(VENV)-$$version || exit 1; \
	done

test-one: install
	@echo "==== all tests with $$($(BIN)/python --version) ===="
	$(BIN)/python -m pytest -n $(WORKERS) -m ""

test-versions: ## what leans on private interfaces, with the lowest and with the newest versions allowed
	for versions in lowest newest; do \
		$(PYTHON) -m venv --clear $(VENV)-$$versions && \
		case $$versions in lowest) limits="-c requirements.lowest";; newest) limits="--upgrade";; esac && \
		$(VENV)-$$versions/bin/python -m pip install --quiet $$limits -e . hypothesis pytest && \
		$(VENV)-$$versions/bin/python -m pytest tests/_private tests/simulation tests/test_seeding.py || exit 1; \
	done

release-check: install ## build sdist and wheel in dist, check them, and try both in environments of their own
	rm -rf dist && $(BIN)/python -m build --outdir dist
	$(PYTHON) -m venv --clear $(VENV)-release
	$(VENV)-release/$(notdir $(BIN))/python -m pip install --quiet twine
	$(VENV)-release/$(notdir $(BIN))/python -m twine check --strict dist/*
	rm -rf $(VENV)-release
	CPSRL_DIST=dist $(BIN)/python -m pytest -m "" tests/test_package.py

lock: ## choose the newest versions of everything and write them to requirements.lock
	$(PYTHON) -m venv --clear $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --quiet -e ".[$(EXTRAS),bench]"
	$(VENV)-lock/bin/python -m pip freeze --exclude-editable | sed 's/+cpu$$//' > requirements.lock
	rm -rf $(VENV)-lock

clean: ## remove everything that can be made again
	rm -rf $(VENV) $(addprefix $(VENV)-,lock lowest newest release $(VERSIONS)) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf docs/api/generated docs/gallery
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
