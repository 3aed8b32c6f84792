# `make` lists the targets. What is built goes to build/, daemon/target/ and .venv/.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PREFIX ?= /usr/local
DESTDIR ?=
KEEP ?=
SECONDS_PER_FUZZ_TARGET ?= 60
MINUTES ?= 30
SEED ?=
ONLY ?=
# A machine with other work may stall a node for seconds. The summary names each test that needed its second try.
RERUNS ?= 1
# Test files that run at a time: unit tests wait for a third of their time, while a scenario's nodes mostly wait for each
# other and take a quarter of a processor. 1 is one after the other.
BESIDE ?= 3
SCENARIOS_BESIDE ?= 4
# The time limit of a test raises an exception, which a clean-up that waits can swallow. What is still there after so many
# seconds, with its second try, hangs: all its stacks are written, its process ends, and xdist goes on with another one.
hang = -o faulthandler_exit_on_timeout=true -o faulthandler_timeout=$(1)
CONFIG ?=
JSON ?=
KERNEL ?=
FRESH ?=
# Disks that `make image-cuts` boots, of all that a power cut left.
BOOTS ?= 4
KEY ?=
KEY_FILE ?=
ARCH ?= $(shell dpkg --print-architecture)

# Where `cargo install` puts cargo-deny.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

# Python keeps byte code whatever the caller's shell says. Without it each command in a lab's node compiles the package
# again, which costs a daemon over a second of processor time.
unexport PYTHONDONTWRITEBYTECODE

# The pinned compiler, or rustup's default where it cannot be fetched.
RUST_TOOLCHAIN := $(shell tools/rust-toolchain)
ifneq ($(RUST_TOOLCHAIN),)
export RUSTUP_TOOLCHAIN := $(RUST_TOOLCHAIN)
endif

BIN := .venv/bin
CARGO_ARGUMENTS := --manifest-path daemon/Cargo.toml
STAMPS := build/stamps
TARGET_DIR := $(or $(CARGO_TARGET_DIR),daemon/target)

# What QUICK=1 adds to a target that can do with less.
MEASURED := $(filter-out 0,$(QUICK))

.PHONY: help setup build programs page papers check lint lint-python lint-page reference lint-rust lint-ansible collection unit quick unit-python unit-rust test provisioned programmed kernel-merge licences scenarios attacks lab-guest guest guest-claims \
	scale demo fuzz mutants bench advisories docs install clean lock kernel-check kernel-dissect kernel-config kernel page-pictures image image-boot image-cuts deb deb-all sbom repository packages packages-all nodes fleet fleet-more fleet-packages

help: ## list the targets
	@sed -nE 's/^([a-z%-]+):[^#]*## (.*)/  make \1|\2/p' Makefile | column -t -s'|'

# --- set-up and build ---

setup: $(STAMPS)/system $(STAMPS)/python ## install what is missing: Debian packages, Rust, the Python environment

$(STAMPS)/system: tools/setup
	@mkdir -p $(@D)
	@tools/setup system
	@touch $@

$(STAMPS)/python: $(STAMPS)/system $(wildcard daemon/requirements*.lock) daemon/pyproject.toml
	@tools/setup python
	@touch $@

$(STAMPS)/deny: $(STAMPS)/system tools/setup
	@tools/setup deny
	@touch $@

$(STAMPS)/audit: $(STAMPS)/python tools/requirements-audit.lock
	@tools/setup audit
	@touch $@

$(STAMPS)/page: $(STAMPS)/python daemon/page/package-lock.json
	@mkdir -p build
	@tools/setup page
	@touch $@

$(STAMPS)/browser: $(STAMPS)/system tools/setup
	@tools/setup browser
	@touch $@

page: build/page/packages.json ## bundle the page in the browser into build/page

build/page/packages.json: $(STAMPS)/page $(wildcard daemon/page/*.html daemon/page/*.svg daemon/page/*.mjs daemon/page/src/* daemon/page/licences/*)
	@rm -rf build/page
	cd daemon/page && ../../build/node build.mjs ../../build/page

build: programs page ## compile olsrv2d, olsrv2-signer, overlayd and the lab's airmedium (release) into build/bin, and the page's script into build/page

programs: $(STAMPS)/system
	@mkdir -p build/bin
	cargo build $(CARGO_ARGUMENTS) --release --locked --package olsrv2d --package olsrv2-signer --package overlayd --package airmedium
	@for name in olsrv2d olsrv2-signer overlayd airmedium; do \
		cmp -s $(TARGET_DIR)/release/$$name build/bin/$$name || install -m 0755 $(TARGET_DIR)/release/$$name build/bin/; \
	done

# --- proofs ---

check: lint quick unit-rust ## the fast part: linters, types, import contracts and unit tests of both languages, but what is marked `thorough`

lint: lint-python lint-rust lint-page ## ruff, mypy --strict, import contracts, rustfmt, clippy, no_std proof, module sizes, tsc

lint-python: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=kernel-config $(BIN)/lint-imports --no-logo
	@tools/check-structure

lint-rust: setup
	cargo fmt --all $(CARGO_ARGUMENTS) --check
	cargo clippy $(CARGO_ARGUMENTS) --workspace --all-targets --locked -- -D warnings
	tools/check-no-std
	@tools/check-structure

lint-page: $(STAMPS)/page
	cd daemon/page && ../../build/node node_modules/typescript/bin/tsc

lint-ansible: setup ## check the Ansible collection with ansible-lint's profile `production`
	cd ansible && PATH="$(CURDIR)/$(BIN):$$PATH" ANSIBLE_HOME="$(CURDIR)/build/ansible" ansible-lint --offline --profile production --nocolor -q .

$(STAMPS)/collection: $(STAMPS)/python tools/requirements-collection.lock
	@tools/setup collection
	@touch $@

collection: setup $(STAMPS)/collection ## build the Ansible collection and judge it as Galaxy does: galaxy-importer, `ansible-test sanity`, and what they must refuse
	tools/collection
	$(BIN)/pytest tests/collection

unit: unit-python unit-rust ## unit tests of both languages

quick: setup
	$(BIN)/pytest --numprocesses=$(BESIDE) --dist=loadfile $(call hang,700) -m 'not slow and not thorough' daemon/tests kernel-config/tests rt/tests

unit-python: setup
	$(BIN)/pytest --numprocesses=$(BESIDE) --dist=loadfile --reruns $(RERUNS) $(call hang,700) -m 'not slow' daemon/tests kernel-config/tests rt/tests

unit-rust: setup
	cargo test $(CARGO_ARGUMENTS) --workspace --locked --quiet

# Two lanes, one for each processor: much of one waits while the other works. Scenarios have deadlines, so they run alone.
test: ## all proofs: `programmed` beside `provisioned`, then `scenarios` (root)
	$(MAKE) --jobs=2 --output-sync=target setup build
	$(MAKE) --jobs=2 --output-sync=target provisioned programmed
	$(MAKE) scenarios

provisioned: ## lint-python, lint-ansible, collection, and proofs on booted machines: nodes, packages
	$(MAKE) --jobs=1 lint-python lint-ansible collection nodes packages

programmed: ## beside those: lint-rust, lint-page, licences, guest-claims, unit, kernel-merge
	$(MAKE) --jobs=1 lint-rust lint-page licences guest-claims unit kernel-merge

licences: $(STAMPS)/licences ## check the licences and sources of the Rust dependencies

# Checked again when a dependency, its lock or a rule has changed.
$(STAMPS)/licences: $(STAMPS)/deny daemon/deny.toml daemon/Cargo.lock daemon/Cargo.toml $(wildcard daemon/crates/*/Cargo.toml)
	cargo fetch $(CARGO_ARGUMENTS) --locked
	cargo deny $(CARGO_ARGUMENTS) --offline check bans licenses sources
	@touch $@

kernel-merge: setup ## check that Debian's RT kernel accepts each symbol of our fragments, amd64 and arm64 (fetches its source)
	$(BIN)/pytest -m slow kernel-config/tests

scenarios: setup build $(STAMPS)/browser ## prove claims on the wire, in network namespaces (root); a failed test gets a second try and is named
	MESHSEC_LAB_REQUIRED=1 $(BIN)/pytest --numprocesses=$(SCENARIOS_BESIDE) --dist=loadfile --reruns $(RERUNS) $(call hang,2000) -m 'not flood' tests/scenarios tests/attacks tests/interop

attacks: setup build ## attacks by strangers, hostile peers and local accounts, floods included (root; minutes)
	MESHSEC_LAB_REQUIRED=1 $(BIN)/pytest tests/attacks

guest-claims: setup build ## prove the main claims that need ESP, radios or PREEMPT_RT in an emulated guest (root)
	MESHSEC_LAB_REQUIRED=1 $(BIN)/pytest --reruns $(RERUNS) $(call hang,4000) tests/guest

lab-guest: setup ## build the guest's Debian 13 root, with RT and ordinary kernel, in build/guest (root)
	$(BIN)/python -m tests.lab.machines.guest_root

guest: setup build ## prove all claims of the guest (root; long)
	MESHSEC_GUEST_ALL=1 $(BIN)/pytest tests/guest

scale: NODES ?= 30
scale: setup build ## start many nodes at once: all pairs protected, one IKE_SA each (root; NODES=n)
	NODES=$(NODES) $(BIN)/pytest tests/scenarios/topology/test_scale.py

advisories: $(STAMPS)/deny $(STAMPS)/audit $(STAMPS)/page ## ask RustSec, OSV and npm for known vulnerabilities of all that is locked (exceptions: tools/advisories.toml)
	$(BIN)/python tools/advisories

nodes: fleet-packages ## make a mesh of bare Debian 12 and 13 machines, by ssh and our packages (root)
	MESHSEC_LAB_REQUIRED=1 $(BIN)/pytest --reruns $(RERUNS) $(call hang,4000) tests/fleet

fleet-more: fleet-packages $(STAMPS)/browser ## all proofs on those machines, also those of minutes: a controller behind the mesh, libreswan, another kernel, radios, the first hour (root)
	MESHSEC_FLEET_ALL=1 MESHSEC_LAB_REQUIRED=1 $(BIN)/pytest tests/fleet

fleet: NODES ?= 10
fleet: fleet-packages ## provision many machines and write the time it took to build/fleet.json (root; NODES=n)
	NODES=$(NODES) $(BIN)/pytest tests/fleet/test_size.py

fleet-packages: build docs $(STAMPS)/deb $(STAMPS)/audit
	@for release in trixie bookworm; do tools/deb $$release $$(dpkg --print-architecture); done

# --- the job itself ---

demo: NODES ?= 3
demo: setup programs ## watch three nodes in a line protect themselves (root; NODES=n, KEEP=1 leaves them running)
	$(BIN)/python -m tests.demo --nodes $(NODES) $(if $(KEEP),--keep)

fuzz: setup ## feed mutated input to the packet parsers for a bounded time
	daemon/fuzz/run $(SECONDS_PER_FUZZ_TARGET)

$(STAMPS)/mutants: $(STAMPS)/python tools/setup tools/requirements-mutants.lock
	@tools/setup mutants
	@touch $@

mutants: setup $(STAMPS)/mutants ## list changes of critical code that no test notices, in build/mutants.json (MINUTES=30, SEED=n, ONLY=python or rust)
	tools/mutants --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY))

bench: $(subst _,-,$(patsubst rt/bench_%.py,bench-%,$(wildcard rt/bench_*.py))) ## run all benchmarks, with results in build/bench (root; network; QUICK=1: few samples, in build/bench/quick)

$(STAMPS)/bench: $(STAMPS)/system tools/setup
	@tools/setup bench
	@touch $@

bench-%: setup build $(STAMPS)/bench ## run one benchmark: `make bench-NAME` runs rt/bench_NAME.py (root; network; ARGS=--help shows its flags)
	$(BIN)/python -m rt.bench_$(subst -,_,$*) $(ARGS)

papers: setup $(if $(MEASURED),build $(STAMPS)/bench) ## draw docs/papers.md: five works' tables and figures beside ours, from kept results (QUICK=1: measure again into build/papers, or go on after Ctrl-C; root; network)
	$(BIN)/python -m rt.papers $(if $(MEASURED),measure,draw)

baseline: setup ## compare the figures of build/bench with rt/baselines (python -m rt.measure.baseline keep NAME renews)
	$(BIN)/python -m rt.measure.baseline compare

# --- the kernel ---

kernel-check: setup ## report what a kernel lacks, and why it is needed (CONFIG=path, else the running kernel; JSON=1)
	@PYTHONPATH=kernel-config $(BIN)/python -m kernelconfig check $(if $(JSON),--json) $(if $(CONFIG),'$(CONFIG)')

kernel-dissect: setup ## show what drivers ask of the kernel, and which options they lack (MODULES="A.ko B.ko.xz"; KERNEL=dir; SHOW="--compare", "--json", ...)
	@test -n '$(MODULES)' || { echo 'kernel-dissect: no module named; name files: MODULES="$$(modinfo -F filename b43)"' >&2; exit 2; }
	@PYTHONPATH=kernel-config $(BIN)/python -m kernelconfig dissect $(SHOW) $(if $(KERNEL),--kernel '$(KERNEL)') $(if $(CONFIG),--config '$(CONFIG)') $(MODULES)

kernel-config: setup ## merge our fragments onto Debian's RT configuration (ARCH=amd64 or arm64)
	@kernel-config/build config $(ARCH)

kernel: setup ## build that PREEMPT_RT kernel as .deb (ARCH=amd64 or arm64; hours)
	@kernel-config/build kernel $(ARCH)

kernel-boot: BOOTED = $(or $(KERNEL),$(lastword $(sort $(wildcard build/kernel/amd64/linux-image-*-meshsec_*_amd64.deb))))
kernel-boot: setup build ## boot a built kernel in the guest and prove the guest's claims on it (KERNEL=path of its .deb; root)
	@test -f '$(BOOTED)' || { echo "kernel-boot: no kernel package '$(BOOTED)'; build one (make kernel) or name it: KERNEL=path" >&2; exit 2; }
	@rm -rf build/kernel/boot
	@dpkg-deb -x '$(BOOTED)' build/kernel/boot
	MESHSEC_LAB_KERNEL=$(CURDIR)/build/kernel/boot $(BIN)/pytest tests/scenarios/operations/test_own_kernel.py \
		tests/guest -k 'own_kernel or rt'

# --- the vehicle image ---

$(STAMPS)/image: $(STAMPS)/system tools/setup
	@tools/setup image
	@touch $@

image: build docs $(STAMPS)/image $(STAMPS)/audit ## build a disk image that boots into a node (root; ARCH=amd64 or arm64, KERNEL=path of a .deb, FRESH=1: newest Debian, KEY_FILE=file: sign updates to it)
	@PYTHONPATH=kernel-config $(BIN)/python -m image build $(if $(ARCH),--arch '$(ARCH)') $(if $(KERNEL),--kernel '$(KERNEL)') $(if $(FRESH),--fresh) \
		$(if $(KEY_FILE),--key-file '$(KEY_FILE)')

image-boot: image ## boot that image in QEMU: ready, locked, silent before trust, joins a fleet, is updated (root; ARCH=amd64: minutes, ARCH=arm64: hours)
	MESHSEC_IMAGE_BOOT=$(or $(ARCH),amd64) $(BIN)/pytest tests/scenarios/operations/test_image.py \
		tests/scenarios/operations/test_image_joins.py tests/scenarios/operations/test_image_update.py \
		tests/scenarios/operations/test_image_spread.py

image-cuts: image ## cut the power of that image at many moments of an update, and boot some of these disks (root; BOOTS=4; SEED=n repeats)
	MESHSEC_IMAGE_CUTS=$(BOOTS) SEED='$(SEED)' $(BIN)/pytest -rP tests/scenarios/operations/test_image_cuts.py

# --- for users and packagers ---

page-pictures: setup build $(STAMPS)/browser ## make the documents' pictures of the page, in a browser (root)
	MESHSEC_PICTURES=1 MESHSEC_LAB_REQUIRED=1 $(BIN)/pytest tests/scenarios/page -k 'axe or thousand'

reference: setup ## generate schemas, files of defaults, lists of docs/reference/meshsec.toml.md and READMEs of Ansible roles from what is declared
	$(BIN)/python tools/reference

docs: setup ## generate man pages and shell completions
	$(BIN)/python -m meshsec.cli.docs build
	go-md2man -in docs/reference/man/olsrv2d.8.md -out build/man/olsrv2d.8
	go-md2man -in docs/reference/man/olsrv2-signer.8.md -out build/man/olsrv2-signer.8
	go-md2man -in docs/reference/man/overlayd.8.md -out build/man/overlayd.8

install: build docs ## install below $(DESTDIR)$(PREFIX)
	PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' tools/install

$(STAMPS)/deb: $(STAMPS)/system tools/setup
	@tools/setup deb
	@touch $@

deb: RELEASE ?= $(shell sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
deb: build docs $(STAMPS)/deb $(STAMPS)/audit ## build Debian packages in build/deb/RELEASE (RELEASE=bookworm or trixie, ARCH=amd64, arm64 or armhf: router and overlay alone)
	@tools/deb $(RELEASE) $(ARCH)

deb-all: build docs $(STAMPS)/deb $(STAMPS)/audit ## build Debian packages for both releases and all architectures
	@for release in bookworm trixie; do for arch in amd64 arm64 armhf; do tools/deb $$release $$arch; done; done

sbom: build $(STAMPS)/audit ## write what `make install` installs of others, by name, version, licence and hash, as CycloneDX JSON in build/sbom
	@rm -rf build/sbom
	@PREFIX=/usr DESTDIR=$(CURDIR)/build/sbom/root tools/install packages >/dev/null
	@build/audit/tools/bin/python tools/sbom build/sbom "$$(tools/version)" "$$(rustc -vV | sed -n 's/^host: //p')" \
		build/sbom/root/usr/lib/meshsec build/package/report.json
	@rm -r build/sbom/root
	@ls build/sbom/*.cdx.json

repository: RELEASE ?= $(shell sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
repository: URL ?= file:$(CURDIR)/build/repository/$(RELEASE)
repository: $(STAMPS)/deb ## make a signed apt repository of build/deb/RELEASE in build/repository/RELEASE (URL=https://HOST, KEY_FILE=file or KEY=fingerprint)
	@KEY='$(KEY)' KEY_FILE='$(KEY_FILE)' tools/repository '$(RELEASE)' '$(URL)'

packages: build docs $(STAMPS)/deb $(STAMPS)/audit $(STAMPS)/deny ## make our packages twice with the same bytes; install, upgrade, remove and purge them in a bare root of this release, and from a signed repository (root)
	MESHSEC_LAB_REQUIRED=1 $(BIN)/pytest --reruns $(RERUNS) $(call hang,4000) tests/packages

packages-all: build docs $(STAMPS)/deb $(STAMPS)/audit $(STAMPS)/deny ## do that for both releases and architectures, and compile the programs twice (root; long)
	MESHSEC_PACKAGES_ALL=1 MESHSEC_LAB_REQUIRED=1 $(BIN)/pytest tests/packages

lock: setup ## renew the Python lock files (needs uv on PATH)
	tools/lock

clean: ## remove everything that was built
	rm -rf build .venv daemon/target
