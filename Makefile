# Two commands do all set-up on a machine with make and Python 3.11 or later:
#   make demo   the core in ./.venv, an example archive into a warehouse, the table of causes
#   make test   what tests need, static checks, all tests (pytest's closing line comes last)
#   make services   a Kafka broker (Java, Maven) and Beam's Prism runner (Go) for tests and trials of the stream, once
# Also: make lint (static checks alone), make soak (the long counts), make example (packs the example again), make clean.
# A step that is done leaves a stamp beside the environment, so a second run starts at once.

VENV ?= .venv
DEMO_DB ?= demo.db
PYTEST_ARGS ?=

BIN := $(VENV)/bin
CORE := $(VENV)/.core-installed
TESTS := $(VENV)/.tests-installed
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
EXAMPLE := examples/example-site.tar.gz

# The first interpreter that is 3.11 or later and can make an environment; PYTHON=... overrides it.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3 /usr/bin/python3; do \
	if $$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then echo $$p; break; fi; done)

export PYTHONDONTWRITEBYTECODE ?= 1

.PHONY: help demo test lint static services soak example clean
.NOTPARALLEL:

help:
	@sed -n 's/^#   //p' $(firstword $(MAKEFILE_LIST))

$(BIN)/python:
	@if [ -z "$(PYTHON)" ]; then \
	  echo "No Python 3.11 or later with the venv and ensurepip modules was found."; \
	  echo "Install one (Debian, Ubuntu: apt-get install python3 python3-venv), or say make PYTHON=/path/to/python3.11 ..."; \
	  exit 2; fi
	@echo "environment: $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)

$(CORE): setup.cfg pyproject.toml | $(BIN)/python
	@echo "installing faultbeam and what it needs (once)"
	@$(PIP) install --editable .
	@touch $@

$(TESTS): $(CORE)
	@echo "installing what the tests need (once)"
	@$(PIP) install --editable '.[test]'
	@touch $@

demo: $(CORE)
	@rm -f $(DEMO_DB)
	@echo "\$$ faultbeam ingest $(EXAMPLE) --cluster example --warehouse sqlite:///$(DEMO_DB)"
	@$(BIN)/faultbeam ingest $(EXAMPLE) --cluster example --warehouse sqlite:///$(DEMO_DB)
	@echo
	@echo "\$$ faultbeam query interruptions_by_component --warehouse sqlite:///$(DEMO_DB)"
	@$(BIN)/faultbeam query interruptions_by_component --warehouse sqlite:///$(DEMO_DB)
	@echo
	@sed -e 's|@BIN@|$(BIN)|g' -e 's|@DB@|$(DEMO_DB)|g' examples/next-steps.txt

static: $(TESTS)
	@began=$$(date +%s) && set -e; \
	echo "ruff check"; $(BIN)/ruff check --quiet .; \
	echo "ruff format --check"; $(BIN)/ruff format --check --quiet .; \
	echo "mypy --strict"; $(BIN)/mypy; \
	echo "lint-imports"; $(BIN)/lint-imports --no-cache >$(VENV)/.lint-imports 2>&1 || { cat $(VENV)/.lint-imports; exit 1; }; \
	echo "faultbeam rules lint"; $(BIN)/faultbeam rules lint; \
	echo "static checks: $$(( $$(date +%s) - began )) s"

lint: static

# Standard library only; needs no environment. Without Java, Maven or Go it says so and the tests of the stream skip.
services: | $(BIN)/python
	@$(BIN)/python -m tests.services

test: static services
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

soak: $(TESTS) services
	@$(BIN)/python -m pytest -m "soak or hypothesis" --hypothesis-profile=soak $(PYTEST_ARGS)

example: $(CORE)
	@$(BIN)/python examples/make_example.py $(EXAMPLE)

clean:
	rm -rf $(VENV) $(DEMO_DB) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist *.egg-info
