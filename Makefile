# Each target is one line that calls cargo or a script: nobody has to read this to understand the build.
# Native builds name the whole workspace, and a target in it: cargo then gives every dependency the same features
# each time, and compiles it once.
.DEFAULT_GOAL := help
.PHONY: help demo test lint build build-guests controlplane cluster generate generate-conformance bench bench-queue bench-store bench-informer bench-call bench-many bench-fair bench-languages bench-e2e bench-start soak soak-hostile fuzz clean

help: ## List these targets
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | awk -F'\t' '{printf "  make %-20s %s\n", $$1, $$2}'

demo: ## The main job, end to end: a plugin reconciling on a real API server (ONCE=1 ends after showing it)
	@scripts/demo.sh

test: ## Everything that CI runs: lints, unit tests, tests on a real control plane, both examples
	@scripts/test.sh

lint: ## Formatting and lints
	@scripts/tools.sh && scripts/lint.sh

build: build-guests ## The release binary target/release/operetta and the plugins in target/plugins/
	cargo build --release --locked --workspace --bin operetta

build-guests: ## The examples, the conformance plugins and the tests' guests, as components
	@scripts/guests.sh

controlplane: ## A real Kubernetes control plane in target/controlplane/bin (KUBEBUILDER_ASSETS)
	@scripts/controlplane.sh

cluster: controlplane ## Run it in the foreground; prints KUBECONFIG
	@target/controlplane/bin/controlplane up --dir target/cluster --with controllers,scheduler,kwok

generate: ## Write the CRD and the manifest's schema anew from the Rust types
	UPDATE_GENERATED=1 cargo test --locked -q --workspace --lib --bins in_the_repository

generate-conformance: build-guests controlplane ## Run the conformance suite and write docs/conformance.md anew
	UPDATE_GENERATED=1 RUST_BACKTRACE=0 cargo test --locked --workspace --test conformance

bench: bench-queue bench-store bench-informer bench-call bench-many bench-fair bench-languages bench-e2e bench-start ## Every benchmark; tables, and target/bench/*.json

bench-call: ## One call of a plugin against native code
	@scripts/guests.sh rust
	RUST_BACKTRACE=0 cargo bench --locked --workspace --bench call

bench-many: ## What a thousand distinct plugins cost: memory of each, and reconciles in rotation
	@scripts/guests.sh rust
	RUST_BACKTRACE=0 cargo bench --locked --workspace --bench many

bench-fair: ## A quiet tenant's p99 beside a noisy one
	RUST_BACKTRACE=0 cargo bench --locked --workspace --bench fair

bench-languages: ## What a plugin costs in each language: size, compile time, a reconcile fresh and warm
	@BENCH=1 scripts/guests.sh && RUST_BACKTRACE=0 cargo bench --locked --workspace --bench languages

bench-queue: ## The workqueue, and a key from event to worker, beside client-go, controller-runtime and kube-rs
	cargo bench --locked --workspace --bench queue --bench path

bench-informer: controlplane ## The first sync of 20,000 Pods, a relist and 1,000 kinds, beside client-go and kube-rs
	cargo bench --locked --workspace --bench informer

bench-store: controlplane ## The cache: bytes of Pods and of real objects of many kinds, and reads, beside client-go and kube-rs
	cargo bench --locked --workspace --bench store

bench-e2e: controlplane build ## Foo created -> Deployment created on a real API server, and the host's memory
	cargo bench --locked --workspace --bench e2e

bench-start: controlplane build ## How soon a plugin is at work, and what a swap of its code costs
	@scripts/guests.sh rust
	RUST_BACKTRACE=0 cargo bench --locked --workspace --bench start

soak: controlplane ## Informers behind a faulty connection: SEEDS=300 seeds, from FIRST=1 on
	@scripts/soak.sh

soak-hostile: controlplane ## The hostile corpus beside two good plugins on a real API server, for SECONDS=1800
	@scripts/guests.sh rust
	SOAK_SECONDS=$(or $(SECONDS),1800) RUST_BACKTRACE=0 cargo test --release --locked --workspace --test soak_hostile -- --nocapture

fuzz: ## Hostile bytes for all that reads any, by coverage: each target for SECONDS=60, or TARGET="raw list"
	@scripts/fuzz.sh $(or $(SECONDS),60) $(TARGET)

clean: ## Remove everything that was built here
	rm -rf target/
