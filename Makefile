# make quickstart | test | lint | docs | clean          make PYTHON=python3.12 test          make WORKERS=4 test
# make test SLOW=1 also runs the slow tests, as .ci/run does.
# Every target makes .venv when it is missing and uses it again; a change of setup.py installs anew.

PYTHON ?= python3
WORKERS ?= 2
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
MODELS := docs/_build/models
NO_DEPS := litert-converter==0.5.0 jax2onnx==0.17.1 # see setup.py

.PHONY: quickstart test lint docs clean

quickstart: $(VENV)/.runtime
	@$(BIN)/python -m lwt.quickstart

test: $(VENV)/.test # if a worker dies, the tests end; without the last flag, they hang
	@$(BIN)/python -m pytest $(if $(SLOW),,-m "not slow") -n $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart=0

lint: $(VENV)/.test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

docs: $(VENV)/.test
	@$(BIN)/python -m sphinx --builder html --fresh-env --fail-on-warning --keep-going --quiet docs docs/_build
	@$(MAKE) --no-print-directory --keep-going $(MODELS)/snips-int4/model.wasm $(MODELS)/multi30k-int4/model.wasm \
	  || echo "the page docs/_build/try.html says that its models are missing"
	@echo "look at docs/_build/index.html, or with the models: $(BIN)/python -m http.server --directory=docs/_build"

$(MODELS)/%/model.wasm: pretrained/%/bundle.json $(wildcard lwt/export/wasm/* lwt/export/wasm/source/* lwt/export/c/source/*)
	@echo "compiling pretrained/$* for docs/_build/try.html"
	@$(BIN)/python export.py --target=wasm --workdir=pretrained/$* --activations=int8 --out=$(@D) >/dev/null

clean:
	rm -rf $(VENV) *.egg-info build docs/_build .pytest_cache .ruff_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "lwt needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) --version 2>&1);" \
	    "name another one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.runtime: setup.py | $(BIN)/python
	@echo "installing lwt into $(VENV) (a minute or two, once)"
	@$(PIP) install --editable '.[data]'
	@touch $@

$(VENV)/.test: setup.py | $(BIN)/python
	@echo "installing lwt and what its tests need into $(VENV) (some minutes, once)"
	@$(PIP) install --editable '.[test]'
	@$(PIP) install --no-deps $(NO_DEPS)
	@touch $(VENV)/.runtime $@
