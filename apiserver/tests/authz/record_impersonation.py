#!/usr/bin/env python3
"""Records impersonation, and requests and reviews of tokens, against a fresh control plane.

Usage: KUBECONFIG=... record_impersonation.py. It leaves its objects behind, for --again with another run's number.
"""
import sys, time
from recorder import *

RUN = sys.argv[sys.argv.index("--again") + 1] if "--again" in sys.argv else "1"
NS = "imp" + RUN
R, U = "rbac.authorization.k8s.io", "authentication.k8s.io"


def meta(name, namespace=None):
    return {"name": name, **({"namespace": namespace} if namespace else {})}


def bound(name, rules, accounts, namespace=None):
    kind = "Role" if namespace else "ClusterRole"
    name = f"{NS}-{name}"
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": NS} for account in accounts]
    return [{"apiVersion": R + "/v1", "kind": kind, "metadata": meta(name, namespace), "rules": rules},
            {"apiVersion": R + "/v1", "kind": kind + "Binding", "metadata": meta(name, namespace), "subjects": subjects,
             "roleRef": {"apiGroup": R, "kind": kind, "name": name}}]


def rule(verbs, resources, groups, names=()):
    return {"verbs": verbs, "apiGroups": groups, "resources": resources, **({"resourceNames": list(names)} if names else {})}


ACCOUNTS = ["none", "legacy", "narrow", "groups", "host", "hostall", "node", "anynode", "info", "both", "target", "onlyon", "onlywho"]
SELF = [rule(["impersonate-on:serviceaccount:create", "impersonate-on:user-info:create", "impersonate-on:arbitrary-node:create",
              "impersonate-on:associated-node:create"], ["selfsubjectreviews"], [U])]
WORLD = [{"apiVersion": "v1", "kind": "Namespace", "metadata": meta(NS)}]
WORLD += [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta(name, NS)} for name in ACCOUNTS]
WORLD += [
    {"apiVersion": "v1", "kind": "Node", "metadata": meta(NS + "-n1")},
    {"apiVersion": "v1", "kind": "Secret", "metadata": meta("secret", NS)},
    {"apiVersion": "v1", "kind": "Pod", "metadata": meta("pod", NS), "spec": {"serviceAccountName": "node", "nodeName": NS + "-n1", "automountServiceAccountToken": False,
        "containers": [{"name": "c", "image": "i"}]}},
    *bound("legacy", [rule(["impersonate"], ["users", "groups", "serviceaccounts"], [""]), rule(["impersonate"], ["uids", "userextras/scopes", "userextras/acme.com/a"], [U])], ["legacy", "both"]),
    *bound("narrow", [rule(["impersonate"], ["users"], [""], ["jane"]), rule(["impersonate"], ["groups"], [""], ["devs"]),
                      rule(["impersonate"], ["userextras/scopes"], [U], ["view"]), rule(["impersonate"], ["uids"], [U], ["u1"])], ["narrow"]),
    *bound("narrow", [rule(["impersonate"], ["serviceaccounts"], [""], ["target"])], ["narrow"], NS),
    *bound("groups", [rule(["impersonate"], ["users"], [""])], ["groups"]),
    *bound("host", [rule(["impersonate:serviceaccount"], ["serviceaccounts"], [U], ["target"])], ["host", "onlywho", "both"], NS),
    *bound("host-self", SELF, ["host", "hostall", "info", "both", "anynode", "node"]),
    *bound("host-on", [rule(["impersonate-on:serviceaccount:list", "impersonate-on:serviceaccount:get"], ["configmaps", "pods"], [""])], ["host", "onlyon"], NS),
    *bound("hostall", [rule(["*"], ["*"], [U]), {"verbs": ["impersonate-on:serviceaccount:get"], "nonResourceURLs": ["/api", "/api/*"]}], ["hostall"]),
    *bound("node", [rule(["impersonate:associated-node"], ["nodes"], [U]), rule(["impersonate-on:associated-node:get"], ["nodes"], [""])], ["node"]),
    *bound("anynode", [rule(["impersonate:arbitrary-node"], ["nodes"], [U], ["n1", "n2"]), rule(["impersonate-on:arbitrary-node:list"], ["pods"], [""])], ["anynode"]),
    *bound("info", [rule(["impersonate:user-info"], ["users"], [U]), rule(["impersonate:user-info"], ["groups"], [U], ["devs", "ops"]), rule(["impersonate:user-info"], ["uids"], [U]),
                    rule(["impersonate:user-info"], ["userextras/acme.com/a"], [U], ["x", "y"]), rule(["impersonate-on:user-info:list"], ["pods"], [""])], ["info"]),
    *bound("target", [rule(["list"], ["configmaps"], [""])], ["target"], NS),
]
if "--again" not in sys.argv or True:
    STORED = [create(item) for item in WORLD]
time.sleep(2)
account_path = lambda name: f"/api/v1/namespaces/{NS}/serviceaccounts/{name}/token"


def token_of(name, **spec):
    code, answer, _ = call("POST", account_path(name), {"apiVersion": U + "/v1", "kind": "TokenRequest", "spec": spec})
    assert code == 201, answer
    return answer["status"]["token"]


NODE_REF = {"apiVersion": "v1", "kind": "Node", "name": NS + "-n1"}
POD_REF = {"apiVersion": "v1", "kind": "Pod", "name": "pod"}
TOKENS = {name: token_of(name) for name in ACCOUNTS}
TOKENS["nodebound"] = token_of("node", boundObjectRef=NODE_REF)
TOKENS["podbound"] = token_of("node", boundObjectRef=POD_REF)

SSR = ("POST", f"/apis/{U}/v1/selfsubjectreviews", {"kind": "SelfSubjectReview", "apiVersion": U + "/v1"})
get = lambda path: ("GET", path, None)
sa = lambda name, namespace=NS: f"system:serviceaccount:{namespace}:{name}"
lines = []


def attempt(who, request, user=None, groups=(), uid=None, extra=()):
    headers = [("Impersonate-User", user)] if user is not None else []
    headers += [("Impersonate-Group", group) for group in groups]
    headers += [("Impersonate-Uid", uid)] if uid is not None else []
    headers += [("Impersonate-Extra-" + key, value) for key, value in extra]
    method, path, body = request
    code, answer, _ = call(method, path, body, TOKENS[who], headers)
    line = {"as": who, "method": method, "path": path, "headers": headers, "code": code}
    if answer and answer.get("kind") == "Status" and code in (400, 401, 403):
        line["answer"] = short(answer)
    elif request is SSR:
        line["user"] = answer["status"]["userInfo"]
    lines.append(line)


for who in ["none", "legacy", "narrow", "groups", "host", "hostall", "info", "both", "anynode", "nodebound", "podbound", "node"]:
    attempt(who, SSR, "jane")
    attempt(who, SSR, sa("target"))
    attempt(who, get(f"/api/v1/namespaces/{NS}/configmaps"), sa("target"))
    attempt(who, get(f"/api/v1/namespaces/{NS}/secrets"), sa("target"))
    attempt(who, SSR, "jane", ["devs"])
    attempt(who, SSR, "jane", ["devs", "ops"], "u1")
    attempt(who, SSR, "system:node:n1")
    attempt(who, SSR, "system:node:" + NS + "-n1")
    attempt(who, get("/api"), sa("target"))
    attempt(who, SSR, "system:anonymous")
for who in ["onlyon", "onlywho"]:
    attempt(who, get(f"/api/v1/namespaces/{NS}/configmaps"), sa("target"))
    attempt(who, get(f"/api/v1/namespaces/{NS}/configmaps/x"), sa("target"))
    attempt(who, get("/healthz"), sa("target"))
    attempt(who, get("/api/v1/nodes/<x>"), sa("target"))
for who in ["legacy", "narrow", "info", "hostall"]:
    attempt(who, SSR, "jane", ["system:masters"])
    attempt(who, SSR, "jane", [""])
    attempt(who, SSR, "jane", ["system:authenticated", "z"])
    attempt(who, SSR, "jane", ["system:unauthenticated"])
    attempt(who, SSR, "system:anonymous", ["a"])
    attempt(who, SSR, "jane", ["a", "b", "c", "d"])
    attempt(who, SSR, "jane", extra=[("Scopes", "view")])
    attempt(who, SSR, "jane", extra=[("acme.com%2Fa", "x"), ("acme.com%2fA", "y")])
    attempt(who, SSR, "jane", extra=[("acme.com%2Fa", "x"), ("acme.com%2fA", "z")])
    attempt(who, SSR, "jane", extra=[("acme.com%2Fa", "")])
    attempt(who, SSR, "jane", extra=[("acme.com%2Fa%20b", "1")])
    attempt(who, SSR, "jane", extra=[("-x%2Fa", "1")])
    attempt(who, SSR, "jane", extra=[("acme.com%2Fa", "x"), ("acme.com%2fa", "y"), ("acme.com%2fa", "x"), ("acme.com%2fa", "y")])
    attempt(who, SSR, "jane", uid="u2")
    attempt(who, SSR, sa("target"), ["devs"])
    attempt(who, SSR, sa("target"), uid="u1")
    attempt(who, SSR, "system:serviceaccount:bad")
    attempt(who, SSR, "system:serviceaccount:" + NS + ":none:x")
    attempt(who, SSR, sa("other", "default"))
    attempt(who, SSR, "system:node:UPPER")
    attempt(who, get("/api/v1/pods"), "jane<b>")
    attempt(who, SSR)
    attempt(who, SSR, None, ["g", "h"])
    attempt(who, SSR, None, uid="7")
    attempt(who, SSR, None, extra=[("b", "2"), ("a", "1")])
    attempt(who, SSR, "")
attempt("anynode", get("/api/v1/pods"), "system:node:n2")
attempt("anynode", get("/api/v1/pods"), "system:node:n3")
attempt("nodebound", get("/api/v1/nodes/" + NS + "-n1"), "system:node:" + NS + "-n1")
attempt("nodebound", get("/api/v1/nodes/" + NS + "-n1"), "system:node:" + NS + "-n2")
attempt("podbound", get("/api/v1/nodes"), "system:node:" + NS + "-n1")
# The mode of the last success is tried first, so the same refused request has another answer now.
attempt("both", SSR, "jane")
attempt("both", get("/api/v1/secrets"), sa("target"))
attempt("both", SSR, sa("target"))
attempt("both", get("/api/v1/nodes"), sa("none"))
write("impersonation.json", [{"objects": [without_managed(item) for item in STORED], "tokens": {
    **{name: {"account": name, "ref": None} for name in ACCOUNTS},
    "nodebound": {"account": "node", "ref": NODE_REF}, "podbound": {"account": "node", "ref": POD_REF}}, "namespace": NS}] + lines)

# Tokens.
tokens = []
fixed = lambda value, answer: json.loads(json.dumps(answer))


def request(name, body, namespace=NS):
    code, answer, _ = call("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", body)
    if code == 201:
        payload = answer["status"]["token"].split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        now = claims["iat"]
        claims.pop("jti")
        for key in ("iat", "nbf", "exp"):
            claims[key] -= now
        if "warnafter" in claims["kubernetes.io"]:
            claims["kubernetes.io"]["warnafter"] -= now
        status = answer.pop("status")
        for key in ("managedFields", "creationTimestamp"):
            answer["metadata"].pop(key, None)
        line = {"claims": claims, "answer": answer, "status": sorted(status)}
    else:
        line = {"answer": short(answer)}
    tokens.append({"name": name, "namespace": namespace, "body": body, "code": code, **line})


tr = lambda meta=None, **spec: {"apiVersion": U + "/v1", "kind": "TokenRequest", **({"metadata": meta} if meta is not None else {}), "spec": spec}
pod = {"apiVersion": "v1", "kind": "Pod", "name": "pod"}
by = {(item["kind"], item["metadata"]["name"]): item["metadata"]["uid"] for item in STORED}
for body in [tr(), tr(audiences=["a", "b"]), tr(audiences=[]), tr(expirationSeconds=600), tr(expirationSeconds=599), tr(expirationSeconds=3607), tr(expirationSeconds=2**32), tr(expirationSeconds=2**32 + 1),
             tr(expirationSeconds=-1), tr({"name": "target"}), tr({"name": "x"}), tr({"namespace": "x"}), tr({"uid": "x"}), tr({"uid": by["ServiceAccount", "target"]}), tr(boundObjectRef=pod),
             tr(boundObjectRef={"apiVersion": "v1", "kind": "Pod", "name": "nope"}), tr(boundObjectRef={"apiVersion": "v1", "kind": "Secret", "name": "secret"}), tr(boundObjectRef={"apiVersion": "v1", "kind": "Secret", "name": "nope"}),
             tr(boundObjectRef={"apiVersion": "v1", "kind": "Secret", "name": "secret", "uid": "x"}), tr(boundObjectRef=NODE_REF), tr(boundObjectRef={"apiVersion": "v1", "kind": "Node", "name": "nope"}),
             tr(boundObjectRef={"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}), tr(boundObjectRef={"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}), tr(boundObjectRef={"kind": "Pod", "name": "pod"}),
             tr(expirationSeconds=5, boundObjectRef={"kind": "X"})]:
    request("target", body)
for body in [tr(boundObjectRef=pod), tr(boundObjectRef={**pod, "uid": by["Pod", "pod"]}), tr(boundObjectRef={**pod, "uid": "x"}), tr(boundObjectRef=pod, expirationSeconds=3607),
             tr(boundObjectRef=pod, expirationSeconds=3607, audiences=["x"]), tr(boundObjectRef=pod, expirationSeconds=3600)]:
    request("node", body)
request("nope", tr())

reviews = []


def review(what, token, audiences=None, note=None):
    body = {"apiVersion": U + "/v1", "kind": "TokenReview", "spec": {"token": token, **({"audiences": audiences} if audiences is not None else {})}}
    code, answer, _ = call("POST", f"/apis/{U}/v1/tokenreviews", body)
    if answer["kind"] == "Status":
        answer = short(answer)
    else:
        answer = {"status": answer["status"]}
        answer["status"].get("user", {}).get("extra", {}).pop("authentication.kubernetes.io/credential-id", None)
    reviews.append({"token": what, "audiences": audiences, "code": code, "answer": answer})


DEFAULT = "https://kubernetes.default.svc"
token = token_of("target", audiences=["a", DEFAULT])
other = token_of("target", audiences=["a", "b"])
for audiences in [None, [], ["a"], ["b", "a"], ["c"], [DEFAULT]]:
    review({"account": "target", "audiences": ["a", DEFAULT]}, token, audiences)
    review({"account": "target", "audiences": ["a", "b"]}, other, audiences)
review({"account": "node", "ref": POD_REF}, TOKENS["podbound"])
review({"account": "node", "ref": NODE_REF}, TOKENS["nodebound"])
review({"text": ""}, "")
for text in ["abc", "a.b.c", " ", "x y"]:
    review({"text": text}, text)
review({"forged": "target"}, TOKENS["target"][:-10] + ("AAAAAAAAAA" if not TOKENS["target"].endswith("AAAAAAAAAA") else "BBBBBBBBBB"))
review({"static": "admin"}, ADMIN)
review({"static": "admin"}, ADMIN, ["x"])
secret_token = token_of("target", boundObjectRef={"apiVersion": "v1", "kind": "Secret", "name": "secret"})
call("DELETE", f"/api/v1/namespaces/{NS}/secrets/secret")
call("DELETE", f"/api/v1/namespaces/{NS}/serviceaccounts/none")
time.sleep(1)
review({"account": "target", "ref": {"apiVersion": "v1", "kind": "Secret", "name": "secret"}, "deleted": ["Secret", "secret"]}, secret_token)
none_token = TOKENS["none"]
time.sleep(11)
review({"account": "none", "deleted": ["ServiceAccount", "none"]}, none_token)
code, answer, _ = call("POST", SSR[1], SSR[2], none_token)
assert code == 401
write("tokens.json", [{"objects": [without_managed(item) for item in STORED], "namespace": NS, "unauthorized": short(answer)}] + tokens)
write("token_reviews.json", reviews)
