#!/usr/bin/env python3
"""Records the admission of Pods and claims by LimitRanges, against a fresh control plane.

Usage: KUBECONFIG=... record_limits.py. It leaves its objects behind.
"""
import os, sys, time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "authz"))
from recorder import *

HERE = os.path.dirname(os.path.abspath(__file__))
WORLD = []


def limits(namespace, *ranges):
    WORLD.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    for index, items in enumerate(ranges):
        WORLD.append({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": f"l{index}", "namespace": namespace}, "spec": {"limits": items}})


C, V = {"type": "Container"}, {"type": "PersistentVolumeClaim"}
limits("defaults", [{**C, "default": {"cpu": "500m", "memory": "1Gi"}, "defaultRequest": {"cpu": "100m"}}])
limits("max", [{**C, "max": {"cpu": "1"}}])
limits("min", [{**C, "min": {"memory": "64Mi"}, "default": {"memory": "128Mi"}, "defaultRequest": {"memory": "96Mi"}}])
limits("claims", [{**V, "min": {"storage": "1Gi"}, "max": {"storage": "5Gi"}}])
for item in WORLD:
    create(item)
time.sleep(3)
# The server completes a LimitRange with defaults of its own.
STORED = [call("GET", collection(item) + "/" + item["metadata"]["name"])[1] for item in WORLD]
res = lambda requests=None, limits=None: {**({"requests": requests} if requests else {}), **({"limits": limits} if limits else {})}
c = lambda name, resources=None: {"name": name, "image": "i", **({"resources": resources} if resources else {})}


def pod(namespace, containers, **spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": namespace}, "spec": {"containers": containers, "automountServiceAccountToken": False, **spec}}


def claim(storage):
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "v", "namespace": "claims"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}}


CASES = [claim(size) for size in ["1Gi", "1023Mi", "5Gi", "5121Mi", "1G", "6G"]]
for namespace in ["defaults", "max", "min"]:
    for resources in [None, res({"cpu": "50m"}), res(None, {"cpu": "2"}), res({"cpu": "2"}, {"cpu": "2"}), res({"cpu": "500m"}, {"cpu": "1"}), res({"memory": "16Mi"}, {"memory": "32Mi"}), res({"memory": "64Mi"}, {"memory": "64Mi"}), res({"cpu": "1001m"}, {"cpu": "1001m", "memory": "1Gi"})]:
        CASES.append(pod(namespace, [c("c", resources)]))
    CASES.append(pod(namespace, [c("a"), c("b", res({"cpu": "50m"}, {"cpu": "60m"}))], initContainers=[c("i")]))
lines = []
for item in CASES:
    code, answer, _ = call("POST", collection(item) + "?dryRun=All", item)
    line = {"object": item, "code": code, "denied": short(answer) if answer["kind"] == "Status" else None}
    if item["kind"] == "Pod" and code == 201:
        line["annotations"] = answer["metadata"].get("annotations", {})
        line["resources"] = [container["resources"] for container in answer["spec"]["containers"] + answer["spec"].get("initContainers", [])]
    lines.append(line)
write(os.path.join(HERE, "limits.json"), [{"objects": [without_managed(item) for item in STORED]}] + lines)
