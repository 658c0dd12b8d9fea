# The study in one command each. `make help` lists them. Everything happens in .venv beside this file.
PYTHON ?= python3
VENV ?= .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup study test notebooks reports lab lint clean

help: ## this list
	@grep -E '^[a-z]+:.*## ' $(firstword $(MAKEFILE_LIST)) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(STAMP) ## create .venv and install everything at the pinned versions

study: $(STAMP) ## set up, run the alpha ablation, and say where notebook, figure and rows are
	$(PY) -m xmr_core run notebooks/ablation_alpha.ipynb

test: $(STAMP) ## set up, then run all tests and compare every notebook with its committed outputs
	$(PY) -m pytest --nbval tests notebooks

notebooks: $(STAMP) ## run every notebook on its defaults and store its outputs in place
	$(PY) scripts/refresh_notebooks.py notebooks/*.ipynb

lab: $(STAMP) ## open the notebooks in JupyterLab
	$(PY) -m jupyter lab notebooks

lint: $(STAMP) ## style
	$(PY) -m ruff check .

clean: ## remove runs, caches and outputs (not .venv)
	rm -rf runs cache outputs

# torch first and alone: an unpinned torch would pull gigabytes of GPU libraries
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) -V 2>&1). Give another: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check "$$(grep '^torch==' constraints.txt)"
	$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	touch $(STAMP)
