# The front door: one word per thing a person wants. CMake presets and scripts/ do the work, so
# everything here can also be done without make.

.DEFAULT_GOAL := help
.PHONY: help build test test-all demo bench bench-peers format tidy clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build the library and the programs into build/bin
	@scripts/setup build
	@scripts/build

test: ## build with g++ and run every test: 13 to 21 minutes on two cores
	@scripts/setup test
	@scripts/test

test-all: ## the same, then address and thread sanitizers, lint and a soak: 45 to 70 minutes
	@scripts/setup test
	@scripts/test --all

demo: ## build and run a service under load, with a dashboard to watch it
	@scripts/setup build
	@scripts/build cenote-demo
	@build/release/demo/cenote demo

bench: ## build and run the benchmarks
	@scripts/setup bench
	@scripts/bench

bench-peers: ## install the pools of others, and measure them beside cenote
	@scripts/setup bench-peers
	@scripts/build-peers
	@scripts/bench

format: ## rewrite all C++ files with clang-format
	@scripts/setup format
	@scripts/format

tidy: ## check the project's rules, then run clang-tidy over what has changed
	@scripts/setup test
	@scripts/tidy

clean: ## remove everything that was built
	rm -rf build
