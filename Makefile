# SPDX-License-Identifier: GPL-2.0-only
# Thin on purpose: every goal is one command of the `ceasefire` binary or one test tier.
SHELL      := /bin/sh
RUST_LEAST := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
CARGO      ?= cargo
TARGET     := $(or $(CARGO_TARGET_DIR),target)
CEASEFIRE  := $(TARGET)/release/ceasefire

# The first mechanism, where no KERNEL is named.
MECHANISM := $(firstword $(patsubst kernel/%/mechanism.toml,%,$(wildcard kernel/*/mechanism.toml)))

.PHONY: help toolchain tool watch build demo designs figures paper deter-trial watch-deb lab test machine-fuzz kernel-tree kernel-export kernel-series kernel-deb hardware-check hardware-report clean
.DEFAULT_GOAL := help

help: ## this list
	@echo 'Ceasefire: fewer TLB shootdowns, with counts you can check.'
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r goal text; do \
		printf '%-22s %s\n' "$$goal" "$$text"; done
	@echo
	@echo "  make test-TIER       one tier alone: $$(tests/run --list | tr '\n' ' ')"

toolchain:
	@command -v $(CARGO) >/dev/null 2>&1 || { \
		echo 'error: cargo is not installed; install Rust $(RUST_LEAST) or newer (rustup, or your distribution)' >&2; exit 4; }
	@have=$$(rustc --version 2>/dev/null | sed 's/^rustc \([0-9.]*\).*/\1/'); \
	[ "$$(printf '%s\n' $(RUST_LEAST) "$$have" | sort -V | head -n 1)" = $(RUST_LEAST) ] || { \
		echo "error: rustc $${have:-(none that runs)} is too old; install Rust $(RUST_LEAST) or newer (rustup update)" >&2; exit 4; }

tool: toolchain ## build the ceasefire binary
	@$(CARGO) build --release --locked --quiet --workspace --bin ceasefire --target-dir '$(TARGET)'

watch: tool ## build the live observer: target/watch/release/ceasefire, one file to copy to a server
	@$(CEASEFIRE) lab prepare watch
	@CARGO_PROFILE_RELEASE_STRIP=debuginfo $(CARGO) build --release --locked --quiet -p ceasefire-cli --features watch \
		--target-dir '$(TARGET)/watch'

build: tool ## build kernels and the emulator into the cache
	@$(CEASEFIRE) lab build

demo: tool ## build, boot, measure, report: the tour (out/report.html); BOOTS=5 for figures to publish
	@$(CEASEFIRE) lab demo $(addprefix --boots ,$(BOOTS))

figures: tool ## write every published figure from out/results.json; RESULTS=FILE for another one (docs/measured)
	@$(CEASEFIRE) lab publish $(RESULTS)

designs: tool ## Linux 6.12 and 7.3, interrupts, INVLPGB and skipped flushes side by side (out/designs; builds 7.3); BOOTS=5 to publish
	@$(CEASEFIRE) lab run control $$(sed -n 's/^workloads //p' kernel/designs) --cpus 8 --seed 1 --repeats 1 \
		$(addprefix --boots ,$(BOOTS)) --kernel $$(sed -n 's/^kernels //p' kernel/designs) \
		--tlb hardware,broadcast=early --out out/designs

paper: tool ## two papers' evaluations again, each figure beside ours (out/paper*/paper.html; an hour, resumes); BOOTS=5 for figures to publish
	@$(CEASEFIRE) lab paper $(addprefix --boots ,$(BOOTS))
	@$(CEASEFIRE) lab paper numapte $(addprefix --boots ,$(BOOTS))

watch-deb: watch ## the observer as a Debian package with its systemd unit (out/)
	@watch/export/package/make-deb '$(TARGET)/watch/release/ceasefire' out

deter-trial: watch ## which remedy helps which of fifteen programs (out/deter-trial, as root, resumes); then figures
	@CEASEFIRE='$(TARGET)/watch/release/ceasefire' REPEATS='$(REPEATS)' deter/trial/run $(PROGRAMS)

lab: tool ## every workload in every shape (long)
	@$(CEASEFIRE) lab all

test: toolchain ## every tier
	@tests/run

test-%: toolchain
	@tests/run $*

machine-fuzz: toolchain ## throw random values at the machine for five minutes (CEASEFIRE_FUZZ_SEED chooses others)
	@CEASEFIRE_FUZZ_SECONDS=100 $(CARGO) test --quiet --release --locked --workspace --test machine random -- --nocapture

kernel-tree: tool ## a kernel's source to edit, as a git branch: KERNEL=NAME DIR=out/linux
	@$(CEASEFIRE) lab build vanilla >/dev/null
	@kernel/tree '$(or $(DIR),out/linux)' $(or $(KERNEL),$(MECHANISM))

kernel-export: ## write an edited tree back into kernel/: DIR=out/linux
	@kernel/export '$(or $(DIR),out/linux)'

kernel-series: tool ## a kernel's whole change as a mailbox for `git am`: KERNEL=NAME (out/NAME.mbox)
	@$(CEASEFIRE) lab build vanilla >/dev/null
	@kernel/emit-series out/$(or $(KERNEL),$(MECHANISM)).mbox $(or $(KERNEL),$(MECHANISM))

kernel-deb: tool ## Debian packages of a kernel with a mechanism for a real machine, with your configuration or CONFIG=FILE (docs/use/hardware.md)
	@$(CEASEFIRE) lab kernel-deb $(if $(CONFIG),--config '$(CONFIG)')

hardware-check: tool ## does this machine's processor keep what mechanisms take on trust? any kernel, any user, a minute (docs/use/hardware.md)
	@$(CEASEFIRE) lab run promises --on host --cpus $$([ "$$(nproc)" -gt 1 ] && echo 2 || echo 1) --units 1000 \
		--set seconds=15 --out out/hardware-check
	@sed -n '/"extra": {/,/}/p' out/hardware-check/results.json | tr -d '," ' | awk -F: \
		'NF == 2 && $$2 != "{" { said[$$1] = $$2; if ($$1 !~ /^tries/) printf "%-26s %s\n", $$1, $$2 } \
		END { printf "no promise broken in %d tries of each, and %d on another CPU, of %d asked for%s\n", said["tries"], \
		said["tries_other_cpu"], said["tries_asked"], said["tries"] + said["tries_other_cpu"] < 2 * said["tries_asked"] ? \
		": the time was up (a busy machine, or one CPU)" : "" }'

hardware-report: ## what to send of a real machine, as one archive; RESULTS=DIR adds measurements (docs/use/hardware.md)
	@kernel/hardware-report out/hardware-report.tar.gz $(RESULTS) $(wildcard out/hardware-check)

clean: ## remove what was built in the checkout (not the cache: ceasefire lab clean)
	@rm -rf '$(TARGET)' out
