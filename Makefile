# Carillon. `make` alone lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
CARGO := cargo
# What random tests of the nightly tier begin with: SEED=1 make nightly repeats those of the default tier.
SEED := $(or $(SEED),$(shell date +%s))

# All that tests try where they are a sample by default.
LONG := CARILLON_LONG=1 PROPTEST_CASES=256

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-24s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## check for what the build needs; install missing system packages when root
	@scripts/setup.sh

.PHONY: demo
demo: setup ## send a real file to 4 receivers through losses, kill and restart one, and repeat a published table
	$(CARGO) build --release --quiet --bin carillon
	@scripts/demo.sh target/release/carillon

.PHONY: test
test: setup ## run every test, those that could go on for minutes with a sample of what they try
	@scripts/test.py

.PHONY: test-long
test-long: setup ## run the tests that are samples by default with all cases, except the floods of `make nightly`
	$(LONG) scripts/test.py --programs lib,conformance,delivery,formats,helpers,laboratory,package,properties,protocols,session,simulator,strangers,transfer
	$(LONG) RUST_TEST_THREADS=6 scripts/test.py --programs command helpers sealed a_killed every_protocol_delivers dissector small_files unchanged_tree
	$(LONG) RUST_TEST_THREADS=6 scripts/test.py --programs command numbers peers swaps testbed

# Crates that are not published.
INTERNAL := $(patsubst %,--exclude carillon-%,testkit py web c)

.PHONY: check
check: setup ## check language, structure, format, lints and documentation; warnings are errors
	@for script in scripts/*.py; do python3 -B $$script --help > /dev/null || { echo "$$script --help fails"; exit 1; }; done
	@scripts/check-prose.py
	@scripts/check-links.py
	@scripts/check-structure.py
	@tools=$$(dirname "$$(scripts/python-env.sh)") && $$tools/ruff check --quiet python && $$tools/ruff format --quiet --check python \
		&& MYPYPATH=python $$tools/mypy --cache-dir target/mypy
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	$(CARGO) clippy -p carillon-cli --no-default-features --features transport --quiet -- -D warnings
	$(CARGO) package --workspace $(INTERNAL) --no-verify --allow-dirty --quiet
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet

.PHONY: site
site: setup ## build the documents as a site in target/site
	@scripts/site.sh

.PHONY: page
page: setup ## the page that animates runs, web/dist/view.html, with the simulator inside where it can be built
	@scripts/page.sh

.PHONY: check-page
check-page: page ## types and unit tests of the page; it is tried in Chromium without a network, and compared with stored pictures
	@scripts/check-page.sh

.PHONY: check-web
check-web: setup ## traces and recordings of the simulator in the page, run in Node, are compared with the command line's, byte for byte
	$(CARGO) test --workspace --test command --no-run --quiet
	@module=$$(scripts/wasm.sh | tail -n 1); [[ -z $$module ]] || scripts/check-web-trace.mjs target/debug/carillon $$module

.PHONY: check-dissectors
check-dissectors: setup ## captures of XTP in each of its ways, of PGM, and of Carillon's own packets, opened with Wireshark's dissectors and ours (installs tshark when root)
	$(CARGO) test --workspace --test command --no-run --quiet
	@scripts/check-dissectors.py target/debug/carillon
	@scripts/test.py --programs command dissector

.PHONY: check-strangers
check-strangers: setup ## plain sessions with OpenPGM, ZeroMQ, NORM and FLUTE in network namespaces (root), with losses (QUICK=--quick: a few)
	$(CARGO) build --workspace --profile test --bin carillon --example flute_peer --quiet
	@scripts/check-strangers.py $(or $(CARGO_TARGET_DIR),target)/debug/carillon $(QUICK)

.PHONY: check-package
check-package: setup ## install the Python package in a fresh environment, run the README's code and all notebooks, try other versions of Python
	@scripts/check-package.py

# FEATURES=transport makes packages without the laboratory. Binaries run with glibc 2.17 and later.
GLIBC := 2.17
TRIPLE := $(shell uname -m)-unknown-linux-gnu
DIST_PROFILE := $(if $(filter transport,$(FEATURES)),small,release)
DIST_FLAGS := -p carillon-cli --profile $(DIST_PROFILE) $(if $(FEATURES),--no-default-features --features $(FEATURES))
DIST_BINARY := $(or $(CARGO_TARGET_DIR),target)/$(TRIPLE)/$(DIST_PROFILE)/carillon

.PHONY: dist-binary
dist-binary: ## the command for old systems, with cargo-zigbuild (FEATURES=transport: without the laboratory)
	PATH="$$(scripts/zig.sh):$$PATH" $(CARGO) zigbuild $(DIST_FLAGS) --target $(TRIPLE).$(GLIBC)
	@scripts/dist.py symbols --binary $(DIST_BINARY) --most $(GLIBC)

.PHONY: dist
dist: dist-binary ## a tarball for /usr/local in target/dist
	@scripts/dist.py tar --binary $(DIST_BINARY)

.PHONY: deb
deb: dist-binary ## a Debian package in target/dist
	@scripts/dist.py deb --binary $(DIST_BINARY)

.PHONY: rpm
rpm: dist-binary ## an RPM package in target/dist (needs rpmbuild)
	@scripts/dist.py rpm --binary $(DIST_BINARY)

.PHONY: check-dist
check-dist: dist-binary ## packages in bare Debian roots: installation, transfer, upgrade, removal (root; FEATURES=transport)
	@scripts/check-dist.py --binary $(DIST_BINARY)

.PHONY: install
install: ## build for this machine and install below DESTDIR/PREFIX (PREFIX=/usr/local)
	$(CARGO) build $(DIST_FLAGS)
	@scripts/dist.py install --binary $(or $(CARGO_TARGET_DIR),target)/$(DIST_PROFILE)/carillon \
		--prefix $(or $(PREFIX),/usr/local) --destdir "$(or $(DESTDIR),/)"

# Soname of the library for C: before 1.0 a minor version may break interfaces.
LIB_PROFILE := release
LIB_VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
LIB_SONAME := libcarillon.so.$(basename $(LIB_VERSION))
LIB_PREFIX = $(or $(PREFIX),/usr/local)

.PHONY: install-lib
install-lib: ## build the library for C; install it, its header and its pkg-config file below DESTDIR/PREFIX
	$(CARGO) rustc -p carillon-c --lib --profile $(LIB_PROFILE) --crate-type cdylib -- -C link-arg=-Wl,-soname,$(LIB_SONAME)
	install -D -m 755 $(or $(CARGO_TARGET_DIR),target)/$(patsubst dev,debug,$(LIB_PROFILE))/libcarillon_c.so $(DESTDIR)$(LIB_PREFIX)/lib/$(LIB_SONAME)
	ln -sf $(LIB_SONAME) $(DESTDIR)$(LIB_PREFIX)/lib/libcarillon.so
	install -D -m 644 include/carillon.h $(DESTDIR)$(LIB_PREFIX)/include/carillon.h
	install -d $(DESTDIR)$(LIB_PREFIX)/lib/pkgconfig
	sed 's|@PREFIX@|$(LIB_PREFIX)|; s|@VERSION@|$(LIB_VERSION)|' packaging/carillon.pc.in > $(DESTDIR)$(LIB_PREFIX)/lib/pkgconfig/carillon.pc

.PHONY: nightly
nightly: setup ## the long tier: 10 000 seeded conformance runs for each protocol, 50 files of each through every loss and delay, 20 seeds of every attack
	@echo "fresh seeds: PROPTEST_RNG_SEED=$(SEED) CARILLON_FROM=$(SEED)"
	PROPTEST_RNG_SEED=$(SEED) PROPTEST_CASES=4096 $(CARGO) test --release --workspace
	CARILLON_FROM=$(SEED) CARILLON_RUNS=10000 $(CARGO) test --release -p carillon-proto --test conformance -- --nocapture
	CARILLON_FROM=$(SEED) CARILLON_RUNS=10000 $(CARGO) test --release -p carillon-lab --test laboratory fuzz_corpus -- --nocapture
	CARILLON_RUNS=50 $(CARGO) test --release -p carillon-proto --test delivery
	CARILLON_RUNS=20 $(CARGO) test --release -p carillon-proto --test strangers
	CARILLON_LONG=1 $(CARGO) test --release --workspace --exclude carillon-cli
	for test in flood silence trouble; do \
		CARILLON_LONG=1 $(CARGO) test --release -p carillon-cli --test command $$test -- --nocapture || exit 1; done
	$(CARGO) build --release --bin carillon
	scripts/try-kills.py target/release/carillon --seed $(SEED)

.PHONY: try-kills
try-kills: setup ## transfers of 6000 files that are killed at both ends, twice, and started again: 100 of them, four minutes
	$(CARGO) build --release --bin carillon
	@scripts/try-kills.py target/release/carillon

.PHONY: reproduce
reproduce: setup ## every shipped table, figure and study, results below out/
	$(CARGO) run --release --quiet --bin carillon -- reproduce --out out --overwrite

.PHONY: reproduce-lan
reproduce-lan: setup ## the tables and figures of the LAN study on one page, out/lan/index.html
	$(CARGO) build --release --quiet --bin carillon
	target/release/carillon reproduce segovia --out out/lan --overwrite

.PHONY: reproduce-routed
reproduce-routed: setup ## LMS, SRM and PGM on routed networks on one page, out/routed/index.html
	$(CARGO) build --release --quiet --bin carillon
	target/release/carillon reproduce lms srm pgm papadopoulos routed --out out/routed --overwrite

.PHONY: bench-scale
bench-scale: setup ## LMS and PGM from 100 to 100 000 receivers: time, memory, target/scale.svg
	$(CARGO) bench --quiet -p carillon-lab --bench scale

.PHONY: bench
bench: setup ## all benchmarks; they print ratios and assert nothing
	$(CARGO) bench --quiet -p carillon-sim --bench queue
	$(CARGO) bench --quiet -p carillon-lab --bench deliveries
	$(CARGO) bench --quiet -p carillon-lab --bench lan
	$(CARGO) bench --quiet -p carillon-net --bench loopback
	$(CARGO) build --release --quiet --bin carillon
	@scripts/bench-goodput.py target/release/carillon

.PHONY: bench-against
bench-against: setup ## all benchmarks of REV and of this revision by turns, with the ratios (REV=commit, ROUNDS=5)
	@scripts/bench-against.py $(REV) --rounds $(or $(ROUNDS),5)

.PHONY: bench-delivery
bench-delivery: setup ## send and recv on networks with loss, delay and bottlenecks, beside UFTP (root; RUNS=20: the whole table)
	$(CARGO) build --release --quiet --bin carillon
	@scripts/bench-delivery.py --binary target/release/carillon --runs $(or $(RUNS),1)

.PHONY: bench-delivery-protocols
bench-delivery-protocols: setup ## the same for every protocol, with a small file in a few cells
	$(CARGO) build --release --quiet --bin carillon
	@scripts/bench-delivery.py --binary target/release/carillon --runs $(or $(RUNS),1) --protocol all

.PHONY: bench-shared-link
bench-shared-link: setup ## what a session finds of a link that nobody tells it of, and leaves to a second one or to TCP there (root)
	$(CARGO) build --release --quiet --bin carillon
	@scripts/bench-shared-link.py --binary target/release/carillon

.PHONY: bench-stragglers
bench-stragglers: setup ## what one of sixteen receivers costs the others that loses packets, is slow, stands still or is killed (root; RUNS=3)
	$(CARGO) build --release --quiet --bin carillon
	@scripts/bench-stragglers.py --binary target/release/carillon --runs $(or $(RUNS),1)

.PHONY: bench-peers
bench-peers: setup ## one file with Carillon and with UFTP, udpcast, NORM, OpenPGM, Aeron, TCP and BitTorrent, side by side (root; RUNS=3 CELLS=all)
	$(CARGO) build --release --quiet --bin carillon
	@scripts/bench-peers.py --binary target/release/carillon --runs $(or $(RUNS),1) --cells "$(CELLS)"

.PHONY: bench-bare
bench-bare: setup ## what networks of this host carry at most: datagrams that receivers throw away (root)
	@scripts/bench-bare.py

.PHONY: bench-latency
bench-latency: setup ## live messages to 4 receivers: how late they come with Carillon, ZeroMQ, NORM and Aeron (root)
	$(CARGO) build --release --quiet --bin carillon
	@scripts/bench-latency.py --binary target/release/carillon --runs $(or $(RUNS),1)

.PHONY: bench-loopback
bench-loopback: setup ## reliable multicast to four receivers over loopback, beside TCP to four, by size of buffer
	$(CARGO) build --release --quiet --bin carillon
	@scripts/bench-loopback.py target/release/carillon

.PHONY: bench-files
bench-files: setup ## 50 000 small files against one file of their size, over loopback
	$(CARGO) build --release --quiet --bin carillon
	@scripts/bench-files.py target/release/carillon

.PHONY: bench-ns2
bench-ns2: setup ## time and memory beside ns-2.35 on the same network (installs Debian's ns2 when root)
	$(CARGO) build --release --quiet --bin carillon
	@scripts/bench-ns2.py target/release/carillon --topologies rand0-r100,btree-h8

.PHONY: fuzz
fuzz: setup ## run each fuzz target for a minute (needs a nightly toolchain and cargo-fuzz)
	@cd fuzz && for target in $$(cargo run --quiet --example targets); do \
		mkdir -p corpus/$$target; \
		CARILLON_TARGET=$$target cargo +nightly fuzz run any corpus/$$target -- -max_total_time=60 || exit 1; done

.PHONY: clean
clean: ## remove what was built
	$(CARGO) clean
	rm -rf out
