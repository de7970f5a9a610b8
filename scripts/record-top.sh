#!/usr/bin/env bash
# record-top.sh PROGRAM: records `PROGRAM top -A` in tmux at 80×24 and 200×50, on an API server and a host of its own.
#
# It runs `PROGRAM dev` in a new project in TypeScript, whose object it changes all the time, and writes
# docs/sessions/top-80x24.txt and docs/sessions/top-200x50.txt. Needs tmux, npm and kubectl. Nothing in them is written by hand.
set -euo pipefail
program=$(realpath "$1")
root=$(realpath "$(dirname "$0")/..")
folder=$(mktemp -d)
socket=$folder/tmux
clean() {
  tmux -S "$socket" kill-server 2>/dev/null || true
  [ -z "${dev:-}" ] || kill "$dev" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$folder"
}
trap clean EXIT

cd "$folder"
"$program" new greeter --lang ts >/dev/null
cd greeter
npm install --silent
"$program" dev >"$folder/dev.log" 2>&1 </dev/null &
dev=$!
export KUBECONFIG=$PWD/.operetta/kubeconfig
for _ in $(seq 300); do
  grep -q '^reconciled' "$folder/dev.log" && break
  kill -0 "$dev" || { cat "$folder/dev.log"; exit 1; }
  sleep 1
done
grep -q '^reconciled' "$folder/dev.log" || { cat "$folder/dev.log"; exit 1; }

# A Plugin without code, and an object that changes.
kubectl apply -f - >/dev/null <<'YAML'
apiVersion: operetta.dev/v1alpha1
kind: Plugin
metadata: {name: without-consent, namespace: default}
spec: {source: {configMap: {name: absent}}, serviceAccountName: default}
YAML
sample=$(kubectl get greeters -o name | head -n 1)
(while kubectl annotate --overwrite "$sample" "recorded=$RANDOM" >/dev/null 2>&1; do :; done) &

for size in 80x24 200x50; do
  tmux -S "$socket" new-session -d -s "$size" -x "${size%x*}" -y "${size#*x}" "'$program' top -A"
  sleep 12
  tmux -S "$socket" capture-pane -p -t "$size" >"$root/docs/sessions/top-$size.txt"
  tmux -S "$socket" send-keys -t "$size" q
done
