# make demo   set everything up, train a multi-stage recommender on the embedded data, show its report
# make test   set everything up, run all tests      make test-fast  the quick ones, under 90 seconds
# make check  ruff and mypy strict         make bench  the speed ratios as JSON         make docs  the site
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -q
RUN    ?= runs/demo

.PHONY: demo test test-fast test-portable check bench docs clean
.DELETE_ON_ERROR:

demo: $(VENV)/.ready
	$(BIN)/shortlist quickstart --out $(RUN)

test: $(VENV)/.ready-dev
	$(BIN)/python -m pytest -n 2 --dist loadfile --cov --cov-report=term

# The suite on other code paths of the processor and with other numbers of threads: results must not depend on them.
test-portable: $(VENV)/.ready-dev
	ATEN_CPU_CAPABILITY=default $(BIN)/python -m pytest -n 2 --dist loadfile
	MKL_CBWR=COMPATIBLE $(BIN)/python -m pytest -n 2 --dist loadfile
	SHORTLIST_TEST_THREADS=2 $(BIN)/python -m pytest -n 1 --dist loadfile

test-fast: $(VENV)/.ready-dev
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow"

check: $(VENV)/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.ready-dev
	$(BIN)/shortlist bench data --json
	$(BIN)/shortlist bench pipeline --json
	$(BIN)/shortlist bench tree --json
	$(BIN)/shortlist bench index --json
	$(BIN)/shortlist bench ranker --json
	$(BIN)/shortlist bench softmax --json
	$(BIN)/shortlist bench startup --json
	$(BIN)/shortlist bench serve --json
	$(BIN)/shortlist bench batch --json
	$(BIN)/shortlist bench evaluate --json
	$(BIN)/shortlist bench train --json
	$(BIN)/shortlist bench bandit --json
	$(BIN)/shortlist bench ccf --json
	$(BIN)/shortlist bench state --json

docs: $(VENV)/.ready-docs
	$(BIN)/sphinx-build -W --keep-going -b html docs site

clean:
	rm -rf $(VENV) runs site

# A stamp file per set of packages: the second run starts at once, a changed pin installs again.
$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "shortlist needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install -c constraints.txt -e '.[serve]'
	touch $@

$(VENV)/.ready-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install -c constraints.txt -e '.[dev]'
	touch $@ $(VENV)/.ready

$(VENV)/.ready-docs: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install -c constraints.txt -e '.[serve,docs]'
	touch $@ $(VENV)/.ready
