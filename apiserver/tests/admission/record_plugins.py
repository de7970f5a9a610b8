#!/usr/bin/env python3
"""Records the built-in admission of Namespaces, ServiceAccounts and quotas, against a fresh control plane.

Usage: KUBECONFIG=... record_plugins.py. It leaves its objects behind.
"""
import os, sys, time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "authz"))
from recorder import *

HERE = os.path.dirname(os.path.abspath(__file__))
meta = lambda name, namespace=None, **more: {"name": name, **({"namespace": namespace} if namespace else {}), **more}
config = lambda name, namespace: {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(name, namespace)}
space = lambda name, **more: {"apiVersion": "v1", "kind": "Namespace", "metadata": meta(name, **more)}
quota = lambda name, namespace, **hard: {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta(name, namespace),
                                         "spec": {"hard": {key.replace("__", "/").replace("_", "."): value for key, value in hard.items()}}}
secret = lambda name, namespace: {"apiVersion": "v1", "kind": "Secret", "metadata": meta(name, namespace)}
account = lambda name, namespace, **more: {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta(name, namespace), **more}
lease = lambda name, namespace: {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta(name, namespace), "spec": {}}


def pod(name, namespace, containers=None, **spec):
    containers = containers or [{"name": "c", "image": "i"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta(name, namespace), "spec": {"containers": containers, **spec}}


MOUNT = [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]}]
WORLD = [
    space("plugins"), space("ending"), space("full"), config("held", "ending"),
    account("puller", "plugins", imagePullSecrets=[{"name": "a"}, {"name": "b"}]), account("quiet", "plugins", automountServiceAccountToken=False),
    quota("q", "full", count__secrets="1", services="0"), quota("two", "full", count__leases_coordination_k8s_io="1", configmaps="3"),
    secret("one", "full"), lease("one", "full"),
]
WORLD[3]["metadata"]["finalizers"] = ["example.com/hold"]
for item in WORLD:
    create(item)
time.sleep(3)
call("DELETE", "/api/v1/namespaces/ending")
time.sleep(2)
service = {"apiVersion": "v1", "kind": "Service", "metadata": meta("s", "full"), "spec": {"ports": [{"port": 1}]}}
CASES = [("POST", item) for item in [
    config("x", "ending"), config("x", "missing"), {**config("x", "ending"), "metadata": {"generateName": "g-", "namespace": "ending"}}, pod("x", "ending"), space("ending2"), config("x", "plugins"),
    pod("plain", "plugins"), pod("named", "plugins", serviceAccountName="puller"), pod("none", "plugins", serviceAccountName="nope"), pod("quiet", "plugins", serviceAccountName="quiet"),
    pod("loud", "plugins", serviceAccountName="quiet", automountServiceAccountToken=True), pod("off", "plugins", automountServiceAccountToken=False), pod("pulls", "plugins", serviceAccountName="puller", imagePullSecrets=[{"name": "own"}]),
    pod("mounts", "plugins", MOUNT, volumes=[{"name": "v", "emptyDir": {}}]), pod("init", "plugins", initContainers=[{"name": "i", "image": "i"}]), pod("volume", "plugins", volumes=[{"name": "kube-api-access-x", "emptyDir": {}}]),
    pod("both", "plugins", MOUNT + [{"name": "d", "image": "i"}], volumes=[{"name": "v", "emptyDir": {}}]),
    secret("two", "full"), lease("two", "full"), service, config("a", "full"), account("sa", "full"),
]] + [("DELETE", space(name)) for name in ["default", "kube-system", "kube-public", "kube-node-lease"]] + [("PUT", {**config("held", "ending"), "data": {"a": "b"}})]
lines = []
for method, item in CASES:
    path = collection(item) + ("" if method == "POST" else "/" + item["metadata"]["name"])
    code, answer, _ = call(method, path + "?dryRun=All", item if method != "DELETE" else None)
    denied = short(answer) if answer["kind"] == "Status" and code >= 400 else None
    line = {"method": method, "object": item, "code": code, "denied": denied}
    if item["kind"] == "Pod" and code == 201:
        spec = answer["spec"]
        mounts = lambda name: [container.get("volumeMounts", []) for container in spec.get(name, [])]
        volume = next((volume["name"] for volume in spec.get("volumes", []) if volume["name"].startswith("kube-api-access-")), "")
        line["pod"] = json.loads(json.dumps({"serviceAccountName": spec["serviceAccountName"], "serviceAccount": spec["serviceAccount"], "volumes": spec.get("volumes", []), "imagePullSecrets": spec.get("imagePullSecrets", []),
                                             "mounts": mounts("containers"), "initMounts": mounts("initContainers")}).replace(volume or "no volume", "kube-api-access-00000" if volume != "kube-api-access-x" else volume))
    lines.append(line)
_, quotas, _ = call("GET", "/api/v1/namespaces/full/resourcequotas")
statuses = {item["metadata"]["name"]: item["status"] for item in quotas["items"]}
_, existing, _ = call("GET", "/api/v1/configmaps")
existing = [without_managed({"apiVersion": "v1", "kind": "ConfigMap", **item, "data": {}}) for item in existing["items"] if item["metadata"]["namespace"] == "full"]
write(os.path.join(HERE, "plugins.json"), [{"objects": [without_managed(item) for item in WORLD] + existing, "statuses": statuses}] + lines)
