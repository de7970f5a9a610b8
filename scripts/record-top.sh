#!/usr/bin/env bash
# record-top.sh PROGRAM: records `PROGRAM top` in tmux at 80×24 and 200×50, on a real control plane on which the examples run.
#
# It writes docs/sessions/top-*.txt: the Plugins at both sizes, the details of one, and live rows of Foos. Needs tmux, the control plane of scripts/controlplane.sh and the components of scripts/guests.sh.
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/common.sh
. scripts/common.sh
export RUST_BACKTRACE=0

sessions=$PWD/docs/sessions
plugins=$PWD/target/plugins
dir=$(mktemp -d)
socket=$dir/tmux
children=()
clean() {
    trap - EXIT INT TERM
    tmux -S "$socket" kill-server 2>/dev/null || true
    # The control plane, which was started first, ends last.
    for ((at = ${#children[@]} - 1; at >= 0; at--)); do
        kill "${children[at]}" 2>/dev/null || true
        wait "${children[at]}" 2>/dev/null || true
    done
    rm -rf "$dir"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

step() { printf '==> %s\n' "$*"; }
fail() { echo "record-top: $*" >&2; exit 1; }
command -v tmux >/dev/null || fail "no tmux: install it (apt-get install tmux)"

timed_out() { tail -n 5 "$dir/host.log" >&2; fail "timed out waiting for $1"; }

# example NAMESPACE FOLDER COMPONENT: installs an example in a namespace.
example() {
    local name=${2##*/}
    kubectl get namespace "$1" >/dev/null 2>&1 || kubectl create namespace "$1"
    kubectl label --overwrite namespace "$1" operetta.dev/plugins=enabled
    kubectl apply -n "$1" -f "$2/rbac.yaml"
    [ ! -f "$2/crd.yaml" ] || kubectl apply -f "$2/crd.yaml"
    "$program" bundle "$plugins/$3.wasm" -n "$1" --name "$name" --service-account "$name" | kubectl apply --server-side -f -
}

# object NAMESPACE FOLDER: creates the object of an example.
object() { until_true 30 "the kind of $2" kubectl apply -n "$1" -f "$2/object.yaml"; }

install() {
    kubectl apply -k deploy/crd
    kubectl apply -k deploy/rbac
    kubectl apply -f examples/multi-tenant/teams.yaml -f examples/multi-tenant/team-b.yaml
    example team-a examples/sample-controller sample-controller
    example shop examples/app-service app-service-typescript
    example cloud examples/cloud-manager cloud-manager-python
    example monitoring examples/pod-tracker pod-tracker
    # The hostile plugin of the example spins until its deadline ends it.
    kubectl label namespace team-b operetta.dev/plugins=enabled
    "$program" bundle "$plugins/hostile.wasm" -n team-b --name hostile --service-account hostile | kubectl apply --server-side -f -
    sed 's/do: probe/do: spin/' examples/multi-tenant/attack.yaml | kubectl apply -f -
    # A Plugin to which its ServiceAccount does not consent.
    "$program" bundle "$plugins/pod-tracker.wasm" -n monitoring --name pod-counter --service-account pod-tracker |
        kubectl apply --server-side -f -
}

# Creates the objects, and then changes them all the time.
change() {
    local number=0 at
    object shop examples/app-service
    object cloud examples/cloud-manager
    object monitoring examples/pod-tracker
    for at in $(seq -w 30); do
        sed "s/example-foo/foo-$at/" examples/sample-controller/object.yaml | kubectl apply -n team-a -f -
    done
    while :; do
        number=$((number + 1))
        kubectl annotate -n team-a foos --all --overwrite "number=$number"
        kubectl scale -n team-a deployments --all --replicas=$((number % 4 + 1))
        kubectl annotate -n monitoring pods --all --overwrite "number=$number"
        kubectl annotate -n shop appservices --all --overwrite "number=$number"
    done
}

# record NAME SIZE ARGUMENTS KEYS...: writes what a terminal shows of `top`, after keys.
record() {
    local name=$1 size=$2 arguments=$3
    shift 3
    tmux -S "$socket" new-session -d -s "$name" -x "${size%x*}" -y "${size#*x}" "'$program' top $arguments"
    sleep 8
    for key in "$@"; do
        tmux -S "$socket" send-keys -t "$name" "$key"
        sleep 1
    done
    sleep 3
    tmux -S "$socket" capture-pane -p -t "$name" >"$sessions/$name-$size.txt"
    tmux -S "$socket" kill-session -t "$name"
    [ -s "$sessions/$name-$size.txt" ] || fail "$name-$size.txt is empty"
}
# The server outlives its sessions: one that ends with the last of them can refuse the next.
tmux -S "$socket" -f /dev/null start-server \; set-option -g exit-empty off

step "Starting a control plane: API server, controllers, scheduler, kwok"
scripts/controlplane.sh
export PATH=$PWD/target/controlplane/bin:$PATH KUBECONFIG=$dir/cluster/kubeconfig
controlplane up --dir "$dir/cluster" --with controllers,scheduler,kwok >"$dir/ready" 2>"$dir/cluster.log" &
children+=($!)
until_true 90 "the control plane" grep -q '^ready' "$dir/ready"

step "Installing the examples"
install >"$dir/install.log" || { tail -n 5 "$dir/install.log" >&2; fail "the examples cannot be installed"; }
"$program" run --config examples/multi-tenant/host.yaml 2>"$dir/host.log" &
children+=($!)
for plugin in team-a/sample-controller shop/app-service cloud/cloud-manager monitoring/pod-tracker team-b/hostile; do
    until_true 300 "Plugin $plugin" kubectl wait -n "${plugin%/*}" "plugin/${plugin#*/}" --for=condition=Ready --timeout=5s
done
change >"$dir/change.log" 2>&1 &
children+=($!)
until_true 60 "30 Foos" kubectl get -n team-a foo foo-30
sleep 10

step "Recording"
record top 80x24 "-A"
record top 200x50 "-A"
record top-details 80x24 "-A" / hostile Enter Enter
record top-foos 80x24 "foos -A"
