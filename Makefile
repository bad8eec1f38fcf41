# SPDX-License-Identifier: Apache-2.0
# Front door. `make help` lists the targets.
SHELL := /bin/bash
JOBS ?= $(shell nproc)
PRESET ?= release
VENV := $(CURDIR)/.venv
STAGE := $(CURDIR)/build/stage
PYTHON := $(VENV)/bin/python
# ccache shares results between checkouts of this tree.
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= 1

.PHONY: help demo test test-all stage wheel bench lint fuzz build clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

demo: ## install what is needed, build, train a digits classifier on an emulated core
	@packaging/install-deps demo
	@$(MAKE) --no-print-directory stage
	@examples/demo.sh --stage $(STAGE) --python $(PYTHON) --out $(CURDIR)/build/demo

stage: ## build and lay the installable tree in build/stage
	@mkdir -p build
	@cmake --preset $(PRESET) -DONRT_BUILD_TESTS=OFF -DONRT_PYTHON=$(PYTHON) -DCMAKE_INSTALL_PREFIX=$(STAGE) > build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
	@cmake --build build/$(PRESET) -j $(JOBS)
	@cmake --install build/$(PRESET) --prefix $(STAGE) > /dev/null

build: stage

test: ## build and pass the tests
	@packaging/install-deps test
	@tests/run --preset $(PRESET) --python $(PYTHON) --jobs $(JOBS)

test-all: ## the tests with the slow ones, sanitizers and fuzzing
	@packaging/install-deps dev
	@tests/run --preset $(PRESET) --python $(PYTHON) --jobs $(JOBS) --all
	@tests/sanitize asan tsan clang-tsa
	@tests/churn --python $(PYTHON)
	@tests/fuzz/run --seconds 1800

wheel: ## the PyTorch backend as a wheel in build/dist
	@packaging/install-deps demo
	@$(MAKE) --no-print-directory stage
	@$(PYTHON) packaging/make_wheel.py --stage $(STAGE) --out build/dist

bench: ## measure against the peers; ratios go to the terminal and build/bench.json
	@packaging/install-deps bench
	@$(MAKE) --no-print-directory stage
	@bench/run --stage $(STAGE) --python $(PYTHON)

lint: ## format, licence lines, layers, spelling, shellcheck, ruff, clang-tidy on changed files
	@packaging/install-deps dev
	@tests/lint/all.sh --python $(PYTHON)

fuzz: ## libFuzzer, 60 s a target
	@packaging/install-deps dev
	@tests/fuzz/run --seconds 60

clean: ## remove build products (keeps .venv)
	@rm -rf build
