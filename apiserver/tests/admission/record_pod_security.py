#!/usr/bin/env python3
"""Records the admission of Pods by the Pod Security levels of their Namespaces, against a fresh control plane.

Usage: KUBECONFIG=... record_pod_security.py. It leaves its objects behind.
"""
import os, sys, time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "authz"))
from recorder import *

HERE = os.path.dirname(os.path.abspath(__file__))
P = "pod-security.kubernetes.io/"
space = lambda name, **labels: {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {P + key.replace("_", "-"): value for key, value in labels.items()}}}
SPACES = [space("base", enforce="baseline"), space("strict", enforce="restricted"), space("warned", warn="restricted"), space("both", enforce="baseline", warn="restricted", warn_version="latest"), space("free", enforce="privileged")]
for item in SPACES:
    create(item)
time.sleep(2)
GOOD = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
c = lambda name="c", context=None, **more: {"name": name, "image": "i", **({"securityContext": context} if context is not None else {}), **more}
two = lambda context, **more: [c("a", context, **more), c("b", context, **more)]
plus = lambda **more: {**GOOD, **more}


def pod(containers, context=None, annotations=None, **spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **({"annotations": annotations} if annotations else {})},
            "spec": {"containers": containers, "automountServiceAccountToken": False, **({"securityContext": context} if context is not None else {}), **spec}}


PODS = [
    pod([c()]), pod(two(None)), pod([c(context=GOOD)]), pod([c(context={k: v for k, v in GOOD.items() if k not in ("runAsNonRoot", "seccompProfile")})], {"runAsNonRoot": True, "seccompProfile": {"type": "Localhost", "localhostProfile": "x"}}),
    pod([c(context=plus(privileged=True, allowPrivilegeEscalation=True))]), pod(two(plus(capabilities={"drop": ["ALL"], "add": ["NET_ADMIN", "CHOWN"]}))), pod([c(context=plus(capabilities={"drop": ["X"], "add": ["NET_BIND_SERVICE"]}))]),
    pod([c(context=GOOD)], hostNetwork=True), pod([c(context=GOOD)], hostNetwork=True, hostPID=True, hostIPC=True), pod([c(context=GOOD)], volumes=[{"name": "h", "hostPath": {"path": "/"}}, {"name": "n", "nfs": {"server": "s", "path": "/"}}]),
    pod([c(context=GOOD)], volumes=[{"name": "e", "emptyDir": {}}, {"name": "n", "nfs": {"server": "s", "path": "/"}}]), pod(two(GOOD, ports=[{"containerPort": 80, "hostPort": 8080}])[:1] + [c("z", GOOD, ports=[{"containerPort": 1, "hostPort": 1}, {"containerPort": 90, "hostPort": 90}])]),
    pod([c(context=GOOD, livenessProbe={"httpGet": {"host": "h", "port": 1}}, lifecycle={"preStop": {"tcpSocket": {"host": "g", "port": 1}}})]), pod([c(context=plus(procMount="Unmasked"))], hostUsers=False), pod([c(context=plus(procMount="Default"))]),
    pod([c(context=plus(seccompProfile={"type": "Unconfined"}))]), pod(two(GOOD), {"seccompProfile": {"type": "Unconfined"}}), pod([c(context=plus(seLinuxOptions={"type": "x_t", "user": "u", "role": "r"}))], {"seLinuxOptions": {"type": "y_t"}}),
    pod([c(context=GOOD)], {"seLinuxOptions": {"type": "container_t", "level": "s0"}}), pod([c(context=GOOD)], {"sysctls": [{"name": "kernel.msgmax", "value": "1"}, {"name": "net.ipv4.tcp_rmem", "value": "1"}, {"name": "vm.x", "value": "1"}]}),
    pod([c(context=plus(appArmorProfile={"type": "Unconfined"}))]), pod([c(context=plus(appArmorProfile={"type": "Unconfined"}))], annotations={"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}), pod(two(plus(runAsNonRoot=False)), {"runAsNonRoot": False}), pod([c(context=plus(runAsUser=0))], {"runAsUser": 0}),
    pod([c(context=plus(runAsUser=1))]), pod([c(context=GOOD)], initContainers=[c("i", {"privileged": True})]), pod([c(context={k: v for k, v in GOOD.items() if k == "runAsNonRoot"})], os={"name": "windows"}), pod([c(context={"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}})], {"seccompProfile": {"type": "RuntimeDefault"}}, hostUsers=False),
    pod([c(context={"runAsNonRoot": True})], {"windowsOptions": {"hostProcess": True}}, os={"name": "windows"}, hostNetwork=True),
]
lines = []


def attempt(item):
    code, answer, warnings = call("POST", collection(item) + "?dryRun=All", item)
    warnings = [re.match(r'299 - "(.*)"$', warning).group(1).replace('\\"', '"').replace("\\\\", "\\") for warning in warnings]
    warnings = [warning for warning in warnings if "PodSecurity" in warning]
    lines.append({"object": item, "code": code, "denied": short(answer) if answer["kind"] == "Status" else None, "warnings": warnings})


for item in PODS:
    for name in ["base", "strict", "warned"]:
        attempt({**item, "metadata": {**item["metadata"], "namespace": name}})
for name in ["both", "free", "default"]:
    attempt({**PODS[0], "metadata": {"name": "p", "namespace": name}})
    attempt({**PODS[4], "metadata": {"name": "p", "namespace": name}})
template = {"metadata": {"labels": {"a": "b"}}, "spec": PODS[0]["spec"]}
for name in ["base", "strict", "warned"]:
    meta = {"name": "d", "namespace": name}
    attempt({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}})
    job = {"template": {"spec": {**PODS[0]["spec"], "restartPolicy": "Never"}}}
    attempt({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": job})
    attempt({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta, "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job}}})
for labels in [{"enforce": "Restricted"}, {"enforce": "x", "warn": "y", "audit": "z"}, {"enforce": "baseline"}]:
    attempt(space("fresh", **labels))
write(os.path.join(HERE, "pod_security.json"), [{"objects": [without_managed(item) for item in SPACES]}] + lines)
