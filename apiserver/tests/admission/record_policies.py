#!/usr/bin/env python3
"""Records decisions of ValidatingAdmissionPolicies, and refusals of wrong ones, against a fresh control plane.

Usage: KUBECONFIG=... record_policies.py. The policies in deploy/ are applied, too. It leaves its objects behind.
"""
import os, subprocess, sys, time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "authz"))
from recorder import *

HERE = os.path.dirname(os.path.abspath(__file__))
G = "admissionregistration.k8s.io/v1"
R = "rbac.authorization.k8s.io"


def policy(name, validations=None, rules=None, **spec):
    rules = rules or [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE", "UPDATE"]}]
    constraints = {"resourceRules": rules, **spec.pop("constraints", {})}
    spec = {"matchConstraints": constraints, **spec}
    if validations is not None:
        spec["validations"] = [v if isinstance(v, dict) else {"expression": v} for v in validations]
    return {"apiVersion": G, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec}


def binding(name, of, actions=("Deny",), namespace=None, **spec):
    if namespace:
        spec["matchResources"] = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}, **spec.pop("matchResources", {})}
    return {"apiVersion": G, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
            "spec": {"policyName": of, "validationActions": list(actions), **spec}}


def config(name, namespace, data=None, **meta):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace, **meta}, **({"data": data} if data else {})}


WORLD, CASES = [], []


def space(name, **labels):
    WORLD.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **({"labels": labels} if labels else {})}})
    return name


def bound(name, validations, rules=None, **spec):
    actions, more = spec.pop("actions", ("Deny",)), spec.pop("bind", {})
    WORLD.append(policy(name, validations, rules, **spec))
    WORLD.append(binding(name, name, actions, space("ns-" + name), **more))
    return "ns-" + name


def case(item, method="POST", user=None, groups=(), extra=(), path=None):
    CASES.append((item, method, user, list(groups), list(extra), path))


WORLD.append({"apiVersion": R + "/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "devs"}, "subjects": [{"apiGroup": R, "kind": "Group", "name": "devs"}],
              "roleRef": {"apiGroup": R, "kind": "ClusterRole", "name": "edit"}})
# Expressions: all in one policy each, with warnings, which show every failure.
EXPRESSIONS = [
    ["object.data.a == 'b'", "object.data.a == 'x'", "object.data.missing == 'x'", "has(object.data.missing)", "has(object.missing.more)", "has(object.data)"],
    ["object.metadata.name.startsWith('test')", "object.metadata.name.endsWith('x')", "object.metadata.name.contains('s')", "object.metadata.name.matches('^te')", "object.metadata.name.matches('^x')"],
    ["size(object.data) == 3", "object.data.size() == 4", "object.data.exists(k, k == 'a')", "object.data.all(k, object.data[k] != '')", "object.data.all(k, size(k) == 1)", "object.data.exists_one(k, k == 'a')"],
    ["object.data.filter(k, k > 'a').size() == 2", "object.data.map(k, k + 'x').exists(v, v == 'bx')", "['a', 'b'].map(x, x.upperAscii()) == ['A', 'B']", "[1, 2, 3].filter(x, x > 1) == [2, 3]", "[1, 2].map(x, x > 1, x * 2) == [4]"],
    ["1 + 1 == 2", "5 / 2 == 2", "5 % 2 == 0", "-5 / 2 == -2", "1.5 + 1.0 == 2.5", "1 < 2.5", "2.0 > 3", "int('5') == 5", "double('1.5') == 1.5", "string(5) == '5'"],
    ["int(object.data.n) > 5", "int(object.data.a) > 5", "1 / int(object.data.zero) == 1", "9223372036854775807 + int('1') > 0", "[1, 2][int('5')] == 1", "{'a': 1}[object.data.a] == 1"],
    ["true || object.missing == 1", "object.missing == 1 || true", "false && object.missing == 1", "object.missing == 1 && false", "object.missing == 1 || false", "object.missing == 1 && true", "object.m1 == 1 || object.m2 == 1"],
    ["object.data.a == 'b' ? true : object.missing == 1", "object.data.a != 'b' ? true : object.missing == 1", "!(object.data.a == 'b')", "!object.data.exists(k, k == 'zz')"],
    ["'a' in object.data", "'zz' in object.data", "'b' in ['a', 'b']", "!(3 in [1, 2])", "object.data.a in ['x', 'y']", "'k' in {'k': 1}"],
    ["oldObject == null", "oldObject != null", "oldObject.x == 1", "has(oldObject.x)", "request.operation == 'CREATE'", "request.name == 'test'", "request.namespace == 'ns-e9'"],
    ["request.kind.kind == 'ConfigMap'", "request.resource.resource == 'configmaps'", "request.userInfo.username == 'x'", "request.userInfo.groups.exists(g, g == 'system:masters')", "has(request.userInfo.extra)", "has(request.subResource)", "request.dryRun", "!has(request.dryRun)"],
    ["namespaceObject.metadata.name == 'x'", "namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == 'ns-e11'", "has(namespaceObject.metadata.annotations)", "namespaceObject.status.phase == 'Active'"],
    ["object.?data.?a.orValue('z') == 'b'", "object.?data.?zz.orValue('z') == 'b'", "object.?nope.?zz.orValue('z') == 'z'", "object.data[?'a'].orValue('q') == 'b'", "object.?data.?a.hasValue()", "object.?nope.hasValue()", "object.?data.a.orValue('x') == 'b'", "optional.of(1).value() == 2", "optional.none().hasValue()"],
    ["'a,b,c'.split(',') == ['a', 'b', 'c']", "'abc'.substring(1) == 'bc'", "'abc'.substring(0, 2) == 'ab'", "'abc'.charAt(1) == 'b'", "'abcb'.indexOf('b') == 1", "'abcb'.lastIndexOf('b') == 3", "' a '.trim() == 'a'", "'aXb'.lowerAscii() == 'axb'", "'aaa'.replace('a', 'b') == 'bbb'", "['a', 'b'].join('-') == 'a-b'"],
    ["'%s is %d'.format(['x', 5]) == 'x is 5'", "[3, 1, 2].isSorted()", "[1, 2].sum() == 3", "[1, 2].max() == 2", "['b', 'a'].min() == 'a'", "[1, 2, 1].indexOf(1) == 0", "[1, 2, 1].lastIndexOf(1) == 2", "[1, 2].reverse() == [2, 1]", "[2, 1].sort() == [1, 2]", "[1, 1].distinct() == [1]"],
    ["sets.contains([1, 2], [1])", "sets.intersects([1], [2])", "sets.equivalent([1, 2], [2, 1])", "'abc 123'.find('[0-9]+') == '123'", "'1 2'.findAll('[0-9]') == ['1', '2']", "isURL('https://a.b/c')", "url('https://a.b:80/c?d=e').getHost() == 'a.b:80'", "url('https://a.b/c').getEscapedPath() == '/c'"],
    ["quantity('1Gi').isGreaterThan(quantity('1Mi'))", "quantity('100m').compareTo(quantity('0.1')) == 0", "isQuantity('x')", "quantity('2').asInteger() == 2", "isIP('10.0.0.1')", "ip('10.0.0.1').family() == 4", "cidr('10.0.0.0/8').containsIP('10.1.1.1')", "isSemver('1.2.3')", "semver('1.2.3').isLessThan(semver('1.3.0'))"],
    ["timestamp('2024-01-01T00:00:00Z') < timestamp('2025-01-01T00:00:00Z')", "duration('1h') > duration('30m')", "timestamp('2024-01-01T00:00:00Z') + duration('24h') == timestamp('2024-01-02T00:00:00Z')", "timestamp('2024-05-06T07:08:09Z').getMonth() == 4", "timestamp('2024-05-06T07:08:09Z').getHours() == 7"],
    ["!format.dns1123Label().validate('a-b').hasValue()", "format.dns1123Label().validate('A').hasValue()", "dyn(1) == 1.0", "dyn('a') == 1", "dyn([1]) == [1.0]", "dyn(object.data.n) == 7", "object.data == {'a': 'b', 'n': '7', 'zero': '0'}"],
    ["object.metadata.name + 1 == 2", "object.data + 'a' == 'x'", "object.data.a < 5", "object.data > 1", "object.data.a.nope == 1", "object.data.a['x'] == 1", "size(object.data.n) == 1", "!object.data.a", "object.data.a || false"],
    ["authorizer.group('').resource('configmaps').namespace('ns-e20').check('get').allowed()", "authorizer.group('').resource('secrets').namespace('x').check('get').allowed()", "authorizer.path('/metrics').check('get').allowed()",
     "authorizer.requestResource.check('create').allowed()", "authorizer.requestResource.check('delete').allowed()", "authorizer.serviceAccount('default', 'default').group('').resource('pods').check('get').allowed()",
     "authorizer.group('').resource('').check('get').allowed()", "authorizer.group('').resource('configmaps').namespace('ns-e20').name('a').subresource('b').check('get').reason() == ''"],
    ["[1, 2].all(i, v, v == i + 1)", "[1, 2].exists(i, v, v == i)", "object.data.all(k, v, v != 'b')", "object.data.exists(k, v, k == 'a' && v == 'b')", "[1, 1].existsOne(i, v, v == 1)", "[1, 2].transformList(i, v, i + v) == [1, 3]",
     "[1, 2].transformList(i, v, v > 1, v) == [2]", "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}", "object.data.transformMap(k, v, k == 'a', v + k) == {'a': 'ba'}", "[1, 2].exists(i, v, object.missing == 1 || v == 2)", "object.missing.all(i, v, true)", "object.metadata.name.all(i, v, true)"],
    ["object.?data.?a.optMap(x, x + 'c').orValue('') == 'bc'", "object.?nope.optMap(x, x + 'c').orValue('z') == 'z'", "object.?data.optFlatMap(d, d[?'a']).orValue('') == 'b'", "object.?data.optFlatMap(d, d[?'zz']).hasValue()", "object.?data.?n.optMap(x, int(x) > 5).orValue(false)"],
]
for index, expressions in enumerate(EXPRESSIONS):
    ns = bound(f"e{index}", expressions, actions=["Warn"])
    item = config("test", ns, {"a": "b", "n": "7", "zero": "0"})
    case(item)
    if index in (9, 10, 20):
        case(item, user="jane", groups=["devs"])
    if index == 9:
        case(item, "PUT")
WORLD.append(config("test", "ns-e9", {"a": "b"}))

# Messages and reasons.
for name, validation in {
    "plain": {"expression": "object.data.a == 'x'"}, "message": {"expression": "object.data.a == 'x'", "message": "  a must be x  "},
    "computed": {"expression": "object.data.a == 'x'", "message": "m", "messageExpression": "'a is ' + object.data.a"},
    "failing": {"expression": "object.data.a == 'x'", "message": "m", "messageExpression": "object.missing + 'x'"},
    "empty": {"expression": "object.data.a == 'x'", "message": "m", "messageExpression": "'  '"}, "newline": {"expression": "object.data.a == 'x'", "messageExpression": "'a\\nb'"},
    "forbidden": {"expression": "object.data.a == 'x'", "reason": "Forbidden"}, "large": {"expression": "object.data.a == 'x'", "reason": "RequestEntityTooLarge", "message": "too large"},
    "multi": {"expression": "object.data.a ==\n  'x'"}, "error": {"expression": "object.missing == 'x'", "message": "m", "reason": "Forbidden"},
}.items():
    ns = bound("m-" + name, [validation, "object.data.a == 'second'"])
    case(config("test", ns, {"a": "b"}))
    case({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "gen-", "namespace": ns}, "data": {"a": "b"}})

# Failure policy, conditions and variables.
V = [{"name": "a", "expression": "object.data.a"}, {"name": "twice", "expression": "variables.a + variables.a"}, {"name": "bad", "expression": "object.missing.x"}]
ns = bound("ignore", ["object.missing == 1", "object.data.a == 'x'"], failurePolicy="Ignore")
case(config("test", ns, {"a": "b"}))
case(config("test", ns, {"a": "x"}))
ns = bound("vars", ["variables.twice == 'bb'", "variables.twice == 'cc'"], variables=V)
case(config("test", ns, {"a": "b"}))
case(config("test", ns, {"a": "c"}))
ns = bound("badvar", ["variables.bad == 1"], variables=V)
case(config("test", ns, {"a": "b"}))
ns = bound("lazy", ["variables.a == 'b' || variables.bad == 1", "has(variables.bad)"], variables=V)
case(config("test", ns, {"a": "b"}))
for name, conditions, failure in [("true", ["true"], "Fail"), ("false", ["object.missing == 1", "false"], "Fail"), ("error", ["object.missing == 1", "true"], "Fail"),
                                  ("errors", ["object.m1 == 1", "object.m2 == 1"], "Fail"), ("ignored", ["object.missing == 1"], "Ignore"), ("label", ["has(object.metadata.labels) && 'on' in object.metadata.labels"], "Fail"),
                                  ("ns", ["namespaceObject == null"], "Fail")]:
    ns = bound("c-" + name, ["object.data.a == 'x'"], failurePolicy=failure,
               matchConditions=[{"name": f"c{i}", "expression": expression} for i, expression in enumerate(conditions)])
    case(config("test", ns, {"a": "b"}))
    case(config("test", ns, {"a": "b"}, labels={"on": "1"}))

# Parameters.
KIND = {"apiVersion": "v1", "kind": "ConfigMap"}
for name, ref, params in [
    ("named", {"name": "p", "parameterNotFoundAction": "Deny"}, ["p"]), ("missing-deny", {"name": "nope", "parameterNotFoundAction": "Deny"}, []),
    ("missing-allow", {"name": "nope", "parameterNotFoundAction": "Allow"}, []), ("selected", {"selector": {"matchLabels": {"param": "yes"}}, "parameterNotFoundAction": "Deny"}, ["p", "q"]),
    ("none-selected", {"selector": {"matchLabels": {"param": "no"}}, "parameterNotFoundAction": "Deny"}, ["p"]), ("elsewhere", {"name": "p", "namespace": "ns-p-named", "parameterNotFoundAction": "Deny"}, []),
]:
    ns = bound("p-" + name, [{"expression": "object.data.a == params.data.want", "messageExpression": "'want ' + params.data.want + ' by ' + params.kind"}], paramKind=KIND, bind={"paramRef": ref},
               constraints={"objectSelector": {"matchExpressions": [{"key": "param", "operator": "DoesNotExist"}]}})
    for param in params:
        WORLD.append(config(param, ns, {"want": "b" if param == "p" else "c"}, labels={"param": "yes"}))
    case(config("test", ns, {"a": "b"}))
    case(config("test", ns, {"a": "c"}))
ns = bound("p-noref", ["params == null", "params != null"], paramKind=KIND)
case(config("test", ns, {"a": "b"}))
WORLD.append(policy("p-unknown", ["true"], paramKind={"apiVersion": "example.com/v1", "kind": "Nope"}))
WORLD.append(binding("p-unknown", "p-unknown", namespace=space("ns-p-unknown"), paramRef={"name": "x", "parameterNotFoundAction": "Deny"}))
WORLD[-3]["spec"]["matchConstraints"]["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": "ns-p-unknown"}}
case(config("test", "ns-p-unknown", {"a": "b"}))
WORLD.append(policy("p-cluster", ["true"], [{"apiGroups": [R], "apiVersions": ["v1"], "resources": ["clusterroles"], "operations": ["CREATE"]}], paramKind=KIND,
                    matchConditions=[{"name": "n", "expression": "object.metadata.name == 'p-cluster'"}]))
WORLD.append(binding("p-cluster", "p-cluster", paramRef={"name": "x", "parameterNotFoundAction": "Deny"}, matchResources={"resourceRules": [
    {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"], "resourceNames": ["p-cluster"]}]}))
case({"apiVersion": R + "/v1", "kind": "ClusterRole", "metadata": {"name": "p-cluster"}, "rules": []})

# Matching.
any_rule = lambda **more: [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"], **more}]
for name, rules, constraints in [
    ("all", any_rule(), {}), ("create", any_rule(operations=["CREATE"]), {}), ("update", any_rule(operations=["UPDATE"]), {}), ("sub", any_rule(resources=["*/status", "secrets"]), {}), ("plain", any_rule(resources=["*"]), {}),
    ("names", any_rule(resourceNames=["test2"]), {}), ("cluster", any_rule(scope="Cluster"), {}), ("namespaced", any_rule(scope="Namespaced"), {}), ("group", any_rule(apiGroups=["apps"]), {}),
    ("version", any_rule(apiVersions=["v2"]), {}), ("exclude", any_rule(), {"excludeResourceRules": any_rule(resourceNames=["test"])}), ("object", any_rule(), {"objectSelector": {"matchLabels": {"a": "b"}}}),
]:
    ns = bound("r-" + name, ["false"], rules, constraints=constraints, matchConditions=[{"name": "n", "expression": "object.kind == 'ConfigMap'"}])
    case(config("test", ns))
    case(config("test2", ns, labels={"a": "b"}))
# Two policies and several actions.
ns = bound("two-a", [{"expression": "false", "message": "first"}], actions=["Deny", "Audit"])
WORLD.append(policy("two-b", [{"expression": "false", "message": "second"}]))
WORLD.append(binding("two-b", "two-b", ["Warn", "Audit"], ns))
case(config("test", ns))
ns = bound("audit", ["false"], actions=["Audit"], auditAnnotations=[{"key": "k", "valueExpression": "'v'"}])
case(config("test", ns))
ns = bound("annotate", ["true"], auditAnnotations=[{"key": "k", "valueExpression": "object.missing"}]) if False else bound("annotate", ["true"], auditAnnotations=[{"key": "k", "valueExpression": "'x' + object.missing"}])
case(config("test", ns))

# The policies of this repository.
deploy = os.path.join(HERE, "..", "..", "..", "..", "deploy")
shipped = []
for name in ["rbac/reserved-namespaces", "components/unrestricted/epochs", "rbac/namespace-opt-in"]:
    answer = subprocess.run(["kubectl", "create", "--dry-run=client", "-o", "json", "-f", f"{deploy}/{name}.yaml"], capture_output=True, check=True)
    text_, decoder = answer.stdout.decode(), json.JSONDecoder()
    while text_.strip():
        item, end = decoder.raw_decode(text_.strip())
        text_ = text_.strip()[end:]
        shipped += item["items"] if item["kind"] == "List" else [item]
WORLD += shipped
space("operetta-system")
space("team", **{"operetta.dev/plugins": "old"})
WORLD += [
    {"apiVersion": R + "/v1", "kind": "ClusterRole", "metadata": {"name": "enabler"}, "rules": [{"apiGroups": ["operetta.dev"], "resources": ["plugins"], "verbs": ["enable"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["create", "update", "get"]}]},
    {"apiVersion": R + "/v1", "kind": "ClusterRole", "metadata": {"name": "namespacer"}, "rules": [{"apiGroups": [""], "resources": ["namespaces", "namespaces/status"], "verbs": ["create", "update", "get"]}]},
    {"apiVersion": R + "/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "enabler"}, "subjects": [{"apiGroup": R, "kind": "User", "name": "enabler"}], "roleRef": {"apiGroup": R, "kind": "ClusterRole", "name": "enabler"}},
    {"apiVersion": R + "/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "namespacer"}, "subjects": [{"apiGroup": R, "kind": "User", "name": "namespacer"}], "roleRef": {"apiGroup": R, "kind": "ClusterRole", "name": "namespacer"}},
    {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "operetta", "namespace": "operetta-system", "annotations": {"operetta.dev/members": "3=a,5=b"}}, "spec": {"leaseTransitions": 7}},
]
HOST = [{"kind": "ServiceAccount", "name": "operetta", "namespace": "operetta-system"}]


def bind(name, role, subjects, namespace=None):
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    ref_kind, ref = role.split("/")
    return {"apiVersion": R + "/v1", "kind": kind, "metadata": {"name": name, **({"namespace": namespace} if namespace else {})}, "subjects": subjects,
            "roleRef": {"apiGroup": R, "kind": ref_kind, "name": ref}}


for subjects in [HOST, [{"kind": "User", "apiGroup": R, "name": "system:serviceaccount:operetta-system:operetta"}], [{"kind": "Group", "apiGroup": R, "name": "system:serviceaccounts:operetta-system"}],
                 [{"kind": "ServiceAccount", "name": "operetta", "namespace": "team"}], [{"kind": "User", "apiGroup": R, "name": "x"}], []]:
    case(bind("b", "ClusterRole/view", subjects, "kube-system"))
    case(bind("b", "Role/operetta", subjects, "operetta-system"))
    case(bind("b", "ClusterRole/view", subjects, "team"))
    case(bind("b", "ClusterRole/view", subjects))
    case(bind("b", "ClusterRole/operetta-x", subjects))
case(bind("b", "Role/x", [{"kind": "ServiceAccount", "name": "operetta", "namespace": "operetta-system"}], "operetta-system"))
for name in ["operetta", "operetta-x", "operetta-unrestricted", "other"]:
    for verbs in [["get"], ["*"], ["impersonate"], ["impersonate:serviceaccount", "get"]]:
        rules = [{"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": verbs}]
        case({"apiVersion": R + "/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
        if verbs != ["get"]:
            case({"apiVersion": R + "/v1", "kind": "Role", "metadata": {"name": name, "namespace": "kube-system"}, "rules": rules})
case({"apiVersion": R + "/v1", "kind": "ClusterRole", "metadata": {"name": "operetta-none"}})
for epoch in ["3", "4", "5", "8", "7", "x", "", "99999999999"]:
    case(config("test", "team", {"a": "b"}), extra=[("operetta.dev%2Fepoch", epoch)])
case(config("test", "team", {"a": "b"}), extra=[("operetta.dev%2Fepoch", "3"), ("operetta.dev%2Fepoch", "5")])
case(config("test", "team", {"a": "b"}), extra=[("other.dev%2Fepoch", "1")])
namespace = lambda name, **labels: {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **({"labels": labels} if labels else {})}}
for who in ["enabler", "namespacer", None]:
    case(namespace("fresh", **{"operetta.dev/plugins": "enabled"}), user=who)
    case(namespace("fresh"), user=who)
    case(namespace("team", **{"operetta.dev/plugins": "new"}), "PUT", user=who)
    case(namespace("team", **{"operetta.dev/plugins": "old", "x": "y"}), "PUT", user=who)
    case(namespace("team"), "PUT", user=who)

# Deletions and subresources.
ns = bound("deletes", ["object == null", "object != null", "oldObject == null", "oldObject.data.a == 'b'", "oldObject.data.a == 'x'", "request.operation == 'DELETE'", "object.x == 1", "has(object.x)", "request.name == 'held'"],
           [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["DELETE"]}], actions=["Warn"])
WORLD.append(config("held", ns, {"a": "b"}))
case(config("held", ns), "DELETE")
case(config("other", ns, {"a": "b"}))
ns = bound("del-deny", ["oldObject.metadata.name != 'kept'"], [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["configmaps"], "operations": ["DELETE"]}])
WORLD += [config("kept", ns), config("free", ns)]
case(config("kept", ns), "DELETE")
case(config("free", ns), "DELETE")
ns = bound("subs", ["request.subResource == 'status'", "request.subResource == 'scale'", "request.requestSubResource == 'status'", "authorizer.requestResource.check('update').allowed()", "object.kind == 'Deployment'", "request.kind.kind == 'Scale'", "request.kind.kind == 'Deployment'"],
           [{"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments/status"], "operations": ["UPDATE"]}], actions=["Warn"])
deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": ns}, "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}},
              "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}
WORLD.append(deployment)
case(deployment, "PUT", path="status")
case(deployment, "PUT")
for who in ["namespacer", None]:
    case(namespace("team", **{"operetta.dev/plugins": "new"}), "PUT", user=who, path="status")
    case(namespace("team", **{"operetta.dev/plugins": "old"}), "PUT", user=who, path="status")
case({**namespace("team"), "spec": {"finalizers": []}}, "PUT", path="finalize")

# Wrong policies and bindings.
WRONG = []
wrong = lambda item: WRONG.append(item)
expressions = ["", "  ", "object.", "1 +", "foo", "foo == 1", "object.a == foo.b", "nope(1)", "object.nope(1)", "'a'.nope()", "sets.nope([1])", "object.flag", "'text'", "1", "null", "[true]", "true &&", "1 == 'a'", "'a' + 1 == 'a1'",
               "{'a': 1} == {'a': 1.0}", "[1] == ['a']", "request.nope == 'x'", "request.kind.nope == 'x'", "request.userInfo.username.foo == 'x'", "namespaceObject.metadata.nope == ''", "variables.x == 1", "params.x == 1", "authorizer.nope",
               "authorizer.group('').check('x').allowed()", "1 ? true : false", "'a' && true", "!1", "object.all(x, foo)", "1.all(x, true)", "object.a in 5", "a.b.c(d)", "true\n&& foo", "\"unterminated", "object.data['a", "x -> y",
               "has(object)", "type(object) == string", "object.items.all(i, v, v > 0)", "[1].sortBy(x, x) == [1]", "cel.bind(x, 1, x == 1)", "math.greatest(1, 2) == 2", "base64.encode(b'a') == ''", "object.x ? 1 : 'a'", "size(5) == 1", "ip('x').nope()",
               "object.?a.optMap(x, x + 1).orValue(1) == 1", "dyn(1)", "oldObject", "object.a || 1 == 1", "object.metadata.creationTimestamp > timestamp('x')", "'a'.matches('(')", "duration('x') > duration('1s')", "Foo{a: 1} == null", "int", "string == 'a'",
               "request.operation = 'CREATE'", "foo || bar || baz", "-'a' == 'b'", "[1, 'a'].size() == 2", "object.a.b.c.d == 1 && nope2(object)"]
for expression in expressions:
    wrong(policy("wrong", [expression]))
good = "true"
wrong(policy("wrong", [good], variables=[{"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "1"}]))
wrong(policy("wrong", ["variables.c == 1"], variables=[{"name": "a", "expression": "1"}]))
wrong(policy("wrong", ["variables.a == 'x'"], variables=[{"name": "a", "expression": "1"}]))
wrong(policy("wrong", ["variables.a"], variables=[{"name": "a", "expression": "object.x"}]))
wrong(policy("wrong", ["variables.a"], variables=[{"name": "a", "expression": "true"}]))
wrong(policy("wrong", [good], variables=[{"name": "", "expression": ""}, {"name": "1a", "expression": " "}, {"name": "in", "expression": "foo"}, {"name": "a-b", "expression": "1"}]))
for message in ["object.x", "'a' + object.x", "1", "foo", "  ", "authorizer.path('/x').check('get').reason()", "params.x + ''"]:
    wrong(policy("wrong", [{"expression": good, "messageExpression": message}]))
for message in ["  ", "a\nb", " ok ", "x\r"]:
    wrong(policy("wrong", [{"expression": good, "message": message}]))
for reason in ["Nope", "Unauthorized", "NotFound"]:
    wrong(policy("wrong", [{"expression": good, "reason": reason}]))
wrong(policy("wrong", []))
wrong(policy("wrong", None))
wrong(policy("wrong", [good], failurePolicy="Maybe"))
for kind in [{}, {"apiVersion": "a/b/c", "kind": "X"}, {"apiVersion": "v1", "kind": "-x"}, {"apiVersion": "A/V", "kind": "Foo"}, {"apiVersion": "apps/", "kind": "Foo"}]:
    wrong(policy("wrong", [good], paramKind=kind))
one = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
for change in [{"apiGroups": []}, {"apiGroups": ["*", "a"]}, {"apiVersions": []}, {"apiVersions": ["*", ""]}, {"resources": []}, {"resources": ["", "a"]}, {"resources": ["*/*", "a"]}, {"resources": ["*", "a"]}, {"resources": ["a/*", "a/b"]}, {"resources": ["*/b", "a/b"]},
               {"operations": []}, {"operations": ["*", "CREATE"]}, {"operations": ["READ", "CREATE"]}, {"scope": "Any"}, {"resourceNames": ["a", "a", "b/c", ".."]}]:
    wrong(policy("wrong", [good], [{**one, **change}]))
wrong({**policy("wrong", [good]), "spec": {"validations": [{"expression": good}]}})
wrong({**policy("wrong", [good]), "spec": {"matchConstraints": {}, "validations": [{"expression": good}]}})
wrong(policy("wrong", [good], constraints={"matchPolicy": "Fuzzy"}))
wrong(policy("wrong", [good], constraints={"excludeResourceRules": [{}]}))
wrong(policy("wrong", [good], constraints={"objectSelector": {"matchExpressions": [{"key": "a/b/c", "operator": "In"}, {"key": "", "operator": "Exists", "values": ["x"]}, {"key": "a", "operator": "Foo"}]}}))
wrong(policy("wrong", [good], constraints={"namespaceSelector": {"matchLabels": {"a": "b!"}}}))
for conditions in [[{"name": "", "expression": ""}], [{"name": "a b", "expression": "foo"}], [{"name": "a", "expression": good}, {"name": "a", "expression": "1"}], [{"name": "a", "expression": "variables.x"}], [{"name": "a", "expression": "params.x"}]]:
    wrong(policy("wrong", [good], matchConditions=conditions))
for annotations in [[{"key": "", "valueExpression": ""}], [{"key": "a b", "valueExpression": "1"}], [{"key": "a", "valueExpression": "'x'"}, {"key": "a", "valueExpression": "null"}], [{"key": "a", "valueExpression": "object.x"}], [{"key": "a", "valueExpression": "foo"}], [{"key": "a", "valueExpression": "'" + "x" * 6000 + "'"}]]:
    wrong(policy("wrong", [good], auditAnnotations=annotations))
for spec in [{}, {"policyName": "p", "validationActions": []}, {"policyName": "P_", "validationActions": ["Deny"]}, {"policyName": "p", "validationActions": ["Deny", "Warn"]}, {"policyName": "p", "validationActions": ["Deny", "Deny", "Nope"]},
             {"policyName": "p", "validationActions": ["Deny"], "paramRef": {}}, {"policyName": "p", "validationActions": ["Deny"], "paramRef": {"name": "a", "selector": {}, "parameterNotFoundAction": "Deny"}},
             {"policyName": "p", "validationActions": ["Deny"], "paramRef": {"name": "a/b", "parameterNotFoundAction": "Maybe"}}, {"policyName": "p", "validationActions": ["Deny"], "paramRef": {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}, "parameterNotFoundAction": "Allow"}},
             {"policyName": "p", "validationActions": ["Deny"], "matchResources": {"matchPolicy": "x", "resourceRules": [{}]}}, {"policyName": "p", "validationActions": ["Audit", "Warn"]}]:
    wrong({"apiVersion": G, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "wrong"}, "spec": spec})
refusals = []
for item in WRONG:
    code, answer, _ = call("POST", collection(item) + "?dryRun=All", item)
    refusals.append({"object": item, "code": code, "answer": short(answer) if answer["kind"] == "Status" else None})
write(os.path.join(HERE, "wrong_policies.json"), refusals)
if "--wrong" in sys.argv:
    sys.exit()

for item in WORLD:
    create(item)
time.sleep(4)
lines = []
for item, method, who, groups, extra, path in CASES:
    headers = as_user(who, groups) if who or extra else []
    if extra and not who:
        who, groups = "someone", ["system:masters"]
        headers = as_user(who, groups)
    headers += [("Impersonate-Extra-" + key, value) for key, value in extra]
    url, old = collection(item), None
    if method != "POST":
        url += "/" + item["metadata"]["name"]
        old = without_managed(call("GET", url)[1])
    url += "/" + path if path else ""
    code, answer, warnings = call(method, url + "?dryRun=All", item if method != "DELETE" else None, headers=headers)
    warnings = [re.match(r'299 - "(.*)"$', warning).group(1).replace('\\"', '"').replace("\\\\", "\\") for warning in warnings]
    if item["kind"] == "ConfigMap" and who and code == 403 and "cannot create" in answer["message"]:
        raise SystemExit(f"{who} may not even send {item}")
    lines.append({"method": method, "user": who, "groups": groups, "extra": extra, "subresource": path or "", "object": item if method != "DELETE" else None, "old": old, "code": code,
                  "denied": short(answer) if answer["kind"] == "Status" and code >= 400 else None, "warnings": warnings})
write(os.path.join(HERE, "policy_world.json"), [without_managed(item) for item in WORLD])
write(os.path.join(HERE, "policies.json"), lines)
