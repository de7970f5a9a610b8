#!/usr/bin/env bash
# page-host.sh FOLDER: runs a host with the examples and their objects on a real control plane, for walks through its page. It prints
# `ready` with the address, runs until you end it, and leaves no process behind. FOLDER is emptied first, and gets what the walks need:
# `url`, `kubeconfig`, `token` (an administrator's), `tenant-token` (of a user who may see namespace team-a only), host.pid and logs. If
# the host ends, it is started again on the same port, as a cluster would do. OPERETTA names another program.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/common.sh
. scripts/common.sh
export RUST_BACKTRACE=0

[ $# -eq 1 ] || { echo "usage: scripts/page-host.sh FOLDER" >&2; exit 2; }
dir=$1
bin=$PWD/target/controlplane/bin
operetta=${OPERETTA:-$PWD/target/debug/operetta}
loop=
plane=
cleanup() {
    trap - EXIT INT TERM
    for process in $loop $plane; do
        kill "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

timed_out() { echo "page-host: timed out waiting for $1; see the logs in $dir" >&2; exit 1; }

# Runs the host, again and again, until this is ended.
keep_host() {
    local host=
    trap '[ -z "$host" ] || { kill "$host" 2>/dev/null || true; wait "$host" || true; }; exit' TERM
    while :; do
        "$operetta" run --config "$dir/host.yaml" 2>>"$dir/host.log" &
        host=$!
        echo "$host" >"$dir/host.pid"
        wait "$host" || true
        sleep 1
    done
}

# install NAMESPACE NAME COMPONENT EXAMPLE: drops an example in.
install() {
    kubectl apply -n "$1" -f "examples/$4/rbac.yaml"
    drop_in "$@"
}
drop_in() {
    "$operetta" bundle "target/plugins/$3.wasm" -n "$1" --name "$2" --service-account "$2" | kubectl apply --server-side -f -
}
ready() { until_true 180 "Plugin $1/$2" kubectl wait -n "$1" --for=condition=Ready "plugin/$2" --timeout=1s; }

# token NAMESPACE NAME: a ServiceAccount's token.
token() {
    kubectl create serviceaccount -n "$1" "$2" >&2
    kubectl create token -n "$1" "$2" --duration 4h
}

start() {
    [ ! -e "$dir" ] || [ -e "$dir/control-plane" ] || { echo "page-host: $dir is not the folder of an earlier host: name a new one" >&2; exit 1; }
    rm -rf "$dir" && mkdir -p "$dir"
    "$bin/controlplane" up --dir "$dir/cluster" --with controllers,scheduler,kwok >"$dir/control-plane" 2>"$dir/cluster.log" &
    plane=$!
    until_true 120 "the control plane" grep -q '^ready' "$dir/control-plane"
    export KUBECONFIG=$dir/cluster/kubeconfig PATH=$bin:$PATH XDG_CACHE_HOME=$PWD/target/test-cache
    ln -s cluster/kubeconfig "$dir/kubeconfig"
    kubectl apply -k deploy/crd
    kubectl apply -k deploy/rbac
    port=$(node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close(); })')
    echo "{adminAddress: '127.0.0.1:$port', quotas: {namespace: {apiQps: 50, cpu: 1}}}" >"$dir/host.yaml"
    keep_host &
    loop=$!
    echo "http://127.0.0.1:$port" >"$dir/url"
}

# The examples, with objects: healthy ones, a key that fails, a plugin without rights, and one without consent.
examples() {
    local namespace
    for namespace in team-a team-b team-c; do
        kubectl create namespace "$namespace"
        kubectl label namespace "$namespace" operetta.dev/plugins=enabled
    done
    kubectl apply -f examples/sample-controller/crd.yaml -f examples/app-service/crd.yaml -f examples/cloud-manager/crd.yaml
    install team-a sample-controller sample-controller sample-controller
    install team-a app-service app-service-typescript app-service
    install team-b cloud-manager cloud-manager-go cloud-manager
    install team-b pod-tracker pod-tracker pod-tracker
    # Without its Role; and without the annotation by which its ServiceAccount consents.
    kubectl create serviceaccount -n team-c sample-controller
    kubectl annotate serviceaccount -n team-c sample-controller operetta.dev/allow-plugins=sample-controller
    drop_in team-c sample-controller sample-controller
    kubectl create serviceaccount -n team-c pod-tracker
    drop_in team-c pod-tracker pod-tracker
    kubectl apply -n team-a -f examples/sample-controller/object.yaml -f examples/app-service/object.yaml
    kubectl apply -n team-b -f examples/cloud-manager/object.yaml -f examples/pod-tracker/object.yaml
    # A Foo whose Deployment belongs to somebody else; and one whose name is text, whatever a browser may think.
    kubectl create deployment -n team-a taken --image=nginx
    foo() { echo "{apiVersion: samplecontroller.k8s.io/v1alpha1, kind: Foo, metadata: {namespace: $1, name: $2, annotations: {note: '<img src=x onerror=\"window.hostile=1\">'}}, spec: {deploymentName: $3, replicas: 1}}"; }
    foo team-a collides taken | kubectl apply -f -
    foo team-c without-rights without-rights | kubectl apply -f -
    for plugin in sample-controller app-service; do ready team-a "$plugin"; done
    for plugin in cloud-manager pod-tracker; do ready team-b "$plugin"; done
}

users() {
    token default administrator >"$dir/token"
    kubectl create clusterrolebinding administrator --clusterrole=cluster-admin --serviceaccount=default:administrator
    token team-a tenant >"$dir/tenant-token"
    kubectl create rolebinding -n team-a tenant --clusterrole=view --serviceaccount=team-a:tenant
    kubectl create role -n team-a tenant --verb=get,list,watch --resource=plugins.operetta.dev,foos.samplecontroller.k8s.io
    kubectl create rolebinding -n team-a tenant-plugins --role=tenant --serviceaccount=team-a:tenant
}

start >&2
examples >&2
users >&2
echo "ready $(cat "$dir/url")/page/"
wait "$loop"
