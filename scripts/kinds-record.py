#!/usr/bin/env python3
"""Records requests and a real API server's responses for apiserver/tests: kinds-record.py KUBECONFIG.

The server runs without controllers. The result is apiserver/tests/kinds_requests.zst: a JSON array of
[method, path, content type, body, code, response, warnings], the responses without managedFields.
"""

import base64
import copy
import json
import pathlib
import re
import ssl
import subprocess
import sys
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "apiserver/tests/kinds_requests.zst"
NAMESPACE = "kinds"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
LABELS = {"app": "web"}
PODS = {"containers": [{"name": "c", "image": "nginx"}]}
RESOURCES = {
    "Pod": "v1 pods", "Service": "v1 services", "ConfigMap": "v1 configmaps", "Secret": "v1 secrets",
    "Namespace": "v1 -namespaces", "Node": "v1 -nodes", "ServiceAccount": "v1 serviceaccounts",
    "PersistentVolume": "v1 -persistentvolumes", "PersistentVolumeClaim": "v1 persistentvolumeclaims",
    "Endpoints": "v1 endpoints", "LimitRange": "v1 limitranges", "ResourceQuota": "v1 resourcequotas",
    "ReplicationController": "v1 replicationcontrollers", "PodTemplate": "v1 podtemplates", "Event": "v1 events",
    "Deployment": "apps/v1 deployments", "ReplicaSet": "apps/v1 replicasets", "StatefulSet": "apps/v1 statefulsets",
    "DaemonSet": "apps/v1 daemonsets", "ControllerRevision": "apps/v1 controllerrevisions",
    "Job": "batch/v1 jobs", "CronJob": "batch/v1 cronjobs",
    "Role": "rbac.authorization.k8s.io/v1 roles", "RoleBinding": "rbac.authorization.k8s.io/v1 rolebindings",
    "ClusterRole": "rbac.authorization.k8s.io/v1 -clusterroles",
    "ClusterRoleBinding": "rbac.authorization.k8s.io/v1 -clusterrolebindings",
    "Lease": "coordination.k8s.io/v1 leases", "PodDisruptionBudget": "policy/v1 poddisruptionbudgets",
    "HorizontalPodAutoscaler": "autoscaling/v2 horizontalpodautoscalers",
    "Ingress": "networking.k8s.io/v1 ingresses", "IngressClass": "networking.k8s.io/v1 -ingressclasses",
    "NetworkPolicy": "networking.k8s.io/v1 networkpolicies", "StorageClass": "storage.k8s.io/v1 -storageclasses",
    "EndpointSlice": "discovery.k8s.io/v1 endpointslices", "PriorityClass": "scheduling.k8s.io/v1 -priorityclasses",
    "ValidatingAdmissionPolicy": "admissionregistration.k8s.io/v1 -validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "admissionregistration.k8s.io/v1 -validatingadmissionpolicybindings",
    "ValidatingWebhookConfiguration": "admissionregistration.k8s.io/v1 -validatingwebhookconfigurations",
    "MutatingWebhookConfiguration": "admissionregistration.k8s.io/v1 -mutatingwebhookconfigurations",
    "SubjectAccessReview": "authorization.k8s.io/v1 -subjectaccessreviews",
}
ABSENT = object()


class Recorder:
    def __init__(self, kubeconfig):
        text = pathlib.Path(kubeconfig).read_text()
        self.url = re.search(r"server: (\S+)", text)[1]
        self.token = re.search(r"token: (\S+)", text)[1]
        authority = base64.b64decode(re.search(r"certificate-authority-data: (\S+)", text)[1]).decode()
        self.tls = ssl.create_default_context(cadata=authority)
        self.entries = []

    def send(self, method, path, body=None, content="application/json", record=True):
        data = None if body is None else body.encode() if isinstance(body, str) else json.dumps(body, separators=(",", ":")).encode()
        request = urllib.request.Request(self.url + path, method=method, data=data)
        request.add_header("Authorization", "Bearer " + self.token)
        request.add_header("Accept", TABLE if "table=1" in path else "application/json")
        request.add_header("Content-Type", content)
        try:
            with urllib.request.urlopen(request, context=self.tls) as response:
                code, text, warnings = response.status, response.read(), response.headers.get_all("Warning") or []
        except urllib.error.HTTPError as error:
            code, text, warnings = error.code, error.read(), error.headers.get_all("Warning") or []
        answer = json.loads(text)
        answer.get("metadata", {}).pop("managedFields", None)
        if record:
            for row in answer.get("rows") or []:
                row["object"]["metadata"].pop("managedFields", None)
            self.entries.append([method, path, content, body, code, answer, warnings])
        return code, answer


def path_of(kind, name=None):
    # Limits and quotas must not act on the other objects.
    namespace = NAMESPACE + "-limits" if kind in ("LimitRange", "ResourceQuota") else NAMESPACE
    version, plural = RESOURCES[kind].split()
    prefix = ("/api/" if version == "v1" else "/apis/") + version + "/"
    where = plural[1:] if plural[0] == "-" else f"namespaces/{namespace}/{plural}"
    return prefix + where + (f"/{name}" if name else "")


def change(document, edits):
    """Returns a copy with values set at paths as in spec.containers.0.image."""
    document = copy.deepcopy(document)
    for path, value in edits.items():
        at = document
        keys = [int(key) if key.isdigit() else key.replace("~", ".") for key in path.split(".")]
        for key, following in zip(keys, keys[1:]):
            if isinstance(at, list):
                while len(at) <= key:
                    at.append({})
                at = at[key]
            else:
                at = at.setdefault(key, [] if isinstance(following, int) else {})
        if value is ABSENT:
            at.pop(keys[-1], None)
        elif isinstance(at, list):
            at[keys[-1]:keys[-1] + 1] = [value]
        else:
            at[keys[-1]] = value
    return document


def template(spec=None, labels=None):
    return {"metadata": {"labels": LABELS if labels is None else labels}, "spec": spec or PODS}


def workload(**spec):
    return {"spec": {"selector": {"matchLabels": LABELS}, "template": template(), **spec}}


BASES = {
    "Pod": {"spec": PODS},
    "Service": {"spec": {"selector": LABELS, "ports": [{"port": 80}]}},
    "ConfigMap": {"data": {"a": "1"}},
    "Secret": {"data": {"a": "MQ=="}},
    "Namespace": {}, "Node": {}, "ServiceAccount": {},
    "PersistentVolume": {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp"}}},
    "PersistentVolumeClaim": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
    "Endpoints": {"subsets": [{"addresses": [{"ip": "10.1.1.1"}], "ports": [{"port": 80}]}]},
    "LimitRange": {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1000m"}}]}},
    "ResourceQuota": {"spec": {"hard": {"pods": "10", "requests.cpu": "1500m"}}},
    "ReplicationController": {"spec": {"selector": LABELS, "template": template()}},
    "PodTemplate": {"template": template()},
    "Event": {"involvedObject": {"kind": "Pod", "name": "p", "namespace": NAMESPACE}, "reason": "R", "message": "m", "type": "Normal"},
    "Deployment": workload(), "ReplicaSet": workload(), "DaemonSet": workload(),
    "StatefulSet": workload(serviceName="web"),
    "ControllerRevision": {"revision": 1, "data": {"a": 1}},
    "Job": {"spec": {"template": {"spec": {**PODS, "restartPolicy": "Never"}}}},
    "CronJob": {"spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": {"spec": {**PODS, "restartPolicy": "OnFailure"}}}}}},
    "Role": {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    "ClusterRole": {"rules": [{"nonResourceURLs": ["/healthz"], "verbs": ["get"]}]},
    "RoleBinding": {"roleRef": {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"}, "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": NAMESPACE}]},
    "ClusterRoleBinding": {"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}]},
    "Lease": {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2024-01-01T00:00:00.123456Z"}},
    "PodDisruptionBudget": {"spec": {"minAvailable": 1, "selector": {"matchLabels": LABELS}}},
    "HorizontalPodAutoscaler": {"spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}}},
    "Ingress": {"spec": {"rules": [{"host": "a.example.com", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}}]}}]}},
    "IngressClass": {"spec": {"controller": "example.com/c"}},
    "NetworkPolicy": {"spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80}], "from": [{"podSelector": {}}]}]}},
    "StorageClass": {"provisioner": "example.com/p"},
    "EndpointSlice": {"addressType": "IPv4", "endpoints": [{"addresses": ["10.1.1.1"]}], "ports": [{"port": 80}]},
    "PriorityClass": {"value": 10},
    "ValidatingAdmissionPolicy": {"spec": {"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]}, "validations": [{"expression": "true"}]}},
    "ValidatingAdmissionPolicyBinding": {"spec": {"policyName": "p", "validationActions": ["Deny"]}},
    "ValidatingWebhookConfiguration": {"webhooks": [{"name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/x"}, "rules": [{"apiGroups": ["nowhere.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["things"]}]}]},
    "MutatingWebhookConfiguration": {"webhooks": [{"name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "clientConfig": {"service": {"name": "s", "namespace": "n"}}, "rules": [{"apiGroups": ["nowhere.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["things"]}]}]},
    "SubjectAccessReview": {"spec": {"user": "u", "resourceAttributes": {"verb": "get", "resource": "pods"}}},
}


def base(kind, name, edits=None):
    version = RESOURCES[kind].split()[0]
    document = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **copy.deepcopy(BASES[kind])}
    return change(document, edits or {})


C = "spec.containers.0."
T = "spec.template."
TC = "spec.template.spec.containers.0."
R = "resources."
SELECTOR = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
POD_EDITS = [
    {"spec.containers": []}, {"spec.containers": ABSENT}, {C + "name": ""}, {C + "name": "A_b"}, {C + "image": ""}, {C + "image": " nginx"},
    {C + "image": "nginx:1.25"}, {C + "image": "nginx:latest"}, {C + "image": "example.com:5000/a/b@sha256:" + "a" * 64},
    {C + "imagePullPolicy": "Sometimes"}, {"spec.restartPolicy": "Sometimes"}, {"spec.dnsPolicy": "X"}, {"spec.restartPolicy": "Never"},
    {C + "ports": [{"containerPort": 80}, {"containerPort": 443, "name": "https", "protocol": "TCP"}]},
    {C + "ports": [{"containerPort": 0}]}, {C + "ports": [{"containerPort": 70000, "protocol": "X"}]}, {C + "ports": [{"containerPort": 1, "name": "A"}, {"containerPort": 2, "name": "b"}, {"containerPort": 3, "name": "b"}]},
    {C + "ports": [{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}]}, {C + "ports": [{"containerPort": 80, "hostPort": 99999}]},
    {C + "env": [{"name": "A", "value": "x"}, {"name": "P", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}, {"name": "R", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]},
    {C + "env": [{"name": ""}]}, {C + "env": [{"name": "a=b", "value": "x"}]}, {C + "env": [{"name": "A", "value": "x", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
    {C + "env": [{"name": "A", "valueFrom": {}}]}, {C + "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.foo"}}}]}, {C + "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "", "key": ""}}}]},
    {C + "envFrom": [{"configMapRef": {"name": "c"}}, {"prefix": "P_", "secretRef": {"name": "s"}}]}, {C + "envFrom": [{}]},
    {C + R + "requests": {"cpu": "1000m", "memory": "1024Mi"}, C + R + "limits": {"cpu": "2", "memory": "2Gi"}}, {C + R + "limits": {"cpu": "0.1", "memory": "1.5Gi"}},
    {C + R + "requests": {"cpu": "2"}, C + R + "limits": {"cpu": "1"}}, {C + R + "requests": {"cpu": "-1"}}, {C + R + "requests": {"foo": "1"}}, {C + R + "requests": {"cpu": "100u"}},
    {C + R + "requests": {"example.com/gpu": "1"}}, {C + R + "limits": {"example.com/gpu": "1500m"}}, {C + R + "requests": {"cpu": "abc"}}, {C + R + "requests": {"cpu": 1, "memory": 1.5}},
    {C + "volumeMounts": [{"name": "v", "mountPath": "/x"}]}, {"spec.volumes": [{"name": "v"}], C + "volumeMounts": [{"name": "v", "mountPath": "/x"}, {"name": "v", "mountPath": "/x"}]},
    {"spec.volumes": [{"name": "v", "configMap": {"name": "c", "items": [{"key": "a", "path": "b"}]}}, {"name": "s", "secret": {"secretName": "s"}}, {"name": "h", "hostPath": {"path": "/x"}}, {"name": "p", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "d", "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}}, {"name": "j", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}, {"configMap": {"name": "c"}}]}}, {"name": "e", "emptyDir": {"medium": "Memory", "sizeLimit": "1024Mi"}}], C + "volumeMounts": [{"name": "v", "mountPath": "/x", "subPath": "y"}]},
    {"spec.volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}]}, {"spec.volumes": [{"name": "v"}, {"name": "v"}]}, {"spec.volumes": [{"name": "V"}]}, {"spec.volumes": [{"name": ""}]}, {"spec.volumes": [{"name": "v", "configMap": {}}, {"name": "w", "hostPath": {"path": ""}}, {"name": "x", "persistentVolumeClaim": {"claimName": ""}}]},
    {C + "livenessProbe": {"httpGet": {"port": 80}}, C + "readinessProbe": {"tcpSocket": {"port": "http"}, "periodSeconds": 5}, C + "startupProbe": {"exec": {"command": ["true"]}}},
    {C + "livenessProbe": {}}, {C + "livenessProbe": {"httpGet": {"port": 0}, "successThreshold": 2}}, {C + "livenessProbe": {"exec": {"command": ["x"]}, "periodSeconds": -1, "initialDelaySeconds": -1}}, {C + "readinessProbe": {"httpGet": {"port": 80}, "exec": {"command": ["x"]}}}, {C + "livenessProbe": {"grpc": {"port": 80}}},
    {C + "lifecycle": {"preStop": {"exec": {"command": ["x"]}}, "postStart": {"httpGet": {"port": 1, "path": "x"}}}}, {C + "lifecycle": {"preStop": {}}},
    {C + "securityContext": {"runAsUser": -1, "privileged": True, "allowPrivilegeEscalation": False}}, {C + "securityContext": {"runAsUser": 1, "runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}}}, {"spec.securityContext": {"fsGroup": -1, "runAsUser": 5, "seccompProfile": {"type": "RuntimeDefault"}}},
    {"spec.initContainers": [{"name": "c", "image": "x"}]}, {"spec.initContainers": [{"name": "i", "image": "x", "restartPolicy": "Always"}]}, {"spec.initContainers": [{"name": "i", "image": "x", "livenessProbe": {"exec": {"command": ["x"]}}}]},
    {"spec.containers": [{"name": "a", "image": "x"}, {"name": "a", "image": "y"}]}, {"spec.nodeSelector": {"a b": "c"}}, {"spec.nodeName": "Bad_Node"}, {"spec.serviceAccountName": "Bad_Name"}, {"spec.hostNetwork": True, C + "ports": [{"containerPort": 80}]},
    {"spec.tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]}, {"spec.tolerations": [{"operator": "Equal"}]}, {"spec.tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]}, {"spec.tolerations": [{"key": "a", "effect": "Bad"}]},
    {"spec.affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {"matchLabels": LABELS}, "topologyKey": "kubernetes.io/hostname"}]}, "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]}}}},
    {"spec.affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ""}]}}}, {"spec.topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]}, {"spec.topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "X"}]},
    {"spec.terminationGracePeriodSeconds": -1}, {"spec.activeDeadlineSeconds": 0}, {"spec.hostname": "A_b", "spec.subdomain": "x_y"}, {"spec.imagePullSecrets": [{"name": ""}]}, {"spec.hostAliases": [{"ip": "bad", "hostnames": ["a_b"]}]}, {"spec.dnsConfig": {"nameservers": ["bad"]}, "spec.dnsPolicy": "None"}, {"spec.dnsPolicy": "None"},
    {"spec.schedulerName": "Bad_"}, {"spec.readinessGates": [{"conditionType": "a b"}]}, {"metadata.name": "Bad_Name"}, {"metadata.name": "a" * 254}, {"metadata.labels": {"a": "b c"}}, {"metadata.labels": {"-a": "b"}}, {"metadata.annotations": {"a b": "c"}}, {"metadata.finalizers": ["foo"]}, {"metadata.finalizers": ["example.com/f"]}, {"metadata.labels": {"example.com/": "x"}}, {"metadata.labels": {"a/b/c": "x"}}, {"metadata.labels": {"a": "b" * 64}},
    {"metadata.ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "", "uid": ""}]}, {"metadata.ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "1", "controller": True}, {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "y", "uid": "2", "controller": True}]},
    {"spec.ephemeralContainers": [{"name": "e", "image": "x"}]}, {"spec.shareProcessNamespace": True, "spec.hostPID": True}, {C + "terminationMessagePolicy": "X"}, {C + "workingDir": "/x", C + "command": ["a"], C + "args": [], C + "stdin": False, C + "tty": True},
    {C + "volumeDevices": [{"name": "x", "devicePath": "/d"}]}, {C + "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]}, {"metadata.creationTimestamp": None, "status": {}}, {"status": {"phase": "Running"}, "metadata.uid": "x", "metadata.generation": 5},
]
TEMPLATE_EDITS = [
    {}, {"spec.replicas": -1}, {"spec.replicas": 0}, {"spec.replicas": 2, "metadata.labels": LABELS}, {"spec.selector": ABSENT}, {"spec.selector": {}}, {"spec.template": ABSENT}, {T + "metadata.labels": {"other": "x"}}, {T + "spec.containers": []}, {TC + "image": ""}, {TC + "name": "Bad_"}, {T + "spec.restartPolicy": "Never"}, {"spec.minReadySeconds": -1},
    {"spec.selector": {"matchLabels": {"a b": "c"}}}, {"spec.selector": {"matchExpressions": [{"key": "app", "operator": "In"}]}}, {"spec.selector": {"matchExpressions": [{"key": "app", "operator": "Bad", "values": ["x"]}]}}, {"spec.selector": SELECTOR}, {"spec.revisionHistoryLimit": -1}, {T + "spec.activeDeadlineSeconds": 5}, {"spec.replicas": "2"}, {"spec": ABSENT}, {"metadata.name": "Bad_"}, {TC + R + "limits": {"cpu": "1000m"}}, {T + "metadata.name": "x", T + "metadata.creationTimestamp": None},
]
CREATES = {
    "Pod": [{}] + POD_EDITS,
    "Deployment": TEMPLATE_EDITS + [
        {"spec.strategy": {"type": "Recreate"}}, {"spec.strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}}, {"spec.strategy": {"type": "X"}}, {"spec.strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}}, {"spec.strategy": {"rollingUpdate": {"maxSurge": "x%"}}}, {"spec.strategy": {"rollingUpdate": {"maxUnavailable": "200%", "maxSurge": -1}}}, {"spec.strategy": {"rollingUpdate": {"maxSurge": "50%"}}}, {"spec.progressDeadlineSeconds": 0}, {"spec.progressDeadlineSeconds": 5, "spec.minReadySeconds": 10}, {"spec.paused": True},
        {"spec.template.spec.containers": "x"}, {"spec.template.spec.containers.0.ports": [{"containerPort": "80"}]}, {"spec.replicas": 1.5}, {"spec.replicas": 3000000000}, {"metadata.labels": {"a": 1}}, {"metadata.labels": "x"}, {"spec": []}, {"spec.paused": "yes"}, {"metadata.creationTimestamp": 5}, {"metadata.creationTimestamp": "yesterday"}, {"spec.strategy": {"rollingUpdate": {"maxSurge": True}}}, {"spec.template.spec.volumes": [{"name": "x", "emptyDir": 5}]}, {"spec.template.spec.containers.0.livenessProbe": {"httpGet": 5}}, {"kind": 5},
    ],
    "ReplicaSet": TEMPLATE_EDITS,
    "StatefulSet": TEMPLATE_EDITS + [{"spec.podManagementPolicy": "X"}, {"spec.updateStrategy": {"type": "X"}}, {"spec.updateStrategy": {"type": "OnDelete"}}, {"spec.updateStrategy": {"rollingUpdate": {"partition": -1}}}, {"spec.serviceName": ABSENT}, {"spec.volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": BASES["PersistentVolumeClaim"]["spec"]}], TC + "volumeMounts": [{"name": "data", "mountPath": "/d"}]}, {"spec.persistentVolumeClaimRetentionPolicy": {"whenDeleted": "X"}}, {"spec.persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}, {"spec.ordinals": {"start": -1}}],
    "DaemonSet": TEMPLATE_EDITS + [{"spec.updateStrategy": {"type": "OnDelete"}}, {"spec.updateStrategy": {"type": "X"}}, {"spec.updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}}, {"spec.updateStrategy": {"rollingUpdate": {"maxUnavailable": "10%", "maxSurge": 1}}}],
    "ControllerRevision": [{}, {"revision": -1}, {"data": ABSENT}],
    "ReplicationController": [{}, {"spec.replicas": -1}, {"spec.selector": ABSENT}, {"spec.selector": {"a": "b"}}, {"spec.template": ABSENT}, {"spec.minReadySeconds": -1}],
    "PodTemplate": [{}, {"template.spec.containers": []}],
    "Job": [{}, {"spec.template.spec.restartPolicy": ABSENT}, {"spec.template.spec.restartPolicy": "Always"}, {"spec.parallelism": -1, "spec.completions": -1, "spec.backoffLimit": -1}, {"spec.completions": 3}, {"spec.parallelism": 2}, {"spec.completionMode": "Indexed"}, {"spec.completionMode": "Indexed", "spec.completions": 3}, {"spec.completionMode": "X"}, {"spec.ttlSecondsAfterFinished": -1}, {"spec.activeDeadlineSeconds": -1}, {"spec.suspend": True}, {"spec.selector": {"matchLabels": LABELS}}, {"spec.manualSelector": True}, {"spec.manualSelector": True, "spec.selector": {"matchLabels": LABELS}, T + "metadata": {"labels": LABELS}}, {T + "metadata": {"labels": {"x": "y"}}}, {"metadata.labels": {"l": "m"}}, {"spec.podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}]}}, {"spec.podReplacementPolicy": "X"}, {"spec.template": ABSENT}, {"spec.backoffLimitPerIndex": 1}, {"spec.backoffLimitPerIndex": 1, "spec.completionMode": "Indexed", "spec.completions": 2}, {"metadata.name": "j" * 64}, {"spec.template.spec.containers": []}],
    "CronJob": [{}, {"spec.schedule": ""}, {"spec.schedule": "x"}, {"spec.schedule": "@daily"}, {"spec.schedule": "TZ=UTC * * * * *"}, {"spec.schedule": "61 * * * *"}, {"spec.timeZone": "Nowhere/X"}, {"spec.timeZone": "Etc/UTC"}, {"spec.concurrencyPolicy": "X"}, {"spec.successfulJobsHistoryLimit": -1, "spec.failedJobsHistoryLimit": -1}, {"spec.startingDeadlineSeconds": -1}, {"spec.suspend": True}, {"spec.jobTemplate.spec.template.spec.restartPolicy": "Always"}, {"metadata.name": "c" * 53}, {"spec.jobTemplate.spec.selector": {"matchLabels": LABELS}}, {"spec.jobTemplate": ABSENT}],
    "Service": [{}, {"spec.ports": ABSENT}, {"spec.clusterIP": "None"}, {"spec.type": "ExternalName", "spec.externalName": "a.example.com"}, {"spec.type": "ExternalName"}, {"spec.type": "X"}, {"spec.type": "NodePort"}, {"spec.type": "LoadBalancer"}, {"spec.sessionAffinity": "ClientIP"}, {"spec.sessionAffinity": "X"}, {"spec.ports": [{"port": 80, "targetPort": "http", "name": "a"}, {"port": 443, "name": "b", "protocol": "UDP"}]}, {"spec.ports": [{"port": 80}, {"port": 81}]}, {"spec.ports": [{"port": 0}]}, {"spec.ports": [{"port": 80, "protocol": "X"}]}, {"spec.ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "a"}]}, {"spec.ports": [{"port": 80, "targetPort": 70000}]}, {"spec.ports": [{"port": 80, "targetPort": "Bad_"}]}, {"spec.clusterIP": "bad"}, {"metadata.name": "1abc"}, {"metadata.name": "a" * 64}, {"spec.selector": {"a b": "c"}}, {"spec.externalIPs": ["127.0.0.1"]}, {"spec.internalTrafficPolicy": "X"}, {"spec.externalTrafficPolicy": "Local"}, {"spec.ipFamilyPolicy": "PreferDualStack"}, {"spec.publishNotReadyAddresses": True, "spec.clusterIP": "None", "spec.selector": ABSENT}, {"spec.ports": [{"port": 80, "nodePort": 30123}]}, {"spec": ABSENT}, {"spec.clusterIP": "None", "spec.ports": ABSENT}],
    "ConfigMap": [{}, {"data": {"a b": "x"}}, {"data": {"a": "x"}, "binaryData": {"a": "eA=="}}, {"binaryData": {"b": "eA=="}}, {"binaryData": {"b": "@@"}}, {"immutable": True}, {"data": ABSENT}, {"data": {}}, {"data": None}, {"data": {"a": 1}}, {"data": {"a": None}}, {"data": {"..": "x"}}, {"data": {"": "x"}}, {"data": {"a": "<b>&\u2028é\u0001"}}, {"metadata.generateName": "g-", "metadata.name": ABSENT}, {"metadata.name": ABSENT}, {"metadata.name": ""}, {"metadata.namespace": "other"}, {"data": {"k" * 254: "x"}}, {"metadata.annotations": {"a": "x" * 300}, "metadata.labels": {}}],
    "Secret": [{}, {"stringData": {"a": "x", "b": "y"}}, {"type": "kubernetes.io/tls"}, {"type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""}}, {"type": "kubernetes.io/dockerconfigjson", "data": {}}, {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "eA=="}}, {"type": "kubernetes.io/basic-auth", "data": {}}, {"type": "kubernetes.io/ssh-auth", "data": {}}, {"type": "kubernetes.io/service-account-token"}, {"data": {"a b": ""}}, {"data": {"a": "x"}}, {"data": {"a": "eA=="}, "immutable": True}, {"data": {"a": None}}, {"type": "example.com/x", "data": ABSENT}, {"data": {"a": "eA=\n="}}, {"data": {"a": "eB=="}}],
    "Namespace": [{}, {"metadata.labels": {"a": "b"}}, {"metadata.name": "Bad_"}, {"metadata.name": "n" * 64}, {"spec.finalizers": ["x"]}, {"spec.finalizers": ["example.com/f"]}],
    "Node": [{}, {"spec.podCIDR": "10.0.0.0/24"}, {"spec.taints": [{"key": "a", "effect": "Bad"}]}, {"status.capacity": {"cpu": "1000m"}}, {"spec.unschedulable": True}],
    "ServiceAccount": [{}, {"secrets": [{"name": "s"}], "imagePullSecrets": [{"name": "p"}], "automountServiceAccountToken": False}],
    "PersistentVolume": [{}, {"spec.capacity": ABSENT}, {"spec.accessModes": []}, {"spec.accessModes": ["X"]}, {"spec.hostPath": ABSENT}, {"spec.persistentVolumeReclaimPolicy": "X"}, {"spec.nfs": {"server": "s", "path": "/p"}}],
    "PersistentVolumeClaim": [{}, {"spec.accessModes": []}, {"spec.accessModes": ["X"]}, {"spec.resources": ABSENT}, {"spec.resources": {"requests": {"storage": "0"}}}, {"spec.resources": {"requests": {"storage": "-1"}}}, {"spec.volumeMode": "X"}, {"spec.storageClassName": "Bad_"}, {"spec.storageClassName": "", "spec.selector": SELECTOR}, {"spec.accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]}],
    "Endpoints": [{}, {"subsets": ABSENT}, {"subsets": [{}]}, {"subsets": [{"addresses": [{"ip": "x"}], "ports": [{"port": 0}]}]}],
    "LimitRange": [{}, {"spec.limits": [{"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "2"}}]}, {"spec.limits": [{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "500m"}}]}],
    "ResourceQuota": [{}, {"spec.hard": {"foo": "1"}}, {"spec.hard": {"pods": "1.5"}}, {"spec.hard": {"pods": "-1"}}, {"spec.scopes": ["Bad"]}],
    "Event": [{}, {"involvedObject.namespace": "other"}, {"involvedObject": ABSENT}, {"firstTimestamp": "2024-01-01T00:00:00Z", "lastTimestamp": "2024-01-01T00:01:00+01:00", "count": 2, "source": {"component": "c"}}, {"eventTime": "2024-01-01T00:00:00.000000Z"}, {"eventTime": "2024-01-01T00:00:00Z"}],
    "Role": [{}, {"rules": []}, {"rules": ABSENT}, {"rules": [{"verbs": []}]}, {"rules": [{"verbs": ["get"], "resources": ["pods"]}]}, {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]}, {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": []}]}, {"metadata.name": "a:b"}, {"metadata.name": "a/b"}],
    "ClusterRole": [{}, {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "nonResourceURLs": ["/x"]}]}, {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}, "rules": ABSENT}, {"aggregationRule": {"clusterRoleSelectors": []}}, {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a b": "b"}}]}}],
    "RoleBinding": [{}, {"roleRef": ABSENT}, {"roleRef.kind": "X"}, {"roleRef.name": ""}, {"roleRef.apiGroup": "x"}, {"subjects": ABSENT}, {"subjects": [{"kind": "X", "name": "a"}]}, {"subjects": [{"kind": "User", "name": ""}]}, {"subjects": [{"kind": "ServiceAccount", "name": "a"}]}, {"subjects": [{"kind": "Group", "name": "g"}]}, {"subjects": [{"kind": "User", "name": "g", "apiGroup": "x"}]}, {"subjects": [{"kind": "ServiceAccount", "name": "Bad_", "namespace": "x"}]}, {"roleRef.kind": "ClusterRole"}],
    "ClusterRoleBinding": [{}, {"roleRef.kind": "Role"}, {"subjects": [{"kind": "ServiceAccount", "name": "a"}]}],
    "Lease": [{}, {"spec": ABSENT}, {"spec.leaseDurationSeconds": 0}, {"spec.leaseTransitions": -1}, {"spec.renewTime": "2024-01-01T00:00:00Z"}, {"spec.renewTime": "x"}, {"spec.renewTime": 5}, {"spec.holderIdentity": ""}, {"spec.acquireTime": None}, {"spec.strategy": "X"}],
    "PodDisruptionBudget": [{}, {"spec.maxUnavailable": 1}, {"spec.minAvailable": -1}, {"spec.minAvailable": "50%"}, {"spec.minAvailable": "x"}, {"spec.minAvailable": "200%"}, {"spec.selector": {"matchLabels": {"a b": "c"}}}, {"spec": ABSENT}, {"spec.unhealthyPodEvictionPolicy": "X"}, {"spec.unhealthyPodEvictionPolicy": "AlwaysAllow"}],
    "HorizontalPodAutoscaler": [{}, {"spec.minReplicas": 5}, {"spec.maxReplicas": 0}, {"spec.minReplicas": 0}, {"spec.scaleTargetRef": {}}, {"spec.metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]}, {"spec.metrics": [{"type": "X"}]}, {"spec.behavior": {"scaleDown": {"stabilizationWindowSeconds": 5}}}],
    "Ingress": [{}, {"spec": ABSENT}, {"spec.rules": ABSENT, "spec.defaultBackend": {"service": {"name": "x", "port": {"number": 80}}}}, {"spec.rules.0.host": "Bad_"}, {"spec.rules.0.host": "*.example.com"}, {"spec.rules.0.host": "1.2.3.4"}, {"spec.rules.0.http.paths.0.path": "x"}, {"spec.rules.0.http.paths.0.pathType": ABSENT}, {"spec.rules.0.http.paths.0.pathType": "X"}, {"spec.rules.0.http.paths.0.backend": {}}, {"spec.rules.0.http.paths.0.backend": {"service": {"name": "", "port": {}}}}, {"spec.rules.0.http.paths": []}, {"spec.tls": [{"hosts": ["a.b"], "secretName": "s"}]}, {"spec.ingressClassName": "Bad_"}],
    "IngressClass": [{}, {"spec.controller": "x"}, {"spec": ABSENT}, {"spec.parameters": {"kind": "K", "name": "n"}}],
    "NetworkPolicy": [{}, {"spec.egress": [{}]}, {"spec.policyTypes": ["Egress"]}, {"spec.policyTypes": ["X"]}, {"spec.ingress": [{"from": [{}]}]}, {"spec.ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/24"]}}]}]}, {"spec.ingress": [{"from": [{"ipBlock": {"cidr": "x"}}]}]}, {"spec.ingress": [{"ports": [{"port": 70000, "protocol": "X"}]}]}, {"spec": ABSENT}],
    "StorageClass": [{}, {"provisioner": ""}, {"reclaimPolicy": "X"}, {"volumeBindingMode": "X"}, {"parameters": {"a": "b"}, "allowVolumeExpansion": True}],
    "EndpointSlice": [{}, {"addressType": "X"}, {"addressType": ABSENT}, {"endpoints": [{"addresses": []}]}, {"endpoints": [{"addresses": ["x"]}]}, {"ports": [{"port": 80, "protocol": "X", "name": "Bad_"}]}, {"endpoints": ABSENT}],
    "PriorityClass": [{}, {"value": 2000000000}, {"preemptionPolicy": "X"}, {"preemptionPolicy": "Never", "description": "d"}, {"metadata.name": "system-x"}],
    "ValidatingAdmissionPolicy": [{}, {"spec.validations": ABSENT}, {"spec.failurePolicy": "X"}, {"spec.matchConstraints": ABSENT}, {"spec.variables": [{"name": "a", "expression": "1"}]}],
    "ValidatingAdmissionPolicyBinding": [{}, {"spec.policyName": ""}, {"spec.validationActions": []}, {"spec.validationActions": ["Deny", "Warn"]}, {"spec.validationActions": ["X"]}],
    "ValidatingWebhookConfiguration": [{}, {"webhooks": ABSENT}, {"webhooks.0.name": "x"}, {"webhooks.0.sideEffects": "X"}, {"webhooks.0.sideEffects": ABSENT}, {"webhooks.0.clientConfig": {}}, {"webhooks.0.timeoutSeconds": 31}, {"webhooks.0.admissionReviewVersions": ["v2"]}],
    "MutatingWebhookConfiguration": [{}, {"webhooks.0.reinvocationPolicy": "X"}, {"webhooks.0.rules": []}],
}
# Each update: the kind, the edits of the first object, the edits of the second, and the subresource.
UPDATES = [
    ("Deployment", {}, {"spec.replicas": 3}), ("Deployment", {}, {"spec.selector": {"matchLabels": {"a": "b"}}, T + "metadata.labels": {"a": "b"}}), ("Deployment", {}, {"metadata.labels": {"x": "y"}}), ("Deployment", {}, {"status": {"replicas": 5}}), ("Deployment", {}, {TC + "image": "nginx:2"}),
    ("Deployment", {}, {"status": {"replicas": 5, "readyReplicas": 2, "observedGeneration": 1, "conditions": [{"type": "Available", "status": "True"}]}}, "status"), ("Deployment", {}, {"status": {"replicas": -1, "readyReplicas": 2}}, "status"), ("Deployment", {}, {"spec.replicas": 9, "status": {"replicas": 1}, "metadata.labels": {"z": "z"}}, "status"),
    ("ReplicaSet", {}, {"spec.replicas": 3}), ("ReplicaSet", {}, {"spec.selector": {"matchLabels": {"a": "b"}}, T + "metadata.labels": {"a": "b"}}), ("ReplicaSet", {}, {"status": {"replicas": 1, "readyReplicas": 2}}, "status"), ("ReplicaSet", {}, {"status": {"replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 1, "availableReplicas": 1}}, "status"),
    ("StatefulSet", {}, {"spec.replicas": 3}), ("StatefulSet", {}, {"spec.serviceName": "other"}), ("StatefulSet", {}, {"spec.podManagementPolicy": "Parallel"}), ("StatefulSet", {}, {"status": {"replicas": 1, "currentRevision": "x"}}, "status"), ("StatefulSet", {}, {"status": {"replicas": -1}}, "status"),
    ("DaemonSet", {}, {TC + "image": "nginx:2"}), ("DaemonSet", {}, {"spec.selector": {"matchLabels": {"a": "b"}}, T + "metadata.labels": {"a": "b"}}), ("DaemonSet", {}, {"status": {"currentNumberScheduled": 1, "numberMisscheduled": 0, "desiredNumberScheduled": 1, "numberReady": 1}}, "status"),
    ("Pod", {}, {C + "image": "nginx:2"}), ("Pod", {}, {C + "command": ["x"]}), ("Pod", {}, {"metadata.labels": {"x": "y"}}), ("Pod", {}, {"spec.nodeName": "n1"}), ("Pod", {}, {"spec.activeDeadlineSeconds": 5}), ("Pod", {}, {"spec.tolerations.2": {"key": "x", "operator": "Exists"}}), ("Pod", {}, {"spec.containers": [{"name": "c", "image": "nginx"}, {"name": "d", "image": "x"}]}), ("Pod", {}, {"status": {"phase": "Running"}}),
    ("Pod", {}, {"status": {"phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}], "startTime": "2024-01-01T00:00:00Z", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [{"name": "c", "image": "nginx", "imageID": "x", "ready": True, "restartCount": 2, "state": {"running": {"startedAt": "2024-01-01T00:00:00Z"}}}]}}, "status"),
    ("Pod", {}, {"status": {"phase": "Pending", "containerStatuses": [{"name": "c", "image": "nginx", "imageID": "", "ready": False, "restartCount": 0, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}}, "status"), ("Pod", {}, {"status": {"phase": "Succeeded"}}, "status"), ("Pod", {}, {"status": {"phase": "Failed", "reason": "Evicted", "containerStatuses": [{"name": "c", "image": "nginx", "imageID": "", "ready": False, "restartCount": 0, "state": {"terminated": {"exitCode": 3}}}]}}, "status"),
    ("ConfigMap", {"immutable": True}, {"data": {"a": "2"}}), ("ConfigMap", {"immutable": True}, {"immutable": False}), ("ConfigMap", {}, {"data": {"b": "2"}}), ("Secret", {"immutable": True}, {"data": {"a": "Mg=="}}), ("Secret", {}, {"type": "example.com/other"}), ("Secret", {}, {"stringData": {"c": "z"}}),
    ("Service", {}, {"spec.selector": {"x": "y"}}), ("Service", {}, {"spec.type": "NodePort"}), ("Service", {}, {"spec.clusterIP": "10.0.0.200", "spec.clusterIPs": ["10.0.0.200"]}), ("Service", {}, {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}, "status"),
    ("Job", {}, {"spec.parallelism": 2}), ("Job", {}, {"spec.completions": 2}), ("Job", {}, {TC + "image": "x"}), ("Job", {}, {"spec.suspend": True}), ("Job", {}, {"status": {"active": 1, "startTime": "2024-01-01T00:00:00Z"}}, "status"), ("CronJob", {}, {"spec.schedule": "1 * * * *"}), ("CronJob", {}, {"status": {"lastScheduleTime": "2024-01-01T00:00:00Z"}}, "status"),
    ("RoleBinding", {}, {"roleRef.name": "other"}), ("RoleBinding", {}, {"subjects": []}), ("Role", {}, {"rules": []}), ("ClusterRoleBinding", {}, {"roleRef.name": "other"}), ("Lease", {}, {"spec.holderIdentity": "you", "spec.leaseTransitions": 1}), ("Lease", {"spec.leaseTransitions": 5}, {"spec.leaseTransitions": 1}),
    ("PodDisruptionBudget", {}, {"spec.minAvailable": 2}), ("PodDisruptionBudget", {}, {"status": {"currentHealthy": 1, "desiredHealthy": 1, "disruptionsAllowed": 0, "expectedPods": 1}}, "status"), ("HorizontalPodAutoscaler", {}, {"spec.maxReplicas": 9}), ("Ingress", {}, {"spec.rules.0.host": "b.example.com"}), ("Ingress", {}, {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}, "status"), ("NetworkPolicy", {}, {"spec.podSelector": {"matchLabels": LABELS}}), ("IngressClass", {}, {"spec.controller": "example.com/d"}),
    ("PersistentVolumeClaim", {}, {"spec.accessModes": ["ReadWriteMany"]}), ("PersistentVolumeClaim", {}, {"spec.volumeName": "v"}), ("PersistentVolumeClaim", {}, {"status": {"phase": "Bound", "capacity": {"storage": "1024Mi"}, "accessModes": ["ReadWriteOnce"]}}, "status"), ("PersistentVolume", {}, {"spec.capacity": {"storage": "2Gi"}}), ("PersistentVolume", {}, {"spec.hostPath": {"path": "/other"}}), ("PersistentVolume", {}, {"status": {"phase": "Available"}}, "status"),
    ("StorageClass", {}, {"provisioner": "example.com/q"}), ("StorageClass", {}, {"reclaimPolicy": "Retain"}), ("PriorityClass", {}, {"value": 11}), ("PriorityClass", {}, {"description": "x"}), ("Namespace", {}, {"metadata.labels": {"q": "r"}}), ("Namespace", {}, {"spec": {}}), ("Namespace", {}, {"status": {"phase": "Terminating"}}, "status"), ("Node", {}, {"spec.unschedulable": True}), ("Node", {}, {"status": {"capacity": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}], "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}], "nodeInfo": {"kubeletVersion": "v1.36.0"}}}, "status"), ("ServiceAccount", {}, {"secrets": [{"name": "x"}]}), ("ControllerRevision", {}, {"revision": 2}), ("ControllerRevision", {}, {"data": {"b": 2}}),
    ("ResourceQuota", {}, {"spec.hard": {"pods": "5"}}), ("ResourceQuota", {}, {"status": {"hard": {"pods": "10"}, "used": {"pods": "1"}}}, "status"), ("ReplicationController", {}, {"spec.replicas": 2}), ("ReplicationController", {}, {"status": {"replicas": 1}}, "status"), ("Endpoints", {}, {"subsets": []}), ("EndpointSlice", {}, {"addressType": "IPv6", "endpoints": []}), ("EndpointSlice", {}, {"endpoints": [{"addresses": ["10.1.1.2"], "conditions": {"ready": True}}]}), ("Event", {}, {"message": "other"}), ("LimitRange", {}, {"spec.limits": []}), ("ClusterRole", {}, {"rules": []}),
    ("ConfigMap", {}, {"metadata.creationTimestamp": "2020-01-01T00:00:00Z"}), ("ConfigMap", {}, {"metadata.labels": {"a b": "c"}}),
]
# Each patch: the kind, the edits of the object, the type, the patch.
PATCHES = [
    ("Deployment", {}, STRATEGIC, {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "x:1"}]}}}}), ("Deployment", {}, STRATEGIC, {"spec": {"template": {"spec": {"containers": [{"name": "d", "image": "x:1"}]}}}}), ("Deployment", {}, STRATEGIC, {"spec": {"template": {"spec": {"containers": [{"name": "c", "$patch": "delete"}, {"name": "d", "image": "y"}]}}}}), ("Deployment", {}, STRATEGIC, {"spec": {"template": {"spec": {"containers": [{"name": "e", "image": "y"}, {"$patch": "replace"}]}}}}), ("Deployment", {}, STRATEGIC, {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}), ("Deployment", {}, STRATEGIC, {"spec": {"strategy": {"type": "Recreate"}}}), ("Deployment", {}, STRATEGIC, {"spec": {"replicas": None}}), ("Deployment", {}, STRATEGIC, {"metadata": {"labels": {"$patch": "replace", "a": "b"}}}), ("Deployment", {"metadata.labels": {"a": "b"}}, STRATEGIC, {"metadata": {"labels": None}}), ("Deployment", {}, STRATEGIC, {"spec": {"replicas": "x"}}), ("Deployment", {}, STRATEGIC, {"spec": {"template": {"spec": {"containers": [{"image": "y"}]}}}}),
    ("Pod", {"metadata.finalizers": ["a.b/c", "d.e/f"]}, STRATEGIC, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.b/c"]}}), ("Pod", {"metadata.finalizers": ["a.b/c"]}, STRATEGIC, {"metadata": {"finalizers": ["d.e/f"]}}), ("Pod", {}, STRATEGIC, {"spec": {"$setElementOrder/containers": [{"name": "c"}], "containers": [{"name": "c", "image": "z"}]}}), ("Service", {}, STRATEGIC, {"spec": {"ports": [{"port": 81, "name": "x"}, {"port": 80, "name": "y"}]}}), ("Service", {}, MERGE, {"spec": {"selector": {"x": "y"}}}), ("ConfigMap", {}, STRATEGIC, {"data": {"a": None, "b": "2"}}), ("ConfigMap", {}, MERGE, {"data": {"a": None}}), ("ConfigMap", {}, MERGE, {"data": None, "binaryData": {"x": "eA=="}}), ("Secret", {}, STRATEGIC, {"stringData": {"k": "v"}}), ("Role", {}, STRATEGIC, {"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]}), ("ServiceAccount", {"secrets": [{"name": "a"}]}, STRATEGIC, {"secrets": [{"name": "b"}]}), ("Job", {}, STRATEGIC, {"spec": {"suspend": True}}), ("Ingress", {}, STRATEGIC, {"spec": {"rules": [{"host": "z.example.com"}]}}),
]
TABLES = [kind for kind in RESOURCES if kind not in ("SubjectAccessReview",)]
STRICT = ["?fieldValidation=Strict", "?fieldValidation=Warn", "?fieldValidation=Ignore", ""]
ODD = [
    '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"NAME","foo":1},"spec":{"replicsa":1,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"x","imag":"y"},{"name":"d","image":"x","image":"z"}]}}}}',
    '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME"},"data":{"a":"1","a":"2"},"data":{"b":"3"},"extra":{"x":1}}',
    '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME"},"Data":{"a":"1"}}',
    '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME"},"data":{"a":"1",}}', '{"apiVersion":"v1"', "[]", "x", '{"apiVersion":"v1","kind":"ConfigMap"} x', '{"kind":"Pod","apiVersion":"v1","metadata":{"name":"NAME"}}', '{"kind":"ConfigMap","apiVersion":"v2","metadata":{"name":"NAME"}}', '{"metadata":{"name":"NAME"}}', '{"kind":"ConfigMap","metadata":{"name":"NAME"}}',
]


def main():
    recorder = Recorder(sys.argv[1])
    for name in (NAMESPACE, NAMESPACE + "-limits"):
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        recorder.send("POST", "/api/v1/namespaces", namespace, record=False)
    count = 0

    def fresh(kind, edits):
        nonlocal count
        count += 1
        name = f"x{count}.example.com" if kind in ("Endpoints", "ValidatingAdmissionPolicy") else f"x{count}"
        return base(kind, name, edits)

    for kind, edits in ((kind, edits) for kind, list_ in CREATES.items() for edits in list_):
        recorder.send("POST", path_of(kind), fresh(kind, edits))
    for kind, first, second, *sub in UPDATES:
        _, created = recorder.send("POST", path_of(kind), fresh(kind, first))
        body = change(created, second)
        recorder.send("PUT", path_of(kind, created["metadata"]["name"]) + "".join("/" + s for s in sub), body)
    for kind, first, content, patch in PATCHES:
        _, created = recorder.send("POST", path_of(kind), fresh(kind, first))
        recorder.send("PATCH", path_of(kind, created["metadata"]["name"]), patch, content)
    for text in ODD:
        for query in STRICT:
            count += 1
            kind = "Deployment" if "Deployment" in text else "ConfigMap"
            recorder.send("POST", path_of(kind) + query, text.replace("NAME", f"x{count}"))
    for kind in TABLES:
        recorder.send("GET", path_of(kind) + "?table=1&includeObject=Object&limit=40")
    for kind, selector in [("Pod", "status.phase=Running"), ("Pod", "spec.nodeName!=x,metadata.name=a"), ("Pod", "spec.foo=x"), ("ConfigMap", "data=x"), ("Secret", "type=Opaque"), ("Namespace", "status.phase=Active"), ("Node", "spec.unschedulable=true"), ("Job", "status.successful=0"), ("Event", "reason=R,involvedObject.kind=Pod"), ("Deployment", "spec.replicas=1"), ("ReplicaSet", "status.replicas=0"), ("Service", "spec.type=NodePort"), ("Service", "spec.clusterIP=None"), ("Pod", "x"), ("Pod", "a=b=c")]:
        recorder.send("GET", path_of(kind) + "?table=1&includeObject=Object&limit=5&fieldSelector=" + selector.replace("!=", "%21%3D"))
    _, events = recorder.send("GET", path_of("Event"), record=False)
    for event in events["items"]:
        path = path_of("Event", event["metadata"]["name"])
        recorder.send("GET", path)
        recorder.send("GET", path.replace("/api/v1/", "/apis/events.k8s.io/v1/"))
    text = json.dumps(recorder.entries, separators=(",", ":"), ensure_ascii=True).encode()
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_bytes(subprocess.run(["zstd", "--ultra", "-22", "-q", "-c"], input=text, stdout=subprocess.PIPE, check=True).stdout)
    print(len(recorder.entries), "requests,", OUT.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
