# `make` lists what there is. The environment in .venv is made on first use and again when pyproject.toml or
# constraints.txt change; nothing has to be done by hand.

# A distribution's Python goes first where it can make environments: it is built with profile-guided optimisation, what a
# version manager compiles is not unless told, and everything takes a fifth longer with it (docs/performance.md).
SYSTEM_PYTHON := /usr/bin/python3
PYTHON ?= $(shell $(SYSTEM_PYTHON) -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
    && echo $(SYSTEM_PYTHON) || echo python3)
VENV := .venv
BIN := $(VENV)/bin

# A stamp is touched only after pip has succeeded, so an interrupted installation is simply repeated.
STORY_STAMP := $(VENV)/.installed-story
PIPELINE_STAMP := $(VENV)/.installed-pipeline
TESTS_STAMP := $(VENV)/.installed-tests
LINT_STAMP := $(VENV)/.installed-lint
DOCS_STAMP := $(VENV)/.installed-docs
BUILD_STAMP := $(VENV)/.installed-build
FUZZ_STAMP := $(VENV)/.installed-fuzz
GO_STAMP := $(VENV)/.installed-go
LONG_STAMP := $(VENV)/.installed-long
PINS := pyproject.toml constraints.txt

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*/\1/p' $(firstword $(MAKEFILE_LIST)))

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | sort | awk -F '\t' '{printf "  make %-20s %s\n", $$1, $$2}'

run: $(STORY_STAMP)  ## install, start three brokers and tell the story in under a minute
	@$(BIN)/python -m raftka.story

run-pipeline: java $(PIPELINE_STAMP)  ## a load, lost leaders, archive and telemetry on Spark, and their proofs in about 2 minutes
	@$(BIN)/python -m raftka.pipeline.story $(ARGS)

# What the tests in ARGS need: a path decides, and without one it is what the whole tier needs.
PATHS := $(filter tests%,$(ARGS))
names = $(strip $(if $(PATHS),$(foreach each,$(1),$(filter $(each)% tests tests/,$(PATHS))),$(2)))
ON_BROKERS := tests/process tests/clients tests/chaos tests/pipeline tests/ecosystem
FOR_TESTS := $(TESTS_STAMP) $(if $(call names,$(ON_BROKERS),all),system-packages)
FOR_TESTS += $(if $(call names,tests/pipeline tests/unit/pipeline),$(PIPELINE_STAMP))
FOR_TESTS += $(if $(call names,tests/docs),$(DOCS_STAMP))
FOR_TESTS += $(if $(call names,tests/packaging tests/process/test_versions.py),$(BUILD_STAMP))
PYTEST := $(BIN)/python -m pytest -n 3 --dist loadscope --no-loadscope-reorder

test: $(FOR_TESTS)  ## what a change breaks first, in at most 15 minutes (ARGS=... goes to pytest and may name any test)
	@$(PYTEST) $(if $(ARGS),$(ARGS),-m "not slow and not long and not ecosystem")

test-slow: system-packages java-if-possible $(TESTS_STAMP) $(PIPELINE_STAMP) $(DOCS_STAMP) $(BUILD_STAMP)  ## the rest of what the gate runs: the CLI, clients, chaos, planted bugs, Spark
	@$(PYTEST) -m "slow and not long and not ecosystem" $(ARGS)

# A run that has left out what it is for must not pass: here it fails for want of a tool, a JVM or a connector.
test-long: system-packages-long promtool  ## the tests that take too long for the default suite; what is missing for them fails
	@$(WITH_TOOLS) RAFTKA_NEED_CLIENTS=1 RAFTKA_NEED_SPARK=1 $(BIN)/python -m pytest -m long $(ARGS)

# Every framework runs on Apache Kafka, too.
test-ecosystem: system-packages-long  ## Kafka Streams and other frameworks, on Apache Kafka and on Raftka; records what passes for docs/compatibility.md
	@code=0; $(WITH_TOOLS) RAFTKA_NEED_CLIENTS=1 RAFTKA_RECORD_RUNS=1 \
	    $(BIN)/python -m pytest -m ecosystem tests/ecosystem $(ARGS) || code=$$?; \
	$(BIN)/python -m kafka_api.compatibility; exit $$code

sent-requests: system-packages-long  ## run every client's tasks; record outcomes and requests for docs/compatibility.md
	@$(WITH_TOOLS) RAFTKA_NEED_CLIENTS=1 $(BIN)/python -m tests.clients.sent $(ARGS)
	@$(BIN)/python -m kafka_api.compatibility

lint: $(LINT_STAMP)  ## ruff, formatting, mypy, import contracts; changes nothing
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

fix: $(LINT_STAMP)  ## let ruff repair and format the sources
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

sim: needs-SEED $(TESTS_STAMP)  ## replay one simulated run: make sim SEED=7
	@$(BIN)/python -m tests.simulation --seed $(SEED)

sim-campaign: needs-SEEDS $(TESTS_STAMP)  ## many simulated runs on both cores: make sim-campaign SEEDS=0..999
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS) --jobs 2 $(if $(REPORT),--report $(REPORT))

minimise: needs-SEED $(TESTS_STAMP)  ## leave out what a failing run does not need to fail: make minimise SEED=7
	@$(BIN)/python -m tests.simulation --minimise $(SEED)

fuzz: needs-TARGET $(FUZZ_STAMP)  ## search for what a reader of bytes must not raise: make fuzz TARGET=all MINUTES=1
	@$(BIN)/python -m tests.fuzz $(TARGET) --minutes $(or $(MINUTES),1)

fuzz-report: $(TESTS_STAMP)  ## write what the longest runs of `make fuzz` came to into docs/verification/fuzzing.md
	@$(BIN)/python -m tests.fuzz --report

chaos: system-packages $(TESTS_STAMP)  ## every nemesis for MINUTES=10 each on real brokers; writes docs/verification/chaos.md
	@$(BIN)/python -m tests.chaos --out build/chaos $(if $(MINUTES),--minutes $(MINUTES)) $(ARGS)

known-bugs: $(TESTS_STAMP)  ## catch every planted bug, pin its seed, write docs/verification/known-bugs.md (ARGS="--tries 3")
	@$(BIN)/python -m tests.simulation.known_bugs --jobs 2 --pin --out docs/verification/known-bugs.md $(ARGS)

needs-%:
	@$(if $($*),,echo "$* is not set; \`make\` shows an example" >&2; exit 1)

bench: $(TESTS_STAMP) $(PIPELINE_STAMP)  ## list the benchmarks; make bench ARGS="NAME... [--quick]" runs them
	@$(BIN)/python -m benchmarks $(ARGS)

bench-table: $(TESTS_STAMP)  ## write the figures of benchmarks/results into docs/performance.md and README.md
	@$(BIN)/python -m benchmarks.table $(ARGS)

docs: $(DOCS_STAMP)  ## build the documentation site into build/site; a warning is an error
	@$(BIN)/python docs/build.py
	@echo "the site is in build/site; to read it: $(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site 8000"

wheel: $(BUILD_STAMP)  ## build the source archive, and from it the wheel, into dist/
	@$(BIN)/python -m build --no-isolation --outdir dist .

clean:  ## remove caches and built files; the environment stays (rm -r .venv removes it)
	@rm -rf dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -path ./$(VENV) -prune -o -name __pycache__ -type d -print0 | xargs -0 rm -rf

# What Spark 4.0 runs on. A distribution's default may be older (11 of Ubuntu 22.04) or, some day, too new: the first of
# these that apt knows is taken, which is 17 of Debian 12 and of Ubuntu, and 21 of Debian 13.
JAVAS := openjdk-17-jre-headless openjdk-21-jre-headless
KNOWN_JAVA = $$(for each in $(JAVAS); do if apt-cache show $$each >/dev/null 2>&1; then echo $$each; break; fi; done)
# The test tools that pip cannot install, and roughly what apt downloads for them.
TOOLS := kcat strace iproute2 nftables
TOOLS_SIZE := 5 MB
JAVA_SIZE := 45 MB
system-packages:  ## install the tools that pip cannot by apt when root; without them the tests that use them are skipped
	@if command -v kcat >/dev/null && command -v strace >/dev/null && command -v ip >/dev/null \
	    && command -v nft >/dev/null; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing $(TOOLS) by apt (about $(TOOLS_SIZE)) ..."; \
	    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
	        $(TOOLS); } >/dev/null || \
	        echo "apt-get could not install $(TOOLS): the tests that use them are skipped" >&2; \
	else \
	    echo "one of these is missing: apt-get install $(TOOLS); the tests that use it are skipped" >&2; \
	fi

# Go may have been installed into the environment.
WITH_TOOLS := PATH="$(CURDIR)/$(BIN):$$PATH"
GO_WANTED := $(shell sed -n 's/^go //p' tests/clients/go/go.mod)
system-packages-long: system-packages $(LONG_STAMP) $(PIPELINE_STAMP)  ## what test-long runs on: JDK, Maven, Node, npm, systemd (apt), Go (pip)
	@wanted=""; \
	command -v javac >/dev/null || wanted+=" default-jdk-headless"; \
	command -v mvn >/dev/null || wanted+=" maven"; \
	command -v node >/dev/null || wanted+=" nodejs"; \
	command -v npm >/dev/null || wanted+=" npm"; \
	command -v systemd-analyze >/dev/null || wanted+=" systemd"; \
	if [ -z "$$wanted" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing$$wanted ..."; \
	    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$wanted; } \
	        >/dev/null || echo "apt-get could not install$$wanted: the tests that use them fail" >&2; \
	else \
	    echo "missing: apt-get install$$wanted; the tests that use them fail" >&2; \
	fi
	@have="$$( { $(WITH_TOOLS) GOTOOLCHAIN=local go env GOVERSION; } 2>/dev/null | sed 's/^go//' || true)"; \
	if [ "$$(printf '%s\n' $(GO_WANTED) "$${have:-0}" | sort -V | head -n 1)" != $(GO_WANTED) ]; then \
	    $(MAKE) $(GO_STAMP); \
	fi

promtool: $(TESTS_STAMP)  ## unpack Debian's prometheus (promtool, prometheus) into the environment; no service starts
	@if { $(WITH_TOOLS) command -v promtool && $(WITH_TOOLS) command -v prometheus; } >/dev/null; then exit 0; fi; \
	if ! { command -v apt-get && command -v dpkg-deb; } >/dev/null; then \
	    echo "promtool and prometheus are missing, and there is no apt-get: the tests that use them fail" >&2; exit 0; \
	fi; \
	echo "unpacking prometheus (20 MB) into $(VENV) ..."; \
	folder="$$(mktemp -d)"; trap 'rm -rf "$$folder"' EXIT; \
	if (cd "$$folder" && apt-get download -qq prometheus 2>/dev/null && dpkg-deb -x prometheus_*.deb unpacked); then \
	    install -m 755 "$$folder"/unpacked/usr/bin/{promtool,prometheus} $(BIN); \
	else echo "apt-get could not download prometheus: the tests that use it fail" >&2; fi

java:  ## install a Java for Spark by apt when root, where there is none, and nothing else
	@if command -v java >/dev/null || [ -n "$${JAVA_HOME:-}" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing Java by apt (about $(JAVA_SIZE)) ..."; \
	    { apt-get update -qq && name=$(KNOWN_JAVA) && test -n "$$name" && DEBIAN_FRONTEND=noninteractive \
	        apt-get install -y -qq --no-install-recommends $$name; } >/dev/null || \
	        { echo "apt-get could not install any of $(JAVAS)" >&2; exit 1; }; \
	else \
	    echo "Spark needs Java 17 or 21: apt-get install $(firstword $(JAVAS)), or set JAVA_HOME" >&2; exit 1; \
	fi

java-if-possible:  ## the same, but a machine that cannot have Java goes on: the tests on Spark are skipped, and say so
	@$(MAKE) java || echo "without Java the tests on Spark are skipped" >&2

# The environment itself. `python -m venv` on one that is already there leaves it as it is, so one that was cut
# short on its way is completed.
define make-environment
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
    echo "Raftka needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>/dev/null || echo not there)." >&2; \
    echo "Name another one: make $(or $(MAKECMDGOALS),run) PYTHON=python3.12" >&2; exit 1; }
@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV) || { \
    echo "no environment could be made in $(VENV); on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
endef

# What each environment adds to the one before it, in site-packages.
$(STORY_STAMP): $(PINS)
	$(make-environment)
	@echo "installing Raftka and its dependencies (60 MB) into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	@touch $@

$(TESTS_STAMP): $(PINS)
	$(make-environment)
	@echo "installing Raftka and what its tests need (200 MB in all) into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[test]'
	@touch $@ $(STORY_STAMP)

$(PIPELINE_STAMP): $(PINS)
	$(make-environment)
	@echo "installing Raftka and Spark (450 MB) into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[spark,check]'
	@touch $@ $(STORY_STAMP)

$(LINT_STAMP): $(TESTS_STAMP)
	@echo "installing the linters (40 MB) into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[lint]'
	@touch $@

$(DOCS_STAMP): $(TESTS_STAMP)
	@echo "installing the site generator (105 MB) into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[docs]'
	@touch $@

$(BUILD_STAMP): $(TESTS_STAMP)
	@echo "installing the package builder (5 MB) into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[build]'
	@touch $@

$(LONG_STAMP): $(TESTS_STAMP)
	@echo "installing the schemas of Kubernetes (110 MB) into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[long]'
	@touch $@

# Distributions are years behind what the Go clients want.
$(GO_STAMP): $(TESTS_STAMP)
	@echo "installing Go into $(VENV) ..."
	@if $(BIN)/python -m pip install --quiet -c constraints.txt -e '.[test,go]'; then touch $@; \
	else echo "Go $(GO_WANTED) or newer could not be installed: the tests that use it fail" >&2; fi

# atheris has wheels for some Pythons and machines only; the search does without where it must.
$(FUZZ_STAMP): $(TESTS_STAMP)
	@if $(BIN)/python -m pip install --quiet -c constraints.txt -e '.[fuzz]'; then touch $@; \
	else echo "atheris could not be installed: inputs will be damaged at random" >&2; fi
