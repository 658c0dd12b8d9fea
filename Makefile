# The study in one command each; `make help` lists them. Everything is installed into .venv beside this file.
# PYTHON: the interpreter that makes .venv.  VENV: another place for it.  NOTEBOOK: what `make study` runs.
# TORCH_PIP: extra pip options for torch alone, for instance an index that has another build of it. Without them pip
# takes the platform's default build of the pinned version: on Linux that is the one with GPU support.
PYTHON ?= python3
VENV ?= .venv
NOTEBOOK ?= notebooks/ablation_alpha.ipynb
TORCH_PIP ?=
PY := "$(VENV)/bin/python"
PIP := $(PY) -m pip --quiet --disable-pip-version-check
STAMP := $(VENV)/.installed
# A process per core; a file, and so the cells of a notebook, stays in one process; conftest.py puts the longest first.
WORKERS := -n auto --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help setup study check test notebooks reports report readme lab lint clean clean-runs

help: ## this list
	@grep -E '^[a-z-]+:.*## ' Makefile | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

setup: $(STAMP) ## create .venv and install everything at the pinned versions

study: $(STAMP) ## set up, run the alpha ablation, say where notebook, figure and rows are
	$(PY) -m xmr_study run "$(NOTEBOOK)"

check: $(STAMP) ## lint, the rules of architecture and the fast tests, on all cores: a minute on two quiet ones, for every change
	@start=$$(date +%s); $(PY) -m ruff check . && $(PY) -m pytest $(WORKERS) -m "not slow" tests && \
		echo "make check took $$(( $$(date +%s) - start )) s"

test: $(STAMP) ## set up, run all tests, compare every notebook with its stored outputs, on all cores: 14 to 31 minutes on two, by processor
	$(PY) -m pytest $(WORKERS) --durations=30 --nbval tests notebooks

notebooks: $(STAMP) ## run every notebook on its defaults and store the outputs in place
	$(PY) scripts/refresh_notebooks.py notebooks/*.ipynb

reports: $(STAMP) ## rebuild reports/ from the rows in reports/protocol and the verdicts
	$(PY) scripts/build_reports.py

report: reports ## the same, with all documents and notebooks, as a site (build/html); the results as build/report.pdf, with a Chromium on the path
	$(PY) scripts/build_site.py

readme: $(STAMP) ## rewrite the tables of methods in README.md and docs/methods/options.md
	$(PY) scripts/build_readme.py

lab: $(STAMP) ## open working copies of the notebooks in JupyterLab: lab/, which git ignores; delete a copy to begin anew
	$(PY) -m xmr_study notebooks lab
	$(PY) -m jupyterlab lab

lint: $(STAMP) ## style
	$(PY) -m ruff check .

clean: ## remove caches, executed notebooks and build leftovers; keep trained runs and .venv
	rm -rf cache outputs build *.egg-info .pytest_cache .ruff_cache .hypothesis

clean-runs: ## remove every trained run
	rm -rf runs

# torch alone and first: chosen together with the rest, another build of it might be resolved.
$(STAMP): pyproject.toml constraints.txt
	@command -v "$(PYTHON)" >/dev/null || { echo "error: $(PYTHON) not found. Give one: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "error: Python 3.11 or newer is needed, but $(PYTHON) is $$("$(PYTHON)" -V 2>&1)." \
		"Give another: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PY) -m pip --version >/dev/null 2>&1 || { echo "creating $(VENV)"; "$(PYTHON)" -m venv --clear "$(VENV)"; }
	@$(PY) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "error: $(VENV) was made with an older Python: remove it and try again." >&2; exit 1; }
	@echo "installing the pinned versions (a few minutes the first time)"
	$(PIP) install $(TORCH_PIP) "$$(grep '^torch==' constraints.txt)"
	$(PIP) install -c constraints.txt -e '.[test]'
	@touch "$(STAMP)"
