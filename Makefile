# Shortcuts for common tasks. The work is done by scripts/ and CMake presets, which can be used
# without make.

.DEFAULT_GOAL := help
.PHONY: help build test test-all demo docs packages bench bench-peers format tidy clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build the library and the programs, in build/bin
	@scripts/setup build
	@scripts/build

test: ## build with g++ and run every test: 10 to 15 minutes on two cores
	@scripts/setup test
	@scripts/test

test-all: ## the same, then address and thread sanitizers, lint and a soak: 40 to 60 minutes
	@scripts/setup test
	@scripts/test --all

demo: ## build and run a service under load, with a dashboard
	@scripts/setup build
	@scripts/build cenote-demo
	@build/release/demo/cenote demo

docs: ## build the guide and the reference as a site, in build/docs/site
	@scripts/setup docs
	@scripts/docs

packages: ## build Debian packages of the library and the command, in build/packages
	@scripts/setup packages
	@scripts/build cenote_packages
	@ls build/packages/*.deb

bench: ## build and run the benchmarks
	@scripts/setup bench
	@scripts/bench

bench-peers: ## install other pools, build them, and include them in the benchmarks
	@scripts/setup bench-peers
	@scripts/build-peers
	@scripts/bench

format: ## rewrite all C++ files with clang-format
	@scripts/setup format
	@scripts/format

tidy: ## check the project's rules and run clang-tidy on changed files
	@scripts/setup test
	@scripts/tidy

clean: ## remove all build output
	rm -rf build
