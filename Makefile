# The front door: one word per thing a person wants. CMake presets and scripts/ do the work, so
# everything here can also be done without make.

.DEFAULT_GOAL := help
.PHONY: help build test demo bench bench-peers format tidy clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build the library and the programs into build/bin
	@scripts/setup build
	@scripts/build

test: ## build and run everything: g++, clang, address and thread sanitizers, project checks
	@scripts/setup test
	@scripts/test

demo: build ## build, then run a service under load, with a dashboard to watch it
	@build/bin/cenote demo

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

tidy: ## check the house rules, then run clang-tidy
	@scripts/setup test
	@scripts/tidy

clean: ## remove everything that was built
	rm -rf build
