#!/usr/bin/env bash
# The demo on a real control plane (REAL=1 make demo): the host, the sample-controller dropped in as a ConfigMap, and a Foo whose
# Deployment becomes available. It runs until Ctrl-C, with ONCE=1 only until then, and leaves no process behind.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/common.sh
. scripts/common.sh
export RUST_BACKTRACE=0

started=$(date +%s)
step() { printf '\033[1m==> %s\033[0m\n' "$*"; }
fail() { echo "demo: $*" >&2; exit 1; }
dir=$PWD/target/demo
bin=$PWD/target/controlplane/bin
operetta=$PWD/${CARGO_TARGET_DIR:-target}/release/operetta
host=
plane=
cleanup() {
    trap - EXIT INT TERM
    [ -z "$host" ] || kill "$host" 2>/dev/null || true
    [ -z "$host" ] || wait "$host" 2>/dev/null || true
    [ -z "$plane" ] || kill "$plane" 2>/dev/null || true
    [ -z "$plane" ] || wait "$plane" 2>/dev/null || true
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

timed_out() { fail "timed out waiting for $1; see $dir/host.log and $dir/cluster/logs"; }

step "Building the Kubernetes control plane (once; minutes)"
scripts/controlplane.sh
step "Building the plugins"
scripts/guests.sh rust
step "Building the host (once; minutes)"
cargo build --release --locked --quiet --workspace --bin operetta

step "Starting a control plane: API server, controllers, scheduler, kwok"
rm -rf "$dir" && mkdir -p "$dir"
"$bin/controlplane" up --dir "$dir/cluster" --with controllers,scheduler,kwok --audit >"$dir/ready" 2>"$dir/cluster.log" &
plane=$!
until_true 90 "the control plane" grep -q '^ready' "$dir/ready"
export KUBECONFIG=$dir/cluster/kubeconfig PATH=$bin:$PATH
kubectl apply -k deploy/crd
kubectl apply -k deploy/rbac
kubectl label namespace default operetta.dev/plugins=enabled

step "Starting the host"
"$operetta" run 2>"$dir/host.log" &
host=$!

step "Installing the sample-controller: its CRD, its permissions, and a ConfigMap with the component"
kubectl apply -f examples/sample-controller/crd.yaml -f examples/sample-controller/rbac.yaml
"$operetta" bundle target/plugins/sample-controller.wasm --name sample-controller --service-account sample-controller |
    kubectl apply --server-side -f -
until_true 60 "Plugin sample-controller" kubectl get plugin sample-controller
kubectl wait --for=condition=Ready plugin/sample-controller --timeout=60s

# The API server rejects the first watch of a new kind (429 with a retry after a second). Wait for the watch, so that the
# time measured below does not include this.
watched() { grep -F '"stage":"ResponseStarted"' "$dir/cluster/audit.log" | grep -F '"verb":"watch"' |
    grep -F '"resource":"foos"' | grep -F '"username":"admin"' | grep -qF '"code":200'; }
until_true 30 "the watch of Foos" watched

step "Applying a Foo"
kubectl apply -f examples/sample-controller/object.yaml
wanted=$(kubectl get foo example-foo -o jsonpath='{.spec.replicas}')
available() { [ "$(kubectl get foo example-foo -o jsonpath='{.status.availableReplicas}')" = "$wanted" ]; }
until_true 60 "availableReplicas=$wanted" available

step "kubectl get plugins,foos,deployments,events"
kubectl get plugins,foos,deployments,events

# created RESOURCE: the time at which the API server created the first object, from its audit log.
created() {
    grep -F '"stage":"ResponseComplete"' "$dir/cluster/audit.log" | grep -F "\"resource\":\"$1\"" |
        grep -E '"verb":"(create|patch)"' | grep -F '"code":201' | head -n 1 |
        sed -E 's/.*"stageTimestamp":"([^"]*)".*/\1/'
}
foo=$(created foos)
deployment=$(created deployments)
if [ -n "$foo" ] && [ -n "$deployment" ] && nanos=$(date -d "$foo" +%s%N 2>/dev/null); then
    echo
    echo "Foo created -> Deployment created: $((($(date -d "$deployment" +%s%N) - nanos) / 1000)) µs"
fi
echo "The host's memory: $(awk '/VmRSS/ {printf "%d MB", $2 / 1024}' "/proc/$host/status" 2>/dev/null || echo unknown)"
echo "Done after $(($(date +%s) - started)) s."

if [ "${ONCE:-}" = 1 ]; then exit 0; fi
cat <<EOF

To try more, in another terminal:

  export KUBECONFIG=$KUBECONFIG PATH=$bin:$(dirname "$operetta"):\$PATH
  kubectl scale deployment example-foo --replicas=5    # the plugin reverts it
  kubectl delete deployment example-foo                # the plugin creates it again
  kubectl describe foo example-foo
  operetta logs sample-controller -f

Ctrl-C stops everything.
EOF
wait "$host" || fail "the host ended: $(tail -n 3 "$dir/host.log")"
