# Setting up and running Countersign. `make help` lists what there is.

PYTHON3 ?= python3
VENV ?= .venv
PYTHON = $(VENV)/bin/python
PIP = $(PYTHON) -m pip install --quiet --quiet --disable-pip-version-check
PEER = $(VENV)-bench
SERVICES = $(PYTHON) -m project.services
PYTEST = $(PYTHON) -m pytest -q
# Two processes, each with a database of its own; the tests with a browser need both cores for one.
IN_TWO = -n 2 --dist worksteal --ignore reviews/tests/browser
ON_SQLITE = env -u DATABASE_URL -u REDIS_URL $(PYTEST) $(IN_TWO)

# Compiled once, not in each process anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run test test-fast bench-checkpoints bench-timeline bench-stream bench-click lint fmt services services-stop clean

help: ## show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' Makefile

run: $(VENV)/run.stamp ## start the desk on this machine; PORT=8001 make run for another port
	@$(PYTHON) -m project.embedded

test: $(VENV)/dev.stamp ## everything: checks, tests on SQLite, tests on PostgreSQL and Redis with real workers and a browser
	$(SERVICES) install
	$(MAKE) lint
	$(ON_SQLITE) -m "not browser and not production and not thorough"
	$(SERVICES) run -- $(PYTEST) $(IN_TWO)
	$(SERVICES) run -- $(PYTEST) reviews/tests/browser

test-fast: $(VENV)/dev.stamp ## tests on SQLite, without browser, crashes and what takes long; under a minute
	$(ON_SQLITE) -m "not browser and not production and not thorough and not crash and not long"

bench-checkpoints: $(VENV)/dev.stamp ## our checkpoints against SqliteSaver and PostgresSaver, one JSON line a case; some minutes
	@$(SERVICES) install
	@env -u DATABASE_URL -u REDIS_URL $(PYTHON) -m agents.benchmarks.checkpoints
	@$(SERVICES) run -- $(PYTHON) -m agents.benchmarks.checkpoints

bench-timeline: $(VENV)/dev.stamp ## timeline pages of a thread of 10,000 checkpoints, beside get_state_history; some minutes
	@$(SERVICES) install
	@env -u DATABASE_URL -u REDIS_URL $(PYTHON) -m project.benchmarks.timeline
	@$(SERVICES) run -- $(PYTHON) -m project.benchmarks.timeline

bench-stream: $(VENV)/dev.stamp ## events to many pages, embedded and in production shape; some minutes
	@$(SERVICES) install
	@env -u DATABASE_URL -u REDIS_URL $(PYTHON) -m project.benchmarks.stream --shapes embedded
	@$(SERVICES) run -- $(PYTHON) -m project.benchmarks.stream --shapes production

bench-click: $(VENV)/dev.stamp ## from the click on approve to the result on a page, beside langgraph dev; some minutes
	@$(SERVICES) install
	@test -x $(PEER)/bin/langgraph || { $(PYTHON3) -m venv $(PEER) && $(PEER)/bin/pip install -q -r requirements-bench.txt; } \
		|| { rm -rf $(PEER); echo 'requirements-bench.txt cannot be installed here; there is no peer.' >&2; }
	@$(SERVICES) run -- $(PYTHON) -m project.benchmarks.click --langgraph $(PEER)/bin/langgraph

lint: $(VENV)/dev.stamp ## format, lint, types, imports, templates, migrations, deployment settings
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy .
	$(VENV)/bin/lint-imports
	find templates -name '*.html' -exec $(VENV)/bin/djade --target-version 5.2 --check {} +
	DJANGO_SETTINGS_MODULE=project.tests.settings $(PYTHON) manage.py makemigrations --check --dry-run
	$(PYTHON) -m pytest -q project/tests/test_deploy.py

fmt: $(VENV)/dev.stamp ## format what can be formatted
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .
	find templates -name '*.html' -exec $(VENV)/bin/djade --target-version 5.2 {} +

services: $(VENV)/dev.stamp ## start PostgreSQL and Redis for development, and print the variables that use them
	@$(SERVICES) install
	@$(SERVICES) start

services-stop: $(VENV)/dev.stamp ## stop what `make services` started
	@$(SERVICES) stop

clean: ## remove the virtual environment and caches; data/ stays
	rm -rf $(VENV) .mypy_cache .ruff_cache .import_linter_cache staticfiles

$(PYTHON):
	@$(PYTHON3) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'Countersign needs Python 3.11 or newer: PYTHON3=/path/to/python3 make run'; exit 1; }
	@$(PYTHON3) -m venv $(VENV) || \
		{ rm -rf $(VENV); echo 'No virtual environment could be made (Debian: apt-get install python3-venv).'; exit 1; }

$(VENV)/run.stamp: requirements.txt | $(PYTHON)
	@echo 'Installing requirements.txt into $(VENV); once, and again when it changes ...'
	@$(PIP) -r requirements.txt
	@touch $@

$(VENV)/dev.stamp: requirements.txt requirements-dev.txt | $(PYTHON)
	@echo 'Installing requirements-dev.txt into $(VENV); once, and again when it changes ...'
	@$(PIP) -r requirements-dev.txt
	@touch $@ $(VENV)/run.stamp
