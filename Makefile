# Each target calls cargo or a script, so you needn't read this file to understand the build.
# Native builds name the whole workspace and a target in it. Cargo then enables the same features of a dependency every time, and compiles
# it once.
.DEFAULT_GOAL := help
.PHONY: help programs demo audit check test test-rust test-go test-typescript test-page headlamp page test-python test-c test-embedded lint book build image release packages build-guests controlplane cluster generate generate-metrics generate-conformance generate-install bench bench-queue bench-recorder bench-store bench-informer bench-call bench-many bench-fair bench-languages bench-e2e bench-cloud bench-idle bench-density bench-start bench-dev bench-replicas bench-outage bench-lag bench-scale bench-server test-adopt test-ha test-simulation soak soak-hostile soak-load fuzz fuzz-gate test-differential clean

help: ## List the targets
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | awk -F'\t' '{printf "  make %-20s %s\n", $$1, $$2}'

demo: ## See a plugin reconcile, without a cluster (ONCE=1 exits by itself; REAL=1 uses a real control plane)
	@scripts/demo.sh

check: ## Format, lints and the unit tests of every crate: run it before every commit
	@scripts/check.sh

test: ## Everything that CI runs: static checks, and the tests of all languages on a real control plane
	@scripts/test.sh

test-rust: ## The Rust tests, including those on a real control plane
	@scripts/test.sh rust

test-go: ## The Go SDK's tests and the Go examples' tests
	@scripts/test.sh go

test-typescript: ## The tests of the TypeScript SDK, the TypeScript examples and the page
	@scripts/test.sh typescript

test-page: ## Drive a browser through the host's page; screenshots go to target/test-page (PAGE_URL and PAGE_TOKEN: use your own host)
	@PAGE_URL="$(PAGE_URL)" PAGE_TOKEN="$(PAGE_TOKEN)" scripts/test-page.sh

headlamp: ## Build and test deploy/headlamp, the plugin for Headlamp (installs 900 MB of packages)
	@scripts/headlamp.sh

page: ## Build the host's page from page/ into page/dist
	@scripts/page.sh

test-python: ## The Python SDK's tests and the Python examples' tests
	@scripts/test.sh python

test-c: ## The C SDK's tests
	@scripts/test.sh c

test-embedded: ## Run the control plane tests on the embedded API server, and list those that need a real one
	@scripts/test.sh embedded

audit: ## Check what depends on the day or on other hosts: advisories, newer patches of wasmtime, outside links
	@scripts/audit.sh

lint: ## Format, lints and other static checks, for all languages
	@scripts/tools.sh && scripts/lint.sh

book: ## Build docs/ as a book in target/book/html
	@scripts/tools.sh python && scripts/book.sh

build: build-guests ## Build the programs in target/release/ and the plugins in target/plugins/
	cargo build --release --locked --workspace --bin operetta --bin operetta-compiler
	@# By itself, so that no other program's features, such as the compiler, are linked into it.
	cargo build --release --locked --package operetta-host

programs: ## Build the programs that the tests run, in target/debug
	cargo build --locked --workspace --bin operetta --bin operetta-host --bin operetta-compiler

image: ## Assemble the container image in target/dist/image, with SBOM and provenance (ARCH="amd64 arm64")
	@scripts/image.sh $(ARCH)

release: ## Build the archives of a release in target/dist (ARCH="amd64 arm64")
	@scripts/release.sh $(ARCH)

packages: ## Package the SDKs (crates, npm, PyPI, Go module) and publish them as a dry run
	@scripts/packages.sh

build-guests: ## Build the examples, the conformance plugins and the tests' guests
	@scripts/guests.sh

controlplane: ## Build a real Kubernetes control plane in target/controlplane/bin, usable as KUBEBUILDER_ASSETS
	@scripts/controlplane.sh

cluster: controlplane ## Run a real control plane in the foreground, and print its KUBECONFIG
	@target/controlplane/bin/controlplane up --dir target/cluster --with controllers,scheduler,kwok

generate: ## Generate the CRD, the manifest's schema and docs/reference from the code
	UPDATE_GENERATED=1 cargo test --locked -q --workspace --lib --bins in_the_repository

generate-metrics: build-guests controlplane programs ## Generate docs/reference/metrics.md with a running host
	UPDATE_GENERATED=1 RUST_BACKTRACE=0 cargo test --locked --workspace --test host page_lists_each_metric

generate-conformance: build-guests controlplane programs ## Run the conformance suite and generate docs/conformance.md
	UPDATE_GENERATED=1 RUST_BACKTRACE=0 cargo test --locked --workspace --test conformance

generate-install: controlplane programs ## Generate the chart's golden files, and its table of values in docs/install.md
	@scripts/tools.sh && UPDATE_GENERATED=1 cargo test --locked --workspace --test install values

bench: bench-queue bench-recorder bench-store bench-informer bench-call bench-many bench-fair bench-languages bench-e2e bench-cloud bench-idle bench-start bench-dev bench-replicas bench-outage bench-lag bench-server $(if $(filter S,$(SIZE)),bench-density bench-scale) ## Run all benchmarks except bench-density and bench-scale; tables on stdout, JSON in target/bench (SIZE=S: small runs of all)

# Small runs show that each benchmark works; their figures mean little.
ifeq ($(SIZE),S)
bench-queue bench-recorder bench-store bench-informer bench-call bench-fair bench-languages bench-e2e bench-cloud bench-idle bench-start bench-dev bench-replicas bench-outage bench-server: export ROUNDS = 1
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
bench-outage: OUTAGES = 5
bench-outage: export LIMIT = 60
bench-lag: export READS = 10
bench-server: export OBJECTS = 500
endif

bench-call: ## Measure one call of a plugin beside native code
	@scripts/guests.sh rust
	RUST_BACKTRACE=0 cargo bench --locked --workspace --bench call

bench-many: ## Measure a thousand distinct plugins: memory, and reconciles in turn
	@scripts/guests.sh rust
	RUST_BACKTRACE=0 cargo bench --locked --workspace --bench many

bench-fair: ## Measure the p99 latency of a quiet tenant with a noisy neighbour
	RUST_BACKTRACE=0 cargo bench --locked --workspace --bench fair

bench-languages: ## Measure a plugin in each language: size, compile time, fresh and warm reconciles
	@BENCH=1 scripts/guests.sh && RUST_BACKTRACE=0 cargo bench --locked --workspace --bench languages

bench-queue: ## Measure the work queue, and a key's way from event to worker, beside client-go, controller-runtime and kube-rs
	cargo bench --locked --workspace --bench queue --bench path

bench-recorder: ## Measure the flight recorder, and explanations over an hour at 100 reconciles a second
	cargo bench --locked --workspace --bench recorder

bench-informer: controlplane ## Measure the first sync of 20,000 Pods, a relist and 1,000 kinds, beside client-go and kube-rs
	cargo bench --locked --workspace --bench informer

bench-store: controlplane ## Measure the cache beside client-go and kube-rs: bytes for Pods and for real objects of many kinds, and reads
	cargo bench --locked --workspace --bench store

bench-e2e: controlplane ## Measure the time from a Foo to its Deployment on a real API server, and memory, beside controller-runtime and kube-rs
	@scripts/guests.sh rust
	cargo bench --locked --workspace --bench e2e

bench-cloud: controlplane build ## Measure a kubebuilder project as a plugin, and the same code on controller-runtime
	@scripts/guests.sh
	RUST_BACKTRACE=0 cargo bench --locked --workspace --bench e2e -- cloud-manager

bench-idle: controlplane build ## Measure what 200 idle plugins, and one without permissions, cost the host and the API server
	@scripts/guests.sh rust
	RUST_BACKTRACE=0 cargo bench --locked --workspace --bench idle

bench-density: controlplane ## Measure 1 to 1,000 idle operators as plugins and as processes: memory, watches, connections, CPU (KS=1,10; ONLY=operetta,controller-runtime,kube-rs; SECONDS=30)
	@scripts/guests.sh rust
	KS=$(KS) ONLY=$(ONLY) RUST_BACKTRACE=0 cargo bench --locked --workspace --bench density

bench-start: controlplane build ## Measure how long a plugin takes to start, and to swap its code
	@scripts/guests.sh rust
	RUST_BACKTRACE=0 cargo bench --locked --workspace --bench start

bench-dev: ## Measure operetta dev in each language: from a save, and from a new project, to a reconcile (ONLY=rust,go)
	@scripts/tools.sh && scripts/toolchain.sh
	ONLY=$(ONLY) RUST_BACKTRACE=0 cargo bench --locked --workspace --bench dev

bench-replicas: controlplane build ## Measure replicas: fail-over, requests, watches, and stale writes beside controller-runtime (ONLY=kill, stop, lease_requests, watch_share or stale_writes)
	@scripts/guests.sh rust
	ONLY=$(ONLY) RUST_BACKTRACE=0 cargo bench --locked --workspace --bench replicas

bench-outage: controlplane build ## Measure how long keys take to recover from an outage of the API server, beside controller-runtime (OUTAGES=5,30 in seconds, 600 takes about an hour a round; ONLY=failing,changed,failing_changed,writes)
	@scripts/guests.sh rust
	OUTAGES=$(OUTAGES) ONLY=$(ONLY) RUST_BACKTRACE=0 cargo bench --locked --workspace --bench outage

bench-lag: controlplane build ## Measure which cached reads miss an own write while watches are late, beside controller-runtime (LAGS=0,100,1000 in milliseconds; READS=100)
	@scripts/guests.sh rust
	LAGS=$(LAGS) RUST_BACKTRACE=0 cargo bench --locked --workspace --bench lag

bench-scale: controlplane build ## Measure a host with a million objects, 10,000 plugins and 1,000 keys a second, beside a model (ONLY=objects,plugins,rate,all; SERVER=real)
	ONLY=$(ONLY) RUST_BACKTRACE=0 cargo bench --locked --workspace --bench scale

bench-server: controlplane ## Measure the embedded API server beside kube-apiserver with etcd: start, memory, requests, watches
	cargo bench --locked --workspace --bench server

test-adopt: controlplane programs ## Run Go operators in their own process and as a process of the host, and compare the objects (CASES=folder of descriptions, SOURCES=folder of sources, ONLY="a b")
	CASES="$(abspath $(CASES))" SOURCES="$(abspath $(SOURCES))" ONLY="$(ONLY)" RUST_BACKTRACE=0 cargo test --locked --workspace --test adopt -- --ignored --nocapture operators

test-ha: controlplane programs ## Kill, stop, cut off and replace replicas at random (SEEDS=200 histories from FIRST=0, PARALLEL=5 at once)
	@scripts/guests.sh rust
	SEEDS=$(or $(SEEDS),200) FIRST=$(or $(FIRST),0) PARALLEL=$(or $(PARALLEL),5) RUST_BACKTRACE=0 cargo test --locked --workspace --test ha -- --nocapture

test-simulation: ## Run host and embedded API server on a paused clock, with faults (SEEDS=1000 runs from FIRST=0)
	@scripts/guests.sh rust
	SEEDS=$(or $(SEEDS),1000) FIRST=$(or $(FIRST),0) RUST_BACKTRACE=0 cargo test --release --locked --workspace --test simulation -- --nocapture no_run

soak: controlplane ## Run informers behind a faulty connection (SEEDS=300 seeds from FIRST=1)
	@scripts/soak.sh

soak-hostile: controlplane build ## Run hostile tenants beside two good plugins on a real API server (SECONDS=1800; ATTACKS="NAME..." chooses some)
	@scripts/guests.sh rust
	SOAK_SECONDS=$(or $(SECONDS),1800) SOAK_ATTACKS="$(ATTACKS)" RUST_BACKTRACE=0 cargo test --release --locked --workspace --test soak_hostile -- --nocapture

soak-load: controlplane build ## Run the sample-controller at 70 % load for an hour, swapping its code and restarting the API server (SECONDS=3600, SWAP=60, RESTART=600)
	@scripts/guests.sh rust
	RUST_BACKTRACE=0 cargo bench --locked --workspace --bench soak

fuzz: ## Fuzz the parsers of untrusted bytes (SECONDS=60 for each; TARGET="raw list" chooses some)
	@scripts/fuzz.sh $(or $(SECONDS),60) $(TARGET)

fuzz-gate: controlplane programs ## Compare the gate with a real API server in random calls and RBAC changes (SEQUENCES=100000)
	GATE_SEQUENCES=$(or $(SEQUENCES),100000) RUST_BACKTRACE=0 cargo test --locked --workspace --test gate -- --nocapture

test-differential: controlplane ## Send the same requests to the embedded API server and a real one, and compare the answers (SOURCES=random,kubectl; SEED=7; RECORD=1 records them)
	DIFFERENTIAL=$(or $(SOURCES),all) DIFFERENTIAL_SEED=$(SEED) RUST_BACKTRACE=0 cargo test --locked --package operetta-apiserver --test differential live -- --ignored --nocapture

clean: ## Remove target/
	rm -rf target/
