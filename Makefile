# The README's and CI's commands. Variables: CONTEXT and REGISTRY (a cluster of your own), STATE
# (the local cluster's folder), BASE_IMAGE and CPU_ONLY (images), PYTEST_ARGS.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= python3
STATE ?= .kvasir/cluster
TEST_STATE := $(CURDIR)/.kvasir/test-cluster
PY := .venv/bin/python
CLUSTER := $(PY) -m local_cluster
PYTEST := .venv/bin/pytest
E2E := trap '$(CLUSTER) down --delete --state $(TEST_STATE)' EXIT; export KVASIR_TEST_CLUSTER=$(TEST_STATE); \
	$(CLUSTER) up --state $(TEST_STATE); $(PY) hack/images.py --cpu-only
export PYTHONPATH := $(CURDIR)/hack/local-cluster
# torch's threads sleep, instead of spinning, while they wait: tests share few cores with a cluster.
export OMP_WAIT_POLICY := PASSIVE
.PHONY: help setup model demo programs cluster-up cluster-down images generate lint \
	test test-unit test-gpu test-e2e test-long test-newest-torch

help: ## list the targets
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)/  \1\t\2/p' Makefile | expand -t 22

.venv/.set-up: uv.lock pyproject.toml
	test -x $(PY) || $(PYTHON) -m venv .venv
	$(PY) -m uv --version >/dev/null 2>&1 || $(PY) -m pip install --quiet uv==0.13.9
	$(PY) -m uv sync --frozen --all-extras
	touch $@

setup: .venv/.set-up ## .venv with all extras and the test clients

model: setup ## the demo model's folder, built once; prints its path
	@$(PY) hack/demo_model.py

demo: setup ## from nothing to an answer; CONTEXT=… REGISTRY=… for a cluster of your own
	@$(PY) hack/demo.py --state '$(STATE)' --context '$(CONTEXT)' --registry '$(REGISTRY)' --base '$(BASE_IMAGE)'

programs: setup # the local cluster's programs, built once
	@$(CLUSTER) binaries

cluster-up: setup ## a one-node Kubernetes on this machine
	@$(CLUSTER) up --state '$(STATE)'

cluster-down: setup ## stop it
	@$(CLUSTER) down --state '$(STATE)'

images: setup ## both images; CPU_ONLY=1 leaves out what only GPUs use
	@$(PY) hack/images.py $(if $(CPU_ONLY),--cpu-only) --base '$(BASE_IMAGE)'

generate: setup ## the CRD from the typed model
	$(PY) -m kvasir_operator.model.generate

lint: setup ## style, types, imports, generated files, the chart
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	$(PY) -m kvasir_operator.model.generate --check
	$(PY) hack/lint_chart.py

test: setup programs model lint test-unit test-e2e ## what CI runs

test-unit: model ## unit and contract tests
	$(PYTEST) -m 'not e2e and not long and not gpu' $(PYTEST_ARGS)

test-gpu: setup ## the kernels and the engine on this machine's GPU
	KVASIR_TEST_DEVICE=cuda $(PYTEST) tests/gpu tests/kernels tests/runtime/engine tests/runtime/models \
		tests/runtime/test_llm.py $(PYTEST_ARGS)

test-e2e: model ## on a cluster of their own, stopped at the end
	$(E2E); $(PYTEST) -m 'e2e and not long' $(PYTEST_ARGS)

test-long: model ## the slow ones
	$(E2E); $(PYTEST) -m long $(PYTEST_ARGS)

test-newest-torch: ## the CPU tests on the newest torch, in .venv-newest
	test -x .venv-newest/bin/python || $(PYTHON) -m venv .venv-newest
	.venv-newest/bin/pip install --quiet --upgrade --upgrade-strategy=eager --editable '.[operator,runtime,dev]'
	.venv-newest/bin/pytest tests/runtime tests/kernels -m 'not e2e and not long and not gpu' $(PYTEST_ARGS)
