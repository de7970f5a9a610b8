#!/usr/bin/env python3
"""Records decisions of the authorizer, reviews, and writes of roles and bindings, against a fresh control plane.

Usage: KUBECONFIG=... record_decisions.py. It leaves its objects behind, for --again.
"""
import sys, time
from recorder import *

R = "rbac.authorization.k8s.io"
A = R + "/v1"


def role(name, rules, namespace=None, **more):
    kind, meta = ("Role", {"name": name, "namespace": namespace}) if namespace else ("ClusterRole", {"name": name})
    return {"apiVersion": A, "kind": kind, "metadata": {**meta, **more.pop("meta", {})}, "rules": rules, **more}


def binding(name, ref, subjects, namespace=None):
    kind, meta = ("RoleBinding", {"name": name, "namespace": namespace}) if namespace else ("ClusterRoleBinding", {"name": name})
    ref_kind, ref_name = ref.split("/")
    return {"apiVersion": A, "kind": kind, "metadata": meta, "subjects": subjects,
            "roleRef": {"apiGroup": R, "kind": ref_kind, "name": ref_name}}


user = lambda name: {"apiGroup": R, "kind": "User", "name": name}
group = lambda name: {"apiGroup": R, "kind": "Group", "name": name}
account = lambda name, namespace=None: {"kind": "ServiceAccount", "name": name, **({"namespace": namespace} if namespace else {})}
rule = lambda verbs, resources, groups=("",), names=(): {
    "verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources), **({"resourceNames": list(names)} if names else {})}
urls = lambda verbs, paths: {"verbs": list(verbs), "nonResourceURLs": list(paths)}

WORLD = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}},
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-b"}},
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "builder", "namespace": "team-a"}},
    binding("jane-view", "ClusterRole/view", [user("jane")], "team-a"),
    binding("bob-edit", "ClusterRole/edit", [user("nobody"), user("bob")], "team-a"),
    binding("ann-admin", "ClusterRole/admin", [user("ann")], "team-b"),
    role("dev", [rule(["get"], ["pods/log", "pods/exec"]), rule(["get", "update"], ["configmaps"], names=["cfg-a", "cfg-b"]),
                 rule(["patch", "get"], ["*/scale"], ["*"]), rule(["list", "watch"], ["configmaps"], names=["cfg-a"])], "team-a"),
    binding("devs", "Role/dev", [group("devs")], "team-a"),
    role("ops", [rule(["get", "list"], ["nodes", "namespaces"]), urls(["get"], ["/metrics", "/metrics/*", "/logs*"]), urls(["post"], ["/x/*"]),
                 rule(["*"], ["foos", "foos/status"], ["example.com"]), rule(["deletecollection"], ["*"], ["batch"])]),
    binding("ops", "ClusterRole/ops", [user("carl"), group("ops-group")]),
    role("builder", [rule(["create"], ["pods"]), rule(["*"], ["secrets"])], "team-a"),
    binding("builder-local", "Role/builder", [account("builder")], "team-a"),
    binding("builder-away", "ClusterRole/view", [account("builder", "team-a")], "team-b"),
    role("accounts", [rule(["get"], ["endpoints"])]),
    binding("accounts", "ClusterRole/accounts", [group("system:serviceaccounts:team-a")]),
    binding("broken", "ClusterRole/missing", [user("broken"), user("broken2")]),
    binding("broken2", "Role/missing-too", [user("broken2")], "team-a"),
    binding("odd-kind", "ClusterRole/ops", [{"kind": "User", "apiGroup": R, "name": "odd"}]),
    role("wild", [rule(["*"], ["*"], ["*"])]),
    binding("wild", "ClusterRole/wild", [user("wild")]),
    role("star", [rule(["*"], ["*"], ["*"]), urls(["*"], ["*"])]),
    binding("star", "ClusterRole/star", [user("star")]),
    # Users that write roles.
    role("rbac-writer", [rule(["create", "update", "patch", "get", "delete", "list"], ["roles", "clusterroles", "rolebindings", "clusterrolebindings"], [R])]),
    binding("writers", "ClusterRole/rbac-writer", [user("writer"), user("escalator"), user("binder"), user("ops-writer"), user("broken-writer"), user("one-role"), user("star-writer")]),
    role("writer-rights", [rule(["get", "list"], ["pods", "services"]), rule(["get"], ["configmaps"], names=["a", "b"]), urls(["get"], ["/healthz*"]),
                           rule(["patch"], ["*/scale"], ["apps"]), rule(["*"], ["jobs"], ["batch"])]),
    binding("writer-rights", "ClusterRole/writer-rights", [user("writer"), user("ops-writer"), user("broken-writer")]),
    role("escalate-all", [rule(["escalate"], ["roles", "clusterroles"], [R])]),
    binding("escalate-all", "ClusterRole/escalate-all", [user("escalator")]),
    role("bind-some", [rule(["bind"], ["clusterroles"], [R], ["view", "missing-role"]), rule(["bind"], ["roles"], [R])]),
    binding("bind-some", "ClusterRole/bind-some", [user("binder")], "team-a"),
    role("escalate-one", [rule(["escalate"], ["roles"], [R], ["known"])]),
    binding("escalate-one", "ClusterRole/escalate-one", [user("one-role")], "team-a"),
    binding("ops-writer", "ClusterRole/ops", [user("ops-writer")]),
    binding("broken-writer", "ClusterRole/missing", [user("broken-writer")]),
    binding("star-writer", "ClusterRole/star", [user("star-writer")]),
    role("known", [rule(["get"], ["pods"])], "team-a"),
    role("known-big", [rule(["delete", "get"], ["pods", "secrets"])], "team-a"),
    role("known-cluster", [rule(["delete"], ["nodes"])]),
    role("known-aggregate", [], aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"none": "such"}}]}),
    binding("known-binding", "ClusterRole/view", [user("x")], "team-a"),
    binding("known-cluster-binding", "ClusterRole/view", [user("x")]),
]

USERS = {
    "jane": ("jane", []), "bob": ("bob", []), "ann": ("ann", []), "dev": ("joe", ["devs"]), "carl": ("carl", []),
    "ops": ("otto", ["a", "ops-group"]), "builder": ("system:serviceaccount:team-a:builder", []),
    "broken": ("broken", []), "broken2": ("broken2", []), "wild": ("wild", []), "star": ("star", []),
    "root": ("root", ["system:masters"]), "nobody": ("no\"bo<d>y & co", []), "anonymous": ("system:anonymous", []),
    "unauth": ("ghost", ["system:unauthenticated"]),
}

PATHS = [
    ("GET", "/api/v1/namespaces/team-a/pods"), ("GET", "/api/v1/namespaces/team-b/pods?watch=0"), ("GET", "/api/v1/pods"),
    ("GET", "/api/v1/namespaces/team-a/pods/p"), ("GET", "/api/v1/namespaces/team-a/pods/p/log"), ("GET", "/api/v1/namespaces/team-a/secrets/s"),
    ("DELETE", "/api/v1/namespaces/team-a/configmaps/cfg-z?dryRun=All"), ("GET", "/api/v1/namespaces/team-a/configmaps/cfg-a"),
    ("GET", "/api/v1/namespaces/team-a/configmaps?fieldSelector=metadata.name=cfg-a"), ("GET", "/api/v1/namespaces/team-a/configmaps?fieldSelector=metadata.name!=cfg-a"),
    ("GET", "/apis/apps/v1/namespaces/team-a/deployments/d/scale"), ("GET", "/apis/apps/v1/namespaces/team-a/deployments/d"),
    ("GET", "/api/v1/nodes"), ("GET", "/api/v1/namespaces/team-a"), ("GET", "/apis/example.com/v1/foos"), ("GET", "/apis/example.com/v1/foos/f/other"),
    ("GET", "/metrics/slis"), ("GET", "/healthz"), ("GET", "/api"), ("GET", "/version"), ("GET", "/logs/x"), ("GET", "/openapi/v2x"), ("POST", "/x/y"),
    ("GET", "/.well-known/openid-configuration"), ("GET", "/openid/v1/jwks"), ("GET", "/nope/<b>&"),
    ("POST", "/api/v1/namespaces/team-a/pods?dryRun=All"), ("DELETE", "/apis/batch/v1/namespaces/team-b/jobs?labelSelector=none%3Dsuch&dryRun=All"),
    ("POST", "/api/v1/namespaces/team-a/serviceaccounts/builder/token"), ("GET", "/apis/" + R + "/v1/clusterroles"),
    ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"), ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews"),
]


def decisions():
    lines = []
    for alias, (name, groups) in USERS.items():
        for method, path in PATHS:
            # /metrics is long, and what the path answers does not matter.
            body = {} if method == "POST" else None
            code, answer, _ = call(method, path, body, headers=as_user(name, groups))
            denied = code == 403 and answer and answer.get("reason") == "Forbidden" and " cannot " in answer["message"]
            lines.append({"user": name, "groups": groups, "method": method, "path": path,
                          "denied": short(answer) if denied else None})
    for method, path in PATHS:
        code, answer, _ = call(method, path, {} if method == "POST" else None, token=None)
        denied = code == 403 and answer and " cannot " in answer["message"]
        lines.append({"user": None, "method": method, "path": path, "denied": short(answer) if denied else None})
    return lines


def review(kind, spec, namespace=None, as_=None, meta=None):
    body = {"kind": kind, "apiVersion": "authorization.k8s.io/v1", "spec": spec}
    if meta is not None:
        body["metadata"] = meta
    path = "/apis/authorization.k8s.io/v1" + (f"/namespaces/{namespace}" if namespace else "") + f"/{kind.lower()}s"
    name, groups = USERS[as_] if as_ else (None, None)
    code, answer, _ = call("POST", path, body, headers=as_user(name, groups) if as_ else ())
    # The time of the request is in the managed fields.
    answer = json.loads(re.sub(r',\\"managedFields\\":\[.*?\]\}', "}", json.dumps(answer)))
    if code == 201:
        answer.get("metadata", {}).pop("managedFields", None)
    return {"kind": kind, "namespace": namespace or "", "user": name, "groups": groups, "body": body, "code": code,
            "answer": short(answer) if answer["kind"] == "Status" else answer}


ra = lambda verb, resource, **more: {"verb": verb, "resource": resource, **more}


def reviews():
    lines = []
    S, L, F = "SubjectAccessReview", "LocalSubjectAccessReview", "SelfSubjectAccessReview"
    checks = [
        ra("get", "pods", namespace="team-a"), ra("list", "pods", namespace="team-b"), ra("list", "pods"), ra("get", "pods", subresource="log", namespace="team-a"),
        ra("get", "configmaps", namespace="team-a", name="cfg-a"), ra("get", "configmaps", namespace="team-a"),
        ra("patch", "deployments", group="apps", subresource="scale", namespace="team-a"), ra("*", "*", group="*"), ra("get", "foos", group="example.com", version="v9"),
        ra("impersonate", "users", name="x"), ra("create", "secrets", namespace="team-a"), ra("get", "endpoints", namespace="team-b"), ra("", ""),
    ]
    for alias in ["jane", "bob", "dev", "carl", "builder", "broken", "broken2", "wild", "root"]:
        name, groups = USERS[alias]
        for check in checks:
            lines.append(review(S, {"user": name, "groups": groups, "resourceAttributes": check}))
    for path, verb in [("/metrics", "get"), ("/metrics/a", "get"), ("/logs", "get"), ("/logsx", "get"), ("/x/", "post"), ("/", "get"), ("", "")]:
        for alias in ["carl", "star"]:
            lines.append(review(S, {"user": USERS[alias][0], "nonResourceAttributes": {"path": path, "verb": verb}}))
    # Malformed reviews.
    good = ra("get", "pods", namespace="team-a")
    for kind in [S, F]:
        base = {"user": "jane"} if kind == S else {}
        lines.append(review(kind, {**base}))
        lines.append(review(kind, {**base, "resourceAttributes": good, "nonResourceAttributes": {"path": "/", "verb": "get"}}))
        lines.append(review(kind, {**base, "resourceAttributes": good}, meta={"name": "x"}))
        lines.append(review(kind, {**base, "resourceAttributes": good}, meta={"labels": {"a": "b"}, "name": "y"}))
    lines.append(review(S, {"resourceAttributes": good}))
    lines.append(review(S, {}))
    lines.append(review(S, {"groups": ["devs"], "resourceAttributes": good}))
    lines.append(review(S, {"uid": "7", "user": "jane", "extra": {"k": ["v"]}, "resourceAttributes": good}))
    for ns, check in [("team-a", good), ("team-b", good), ("team-a", ra("get", "pods")), ("team-a", None)]:
        spec = {"user": "jane", **({"resourceAttributes": check} if check else {"nonResourceAttributes": {"path": "/", "verb": "get"}})}
        lines.append(review(L, spec, ns))
    lines.append(review(L, {"user": "jane", "resourceAttributes": good}, "team-a", meta={"namespace": "team-b"}))
    lines.append(review(L, {"user": "jane", "resourceAttributes": good}, "team-a", meta={"name": "n"}))
    lines.append(review(L, {"resourceAttributes": good}, "team-a"))
    # Selectors.
    sel = lambda **more: lines.append(review(S, {"user": "jane", "resourceAttributes": {**good, **more}}))
    for raw in ["a=b", "a in (b,c)", "a=b=c", "!x,y", "a in (", "", "=", "a notin ()", "x,,y", ",", "a==b,c!=d", "a>1", "a<x"]:
        sel(labelSelector={"rawSelector": raw})
    for raw in ["a=b", "a", "a=b,c!=d", "a==b", "a=b=c", "a\\=b=c", ""]:
        sel(fieldSelector={"rawSelector": raw})
    req = lambda key, op, *values: {"key": key, "operator": op, **({"values": list(values)} if values else {})}
    for requirements in [[req("a", "In", "b")], [req("a", "In")], [req("a", "Foo", "b")], [req("a", "Exists", "b")], [req("a", "Exists")], [],
                         [req("", "In", "b")], [req("a", "In", "b"), req("c", "Foo")], [req("-", "In", "b!")], [req("a/b/c", "DoesNotExist")], [req("/x", "NotIn", "a", "b")],
                         [req("a", "In", "b", "c")]]:
        sel(labelSelector={"requirements": requirements})
        sel(fieldSelector={"requirements": requirements})
    sel(labelSelector={"rawSelector": "a=b", "requirements": [req("a", "In", "b")]}, fieldSelector={"rawSelector": "a=b", "requirements": [req("a", "In", "b")]})
    sel(labelSelector={"rawSelector": "a=b=c"}, fieldSelector={"rawSelector": "a"})
    for alias in ["jane", "dev", "builder", "broken", "root", "nobody"]:
        for check in checks[:7]:
            lines.append(review(F, {"resourceAttributes": check}, as_=alias))
        for ns in ["team-a", "team-b", ""]:
            lines.append(review("SelfSubjectRulesReview", {"namespace": ns}, as_=alias))
    return lines


def escalations():
    lines = []

    def attempt(who, item, name=None, groups=(), generate=False, full=False):
        item = json.loads(json.dumps(item))
        if generate:
            item["metadata"]["generateName"] = item["metadata"].pop("name") + "-"
        resource = item["kind"].lower() + "s"
        old = None
        if name:
            _, old, _ = call("GET", collection(item) + "/" + name)
            del old["metadata"]["managedFields"]
            if full:
                item = {**old, **item, "metadata": {**old["metadata"], **item["metadata"]}}
        method, path = ("PUT", collection(item) + "/" + name) if name else ("POST", collection(item))
        code, answer, _ = call(method, path + "?dryRun=All", item, headers=as_user(who, groups))
        lines.append({"user": who, "groups": list(groups), "method": method, "resource": resource, "name": name or "", "object": item, "old": old,
                      "code": code, "answer": short(answer) if answer["kind"] == "Status" else None})

    cases = [
        [rule(["get"], ["pods"])], [rule(["get", "list", "watch"], ["pods"])], [rule(["*"], ["pods"])], [rule(["get"], ["*"])], [rule(["get"], ["pods"], ["*"])],
        [rule(["get"], ["configmaps"], names=["a"])], [rule(["get"], ["configmaps"], names=["a", "c", "d"])], [rule(["get"], ["configmaps"])],
        [rule(["patch"], ["deployments/scale", "statefulsets/scale"], ["apps"])], [rule(["patch"], ["*/scale"], ["apps"])], [rule(["patch"], ["deployments"], ["apps"])],
        [rule(["get", "delete"], ["jobs", "cronjobs"], ["batch", "apps"])], [rule(["z", "a"], ["secrets"]), rule(["m"], ["secrets"])],
        [rule(["get"], ["secrets"]), rule(["list"], ["secrets"]), rule(["get"], ["nodes"], names=["n2", "n1"])], [], [rule(["*"], ["*"], ["*"])],
    ]
    for rules in cases:
        attempt("writer", role("new", rules, "team-a"))
    for rules in cases[:4] + [[urls(["get"], ["/healthz", "/healthz/ping"])], [urls(["get", "post"], ["/healthz*", "/a", "/b*"])], [urls(["*"], ["*"])]]:
        attempt("writer", role("new", rules))
        attempt("escalator", role("new", rules))
    attempt("writer", role("new", [rule(["delete"], ["pods"])], "team-a"), generate=True)
    attempt("writer", role("new", [rule(["delete"], ["pods"])], "team-a"), groups=["g\"1", "system:authenticated"])
    attempt("root", role("new", [rule(["delete"], ["pods"])], "team-a"), groups=["system:masters"])
    attempt("jane", role("new", [rule(["get"], ["pods"])], "team-a"))
    attempt("broken-writer", role("new", [rule(["delete"], ["pods"])], "team-a"))
    attempt("broken-writer", role("new", [rule(["get"], ["pods"])], "team-a"))
    attempt("one-role", role("known", [rule(["delete"], ["pods"])], "team-a"), "known")
    attempt("one-role", role("known-big", [rule(["delete"], ["pods"])], "team-a"), "known-big")
    attempt("one-role", role("known", [rule(["delete"], ["pods"])], "team-a"))
    attempt("escalator", role("known", [rule(["*"], ["*"], ["*"])], "team-a"), "known")
    attempt("writer", role("known", [rule(["list"], ["pods"])], "team-a"), "known")
    attempt("writer", role("known", [rule(["delete"], ["pods"])], "team-a"), "known")
    big = role("known-big", [rule(["delete", "get"], ["pods", "secrets"])], "team-a")
    attempt("writer", big, "known-big")
    attempt("writer", {**big, "metadata": {**big["metadata"], "labels": {"a": "b"}}}, "known-big")
    attempt("writer", {**big, "metadata": {**big["metadata"], "finalizers": ["a.b/c"]}}, "known-big")
    for meta in [{}, {"finalizers": ["a.b/c"]}, {"labels": {"a": "b"}}, {"finalizers": [], "labels": {}},
                 {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}]:
        attempt("writer", {**big, "metadata": {**big["metadata"], **meta}}, "known-big", full=True)
    attempt("writer", binding("known-cluster-binding", "ClusterRole/view", [user("x")]), "known-cluster-binding", full=True)
    attempt("writer", binding("known-binding", "ClusterRole/view", [user("x"), user("z")], "team-a"), "known-binding", full=True)
    attempt("writer", role("known-cluster", [rule(["delete"], ["nodes"])]), "known-cluster")
    attempt("writer", role("known-cluster", []), "known-cluster")
    # Aggregation.
    aggregate = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}
    for who in ["writer", "escalator", "star-writer"]:
        attempt(who, role("new-agg", [], **aggregate))
        attempt(who, role("known-aggregate", [], **aggregate), "known-aggregate")
        attempt(who, role("known-aggregate", []), "known-aggregate")
        attempt(who, role("known-cluster", [], **aggregate), "known-cluster")
    attempt("writer", role("new-agg", [], aggregationRule={"clusterRoleSelectors": []}))
    attempt("writer", role("new-agg", [rule(["x"], ["y"])], **aggregate))
    # Bindings.
    for who in ["writer", "binder", "escalator", "ops-writer", "star-writer"]:
        for ref in ["ClusterRole/view", "ClusterRole/writer-rights", "ClusterRole/ops", "ClusterRole/missing-role", "Role/known", "Role/known-big", "Role/missing-role"]:
            attempt(who, binding("new", ref, [user("x")], "team-a"))
        for ref in ["ClusterRole/writer-rights", "ClusterRole/ops", "ClusterRole/missing-role", "ClusterRole/known-cluster"]:
            attempt(who, binding("new", ref, [user("x")]))
    attempt("writer", binding("known-binding", "ClusterRole/view", [user("x"), user("y")], "team-a"), "known-binding")
    attempt("binder", binding("known-binding", "ClusterRole/view", [user("x"), user("y")], "team-a"), "known-binding")
    attempt("writer", binding("known-binding", "ClusterRole/view", [user("x")], "team-a"), "known-binding")
    attempt("writer", binding("known-cluster-binding", "ClusterRole/view", [user("y")]), "known-cluster-binding")
    attempt("root", binding("new", "ClusterRole/cluster-admin", [user("x")]), groups=["system:masters"])
    attempt("writer", binding("new", "ClusterRole/cluster-admin", [user("x")]))
    return lines


if "--again" not in sys.argv:
    for item in WORLD:
        create(item)
    time.sleep(2)
write("world.json", WORLD)
write("decisions.json", decisions())
write("reviews.json", reviews())
write("escalations.json", escalations())
