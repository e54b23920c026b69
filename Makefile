# SPDX-License-Identifier: Apache-2.0
# Every task on this checkout, by name. `make` lists them. Variables: TORCH=2.11.0 for another
# PyTorch than the default, REQUIRE_TORCH=1 to fail where it or anything the tests need is missing,
# TENSORFLOW=2.20.0 for another TensorFlow and TENSORFLOW=0 to leave it out, JOBS for parallelism.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
JOBS ?= 2
export JOBS TORCH REQUIRE_TORCH TENSORFLOW

# Evaluated when a recipe runs, after setup.sh has written it.
IN_ENVIRONMENT = source build/environment.sh; \
  [[ -n $$spillway_venv ]] || { echo "$@ needs PyTorch, but $$spillway_no_torch_reason" >&2; exit 1; }; \
  export VIRTUAL_ENV=$$spillway_venv PATH=$$spillway_venv/bin:$$PATH \
    COMMAND_UNDER_TEST=$$spillway_venv/bin/spillway;

IN_TENSORFLOW = source build/environment.sh; \
  [[ -n $$spillway_tensorflow_venv ]] || \
    { echo "$@ needs TensorFlow, but $$spillway_no_tensorflow_reason" >&2; exit 1; }; \
  export VIRTUAL_ENV=$$spillway_tensorflow_venv PATH=$$spillway_tensorflow_venv/bin:$$PATH \
    COMMAND_UNDER_TEST=$$spillway_tensorflow_venv/bin/spillway;

.PHONY: help
help: ## List the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1|\2/p' $(MAKEFILE_LIST) | \
	  while IFS='|' read -r name what; do printf '  %-18s %s\n' "$$name" "$$what"; done

.PHONY: build
build: ## Set everything up, build, and install into the environment of this checkout
	@scripts/setup.sh test
	@scripts/build.sh

.PHONY: test
test: ## Set everything up, build, and run every test
	@scripts/setup.sh test lint families
	@scripts/setup_tensorflow.sh
	@scripts/build.sh
	@scripts/test.sh

.PHONY: test-core
test-core: ## Build and run the C++ tests alone; needs no Python package
	@scripts/packages.sh
	@cmake --preset release -B build/core -DSPILLWAY_TORCH=OFF
	@cmake --build build/core -j $(JOBS)
	@ctest --test-dir build/core --output-on-failure --no-tests=error -j $(JOBS)

.PHONY: demo
demo: ## Segment a brain with 30 % of the memory, without a limit and under auto, side by side
	@scripts/setup.sh test demo
	@scripts/build.sh package
	@$(IN_ENVIRONMENT) exec python scripts/demo.py brain

.PHONY: demo-text
demo-text: ## Train a language model with 25 % of the memory, side by side likewise
	@scripts/setup.sh test demo
	@scripts/build.sh package
	@$(IN_ENVIRONMENT) exec python scripts/demo.py text

.PHONY: demo-tf
demo-tf: ## Train a Keras network with 40 % of its memory, where stock TensorFlow ends, side by side
	@scripts/setup.sh test
	@scripts/setup_tensorflow.sh tensorflow-demo
	@scripts/build.sh package
	@$(IN_TENSORFLOW) exec python scripts/demo_tensorflow.py

.PHONY: tensorflow-programs
tensorflow-programs: ## Run all of TensorFlow's tests, with every program that make test runs in turn
	@scripts/setup.sh test
	@scripts/setup_tensorflow.sh
	@scripts/build.sh
	@$(IN_TENSORFLOW) TENSORFLOW_PROGRAMS=full exec python -m pytest -p no:cacheprovider \
	  tests/tensorflow $(ARGS)

.PHONY: tensorflow-budgets
tensorflow-budgets: ## Train every TensorFlow program at 50 and 30 % of its peak and at the least budget
	@scripts/setup.sh test
	@scripts/setup_tensorflow.sh
	@scripts/build.sh package
	@$(IN_TENSORFLOW) exec python -m benchmarks.tensorflow_budgets $(ARGS)

.PHONY: tensorflow-planned
tensorflow-planned: ## Train every TensorFlow program under every planner, at budgets and in fuzz
	@scripts/setup.sh test
	@scripts/setup_tensorflow.sh
	@scripts/build.sh package
	@$(IN_TENSORFLOW) exec python -m benchmarks.tensorflow_planned $(ARGS)

.PHONY: tensorflow-planners
tensorflow-planners: ## Compare the peaks that planners predict for TensorFlow programs with measured ones
	@scripts/setup.sh test
	@scripts/setup_tensorflow.sh
	@scripts/build.sh package
	@$(IN_TENSORFLOW) exec python -m benchmarks.tensorflow_planners $(ARGS)

.PHONY: tensorflow-smoke
tensorflow-smoke: ## Train a few programs with another TensorFlow: TENSORFLOW=2.20.0 or 2.19.1
	@scripts/setup.sh test
	@scripts/setup_tensorflow.sh
	@scripts/build.sh package
	@$(IN_TENSORFLOW) exec python -m pytest -p no:cacheprovider \
	  tests/tensorflow/test_training.py tests/tensorflow/test_variables.py $(ARGS)

.PHONY: tensorflow-variables
tensorflow-variables: ## Train a TensorFlow program whose variables do not fit, with less and less memory
	@scripts/setup.sh test
	@scripts/setup_tensorflow.sh
	@scripts/build.sh package
	@$(IN_TENSORFLOW) exec python -m benchmarks.tensorflow_variables $(ARGS)

.PHONY: opinfo
opinfo: build ## Compare every operator PyTorch describes, managed and unmanaged, bit for bit
	@$(IN_ENVIRONMENT) OPINFO=all exec python -m pytest -n $(JOBS) tests/oracle/test_opinfo.py

.PHONY: oracle
oracle: ## Compare every program of the oracle under every optimizer and budget, and all families
	@scripts/setup.sh test families
	@scripts/build.sh
	@$(IN_ENVIRONMENT) ORACLE=full REQUIRE_FAMILIES=1 exec python -m pytest -n $(JOBS) \
	  --ignore tests/oracle/test_opinfo.py tests/oracle

.PHONY: soak
soak: build ## Train for long and watch for growth; steps after forks; a million page pool operations
	@$(IN_ENVIRONMENT) STRESS_OPERATIONS=1000000 \
	  ctest --test-dir $$spillway_build --no-tests=error --output-on-failure -R '^page_pool$$'; \
	  FORK_SPEED=1 python -m pytest -o timeout=0 tests/faults/test_fork_speed.py; \
	  SOAK=1 exec python -m pytest -m soak -o timeout=0 tests

.PHONY: card-programs
card-programs: ## Run 10,000 random programs of a stand-in card alone and under the engine; ARGS=500: so many
	@scripts/packages.sh
	@cmake --preset release -B build/core -DSPILLWAY_TORCH=OFF
	@cmake --build build/core -j $(JOBS) --target stream_programs_test engine_programs_test
	@exec python3 scripts/card_programs.py build/core/runtime/tests/device $(ARGS)

.PHONY: card-oracle
card-oracle: build ## Train the oracle's programs on a stand-in card under budgets of its memory
	@$(IN_ENVIRONMENT) CARD_ORACLE=full exec python -m pytest -n $(JOBS) tests/standin

.PHONY: card-slots
card-slots: ## Check where PyTorch 2.11 to 2.15 have the functions of a card's memory; fetches their wheels
	@scripts/packages.sh
	@exec python3 scripts/card_slots.py $(or $(TORCH),2.11.0 2.12.0 2.13.0 2.14.0 2.15.0)

.PHONY: bench
bench: build ## Run the benchmarks
	@$(IN_ENVIRONMENT) exec scripts/bench.sh

.PHONY: paper-tables
paper-tables: build ## Print the papers' published tables beside what is reached here
	@$(IN_ENVIRONMENT) SPILLWAY_COMMAND=$$COMMAND_UNDER_TEST exec python -m benchmarks.paper_tables

.PHONY: bench-speed
bench-speed: build ## Time training under a budget against stock and tuned PyTorch
	@$(IN_ENVIRONMENT) exec python benchmarks/bench_speed.py $(ARGS)

.PHONY: bench-disk
bench-disk: build ## Time transfers to and from the disk against fio
	@$(IN_ENVIRONMENT) ONLY=disk exec scripts/bench.sh $(ARGS)

.PHONY: bench-large
bench-large: build ## Train GPT-2 XL, larger than the machine, within a third of its memory
	@$(IN_ENVIRONMENT) exec python benchmarks/bench_large.py $(ARGS)

.PHONY: bench-alternatives
bench-alternatives: ## Time each way to train with less memory, and its peak, side by side
	@scripts/setup.sh test families
	@scripts/build.sh package
	@$(IN_ENVIRONMENT) exec python benchmarks/bench_alternatives.py $(ARGS)

.PHONY: tensorflow-alternatives
tensorflow-alternatives: ## Find the largest batch of each way to train with less memory in TensorFlow; needs root
	@scripts/setup.sh test
	@scripts/setup_tensorflow.sh
	@scripts/build.sh package
	@$(IN_TENSORFLOW) exec python benchmarks/tensorflow_alternatives.py $(ARGS)

.PHONY: tensorflow-speed
tensorflow-speed: ## Time TensorFlow programs at half and 30 % of their peak against stock
	@scripts/setup.sh test
	@scripts/setup_tensorflow.sh
	@scripts/build.sh package
	@$(IN_TENSORFLOW) exec python benchmarks/tensorflow_speed.py $(ARGS)

.PHONY: seed-tables
seed-tables: ## Find how much larger things train within one limit, as the papers claim; needs root
	@scripts/setup.sh test families
	@scripts/setup_tensorflow.sh
	@scripts/build.sh package
	@$(IN_ENVIRONMENT) python benchmarks/seed_tables.py $(ARGS)
	@$(IN_TENSORFLOW) exec python benchmarks/seed_tables.py --framework tensorflow $(ARGS)

.PHONY: bench-planning
bench-planning: build ## Time planning, and compare planners over the whole corpus
	@$(IN_ENVIRONMENT) ONLY=planning exec scripts/bench.sh $(ARGS)

.PHONY: bench-growth
bench-growth: build ## Time an op as a program holds more storages, and as it runs on
	@$(IN_ENVIRONMENT) ONLY=growth exec scripts/bench.sh $(ARGS)

.PHONY: gpu
gpu: ## Train on a graphics card while Spillway moves CPU tensors; needs a card
	@scripts/setup.sh test
	@scripts/build.sh package
	@$(IN_ENVIRONMENT) REQUIRE_GPU=1 exec python -m pytest -n $(JOBS) tests/gpu

CARD_GATE = build/bench/benchmarks/card/spillway_card_gate
$(CARD_GATE): FORCE
	@scripts/packages.sh
	@cmake --preset release -B build/bench -DSPILLWAY_TORCH=OFF -DSPILLWAY_TESTS=OFF \
	  -DSPILLWAY_BENCHMARKS=ON
	@cmake --build build/bench -j $(JOBS) --target spillway_card_gate
FORCE:

.PHONY: gpu-check
gpu-check: $(CARD_GATE) ## Ask a graphics card whether a budget holds there; needs one
	@scripts/setup.sh test families
	@scripts/build.sh package
	@$(IN_ENVIRONMENT) exec python -m tests.gpu.check --gate $(CARD_GATE) \
	  --json build/gpu-check.json $(ARGS)

.PHONY: gpu-folder
gpu-folder: $(CARD_GATE) ## Make build/gpu-check, the check for a machine without network
	@scripts/setup.sh test
	@scripts/build.sh package
	@$(IN_ENVIRONMENT) exec python scripts/card_folder.py $(CARD_GATE) build/gpu-check

.PHONY: bench-gpu
bench-gpu: ## Compare machine file and recordings with a graphics card; needs one
	@scripts/setup.sh test families
	@scripts/build.sh package
	@$(IN_ENVIRONMENT) python benchmarks/bench_card.py --write; \
	  exec python benchmarks/bench_prediction.py --write $(ARGS)

.PHONY: lint
lint: ## Check format, naming, layers and static analysis
	@scripts/packages.sh clang-tidy-14
	@scripts/setup.sh test lint
	@scripts/setup_tensorflow.sh
	@source build/environment.sh; \
	  exec "$${spillway_venv:+$$spillway_venv/bin/}python3" scripts/lint.py

.PHONY: sanitize
sanitize: ## Run the C++ tests under the address, undefined-behaviour and thread sanitizers
	@scripts/packages.sh
	@scripts/sanitize.sh asan-ubsan tsan

.PHONY: fuzz
fuzz: ## Feed the readers of traces, plans and machines arbitrary bytes; needs clang
	@scripts/packages.sh clang-14
	@scripts/fuzz.sh

.PHONY: wheel
wheel: ## Build dist/spillway-*.whl for the PyTorch of this checkout
	@scripts/setup.sh test build
	@$(IN_ENVIRONMENT) exec python -m pip wheel --quiet --no-build-isolation --no-deps \
	  --wheel-dir dist .

.PHONY: clean
clean: ## Remove what was built; the environments stay
	@rm -rf build dist out
