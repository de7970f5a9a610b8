#!/usr/bin/env python3
"""Writes the roles and bindings of a fresh control plane to src/authz/bootstrap.json, one object a line.

Usage: KUBECONFIG=... record_bootstrap.py > src/authz/bootstrap.json
"""
import json, subprocess

RESOURCES = ["clusterroles", "clusterrolebindings", "roles", "rolebindings"]
DROPPED = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")
lines = []
for resource in RESOURCES:
    answer = subprocess.run(["kubectl", "get", resource, "-A", "-o", "json"], capture_output=True, check=True)
    for item in sorted(json.loads(answer.stdout)["items"], key=lambda i: (i["metadata"].get("namespace", ""), i["metadata"]["name"])):
        for key in DROPPED:
            item["metadata"].pop(key, None)
        lines.append(json.dumps(item, separators=(",", ":"), sort_keys=True))
print("[\n" + ",\n".join(lines) + "\n]")
