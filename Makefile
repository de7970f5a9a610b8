# Each target calls cargo or a script, so the build can be understood without this file.
# Native builds name the whole workspace and a target in it: cargo then gives every dependency the same features
# each time, and compiles it once.
.DEFAULT_GOAL := help
.PHONY: help demo check test test-rust test-go test-typescript test-page headlamp page test-python test-c test-embedded lint book build image release packages build-guests controlplane cluster generate generate-metrics generate-conformance generate-install bench bench-queue bench-recorder bench-store bench-informer bench-call bench-many bench-fair bench-languages bench-e2e bench-cloud bench-idle bench-density bench-start bench-dev bench-replicas bench-scale bench-server test-ha test-simulation soak soak-hostile soak-load fuzz fuzz-gate test-differential clean

help: ## List the targets
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | awk -F'\t' '{printf "  make %-20s %s\n", $$1, $$2}'

demo: ## Run the sample-controller with operetta dev (ONCE=1 ends afterwards; REAL=1 uses a real control plane)
	@scripts/demo.sh

check: ## Format, lints and unit tests: the check for every change
	@scripts/check.sh

test: ## Everything that CI runs: static checks, unit tests, tests on a real control plane, all languages
	@scripts/test.sh

test-rust: ## The Rust tests, on a real control plane too
	@scripts/test.sh rust

test-go: ## The Go SDK's tests and the Go examples' tests
	@scripts/test.sh go

test-typescript: ## The TypeScript SDK's tests, the TypeScript examples' tests and the unit tests of the page
	@scripts/test.sh typescript

test-page: ## Drive a browser through the page of a host with the examples, with screenshots in target/test-page (PAGE_URL and PAGE_TOKEN: of another host)
	@PAGE_URL="$(PAGE_URL)" PAGE_TOKEN="$(PAGE_TOKEN)" scripts/test-page.sh

headlamp: ## Build and test the plugin for Headlamp, deploy/headlamp/dist/main.js (installs 900 MB of packages)
	@scripts/headlamp.sh

page: ## Build the host's page from page/ into page/dist
	@scripts/page.sh

test-python: ## The Python SDK's tests and the Python examples' tests
	@scripts/test.sh python

test-c: ## The C SDK's tests
	@scripts/test.sh c

test-embedded: ## The tests that use a control plane, on the embedded API server; lists those that need a real one
	@scripts/test.sh embedded

lint: ## Format, lints and other static checks of all languages
	@scripts/tools.sh && scripts/lint.sh

book: ## Build the book of docs/ in target/book/html
	@scripts/tools.sh python && scripts/book.sh

build: build-guests ## Build the release binary target/release/operetta and the plugins in target/plugins/
	cargo build --release --locked --workspace --bin operetta

image: ## Assemble the container image in target/dist/image, with SBOM and provenance (ARCH="amd64 arm64")
	@scripts/image.sh $(ARCH)

release: ## Build the archives of a release in target/dist (ARCH="amd64 arm64")
	@scripts/release.sh $(ARCH)

packages: ## Package the SDKs and try their publication: crates, npm, PyPI, Go module
	@scripts/packages.sh

build-guests: ## Build the examples, the conformance plugins and the tests' guests as components
	@scripts/guests.sh

controlplane: ## Build a real Kubernetes control plane in target/controlplane/bin (KUBEBUILDER_ASSETS)
	@scripts/controlplane.sh

cluster: controlplane ## Run it in the foreground and print KUBECONFIG
	@target/controlplane/bin/controlplane up --dir target/cluster --with controllers,scheduler,kwok

generate: ## Generate the CRD, the manifest's schema and the pages of docs/reference from the code
	UPDATE_GENERATED=1 cargo test --locked -q --workspace --lib --bins in_the_repository

generate-metrics: build-guests controlplane ## Generate docs/reference/metrics.md from a running host
	UPDATE_GENERATED=1 RUST_BACKTRACE=0 cargo test --locked --workspace --test host page_lists_each_metric

generate-conformance: build-guests controlplane ## Run the conformance suite and generate docs/conformance.md
	UPDATE_GENERATED=1 RUST_BACKTRACE=0 cargo test --locked --workspace --test conformance

generate-install: controlplane ## Generate the chart's golden files and the table of values in docs/install.md
	@scripts/tools.sh && UPDATE_GENERATED=1 cargo test --locked --workspace --test install values

bench: bench-queue bench-recorder bench-store bench-informer bench-call bench-many bench-fair bench-languages bench-e2e bench-cloud bench-idle bench-start bench-dev bench-replicas bench-server $(if $(filter S,$(SIZE)),bench-density bench-scale) ## Run all benchmarks except bench-density and bench-scale; they print tables and write target/bench/*.json (SIZE=S: small runs of all)

# Small runs show that each benchmark works; their figures mean little.
ifeq ($(SIZE),S)
bench-queue bench-recorder bench-store bench-informer bench-call bench-fair bench-languages bench-e2e bench-cloud bench-idle bench-start bench-dev bench-replicas bench-server: export ROUNDS = 1
bench-many: export ROUNDS = 2
bench-queue: export KEYS = 1000
bench-store: export COPIES = 2
bench-store: export PODS = 2000
bench-informer: export KINDS = 20
bench-informer: export PODS = 500
bench-e2e: export FOOS = 200
bench-cloud: export FOOS = 20
bench-many bench-idle bench-replicas: export PLUGINS = 20
bench-idle bench-density: export SECONDS = 5
bench-scale: export SECONDS = 1
bench-scale: export OBJECTS = 2000
bench-scale: export PLUGINS = 100
bench-scale: export RATE = 100
bench-density: KS = 1,10
bench-density: export SETTLE = 5
bench-dev: ONLY = c
bench-dev: export EDITS = 1
bench-replicas: ONLY = stale_writes
bench-server: export OBJECTS = 500
endif

bench-call: ## Measure one call of a plugin against native code
	@scripts/guests.sh rust
	RUST_BACKTRACE=0 cargo bench --locked --workspace --bench call

bench-many: ## Measure a thousand distinct plugins: memory of each, and reconciles in rotation
	@scripts/guests.sh rust
	RUST_BACKTRACE=0 cargo bench --locked --workspace --bench many

bench-fair: ## Measure the p99 latency of a quiet tenant beside a noisy one
	RUST_BACKTRACE=0 cargo bench --locked --workspace --bench fair

bench-languages: ## Measure a plugin in each language: size, compile time, a reconcile fresh and warm
	@BENCH=1 scripts/guests.sh && RUST_BACKTRACE=0 cargo bench --locked --workspace --bench languages

bench-queue: ## Measure the workqueue, and a key from event to worker, beside client-go, controller-runtime and kube-rs
	cargo bench --locked --workspace --bench queue --bench path

bench-recorder: ## Measure the flight recorder, and the explanations of an hour of 100 reconciles a second
	cargo bench --locked --workspace --bench recorder

bench-informer: controlplane ## Measure the first sync of 20,000 Pods, a relist and 1,000 kinds, beside client-go and kube-rs
	cargo bench --locked --workspace --bench informer

bench-store: controlplane ## Measure the cache: bytes for Pods and for real objects of many kinds, and reads, beside client-go and kube-rs
	cargo bench --locked --workspace --bench store

bench-e2e: controlplane ## Measure Foo created -> Deployment created on a real API server, and the host's memory
	@scripts/guests.sh rust
	cargo bench --locked --workspace --bench e2e

bench-cloud: controlplane build ## Measure the kubebuilder project cloud-manager as a plugin in Go, and the same code on controller-runtime
	@scripts/guests.sh
	RUST_BACKTRACE=0 cargo bench --locked --workspace --bench e2e -- cloud-manager

bench-idle: controlplane build ## Count what 200 idle plugins, and one without permissions, cost the host and the API server
	@scripts/guests.sh rust
	RUST_BACKTRACE=0 cargo bench --locked --workspace --bench idle

bench-density: controlplane ## Measure 1, 10, 100 and 1,000 idle operators, as plugins and as native processes: memory, watches, connections, CPU (KS=1,10; ONLY=operetta,controller-runtime,kube-rs; SECONDS=30)
	@scripts/guests.sh rust
	KS=$(KS) ONLY=$(ONLY) RUST_BACKTRACE=0 cargo bench --locked --workspace --bench density

bench-start: controlplane build ## Measure the start of a plugin and the swap of its code
	@scripts/guests.sh rust
	RUST_BACKTRACE=0 cargo bench --locked --workspace --bench start

bench-dev: ## Measure operetta dev in each language: from a save, and from a new project, to the reconcile (ONLY=rust,go)
	@scripts/tools.sh && scripts/toolchain.sh
	ONLY=$(ONLY) RUST_BACKTRACE=0 cargo bench --locked --workspace --bench dev

bench-replicas: controlplane build ## Measure fail-over, requests and watches of several replicas, and stale writes beside controller-runtime (ONLY=kill, stop, lease_requests, watch_share or stale_writes)
	@scripts/guests.sh rust
	ONLY=$(ONLY) RUST_BACKTRACE=0 cargo bench --locked --workspace --bench replicas

bench-scale: controlplane ## Measure a host with a million objects, 10,000 plugins and 1,000 keys a second against a model (ONLY=objects,plugins,rate,all; SERVER=real)
	ONLY=$(ONLY) RUST_BACKTRACE=0 cargo bench --locked --workspace --bench scale

bench-server: controlplane ## Measure the embedded API server beside kube-apiserver with etcd: start, memory, requests, watches
	cargo bench --locked --workspace --bench server

test-ha: controlplane ## Kill, stop, cut off and replace replicas at random: SEEDS=200 histories from FIRST=0, PARALLEL=5 at once
	@scripts/guests.sh rust
	SEEDS=$(or $(SEEDS),200) FIRST=$(or $(FIRST),0) PARALLEL=$(or $(PARALLEL),5) RUST_BACKTRACE=0 cargo test --locked --workspace --test ha -- --nocapture

test-simulation: ## Run host and embedded API server on a paused clock, with faults: SEEDS=1000 runs from FIRST=0
	@scripts/guests.sh rust
	SEEDS=$(or $(SEEDS),1000) FIRST=$(or $(FIRST),0) RUST_BACKTRACE=0 cargo test --release --locked --workspace --test simulation -- --nocapture no_run

soak: controlplane ## Run informers behind a faulty connection: SEEDS=300 seeds, starting at FIRST=1
	@scripts/soak.sh

soak-hostile: controlplane ## Run hostile tenants beside two good plugins on a real API server, for SECONDS=1800; ATTACKS="NAME..." chooses some
	@scripts/guests.sh rust
	SOAK_SECONDS=$(or $(SECONDS),1800) SOAK_ATTACKS="$(ATTACKS)" RUST_BACKTRACE=0 cargo test --release --locked --workspace --test soak_hostile -- --nocapture

soak-load: controlplane ## Run the sample-controller at 70 % of flat out for SECONDS=3600, with swaps of its code and restarts of the API server (SWAP=60, RESTART=600: seconds)
	@scripts/guests.sh rust
	RUST_BACKTRACE=0 cargo bench --locked --workspace --bench soak

fuzz: ## Fuzz the parsers of untrusted bytes: each target for SECONDS=60, or TARGET="raw list"
	@scripts/fuzz.sh $(or $(SECONDS),60) $(TARGET)

fuzz-gate: controlplane ## Compare the gate with a real API server in SEQUENCES=100000 random sequences of calls and RBAC changes
	GATE_SEQUENCES=$(or $(SEQUENCES),100000) RUST_BACKTRACE=0 cargo test --locked --workspace --test gate -- --nocapture

test-differential: controlplane ## Send the same requests to the embedded API server and a real one, and compare (SOURCES=random,kubectl; SEED=7 of random ones; RECORD=1 writes the recording)
	DIFFERENTIAL=$(or $(SOURCES),all) DIFFERENTIAL_SEED=$(SEED) RUST_BACKTRACE=0 cargo test --locked --package operetta-apiserver --test differential live -- --ignored --nocapture

clean: ## Remove target/
	rm -rf target/
