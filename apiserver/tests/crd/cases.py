"""The cases that record.py sends to a real API server."""
import copy

OBJECT, STRING, INTEGER = {"type": "object"}, {"type": "string"}, {"type": "integer"}
X = "x-kubernetes-"


def obj(props=None, **more):
    return {"type": "object", **({"properties": props} if props is not None else {}), **more}


def arr(items, **more):
    return {"type": "array", "items": items, **more}


def rule(text, **more):
    return {"rule": text, **more}


def rules(*texts, **more):
    return {X + "validations": [t if isinstance(t, dict) else rule(t) for t in texts], **more}


def version(schema, name="v1", storage=True, **more):
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}, **more}


def crd(schema=None, plural="foos", kind="Foo", group="example.com", scope="Namespaced", versions=None, names=None,
        **more):
    versions = versions or [version(schema or obj({"spec": OBJECT}))]
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}", **more.pop("metadata", {})},
            "spec": {"group": group, "scope": scope, "names": {"plural": plural, "kind": kind, **(names or {})},
                     "versions": versions, **more}}


def spec(field):
    return obj({"spec": obj({"a": field})})


def creates():
    """Definitions to create: (name, definition)."""
    yield from named_creates().items()
    for at, schema in enumerate(bad_schemas()):
        yield f"schema {at}", crd(schema)
    for at, text in enumerate(bad_rules()):
        yield f"rule {at}", crd(obj({"spec": obj(RULE_FIELDS, **rules(text))}))
    for at, schema in enumerate(good_schemas()):
        yield f"good {at}", crd(schema)


def named_creates():
    both = lambda a, b, **more: crd(versions=[version(a), version(b, name="v2", storage=False)], **more)
    one = lambda **more: crd(versions=[version(obj({"spec": OBJECT, "status": OBJECT}), **more)])
    wrong_name = crd()
    wrong_name["metadata"]["name"] = "bars.example.com"
    no_group = crd(group="")
    no_group["metadata"]["name"] = "foos."
    column = lambda **c: one(additionalPrinterColumns=[c])
    scale = lambda **s: one(subresources={"scale": s})
    return {
        "plain": crd(), "wrong name": wrong_name, "no group": no_group, "group without dot": crd(group="example"),
        "bad group": crd(group="Example.com"), "bad scope": crd(scope="Everywhere"), "no scope": crd(scope=""),
        "bad plural": crd(plural="Foos"), "bad kind": crd(kind="F oo"), "no kind": crd(kind=""),
        "kind is list kind": crd(names={"listKind": "Foo"}), "bad short names": crd(names={"shortNames": ["F", "1"]}),
        "bad categories": crd(names={"categories": ["All"]}), "bad singular": crd(names={"singular": "F"}),
        "bad list kind": crd(names={"listKind": "-"}), "no versions": {**crd(), "spec": {**crd()["spec"], "versions": []}},
        "bad version name": crd(versions=[version(OBJECT, name="V1")]),
        "no storage": crd(versions=[version(OBJECT, storage=False)]),
        "two storage versions": crd(versions=[version(OBJECT), version(OBJECT, name="v2")]),
        "equal versions": crd(versions=[version(OBJECT), version(OBJECT, storage=False)]),
        "no schema": crd(versions=[{"name": "v1", "served": True, "storage": True}]),
        "no schema in one": crd(versions=[version(OBJECT), {"name": "v2", "served": True, "storage": False}]),
        "two schemas": both(obj({"spec": {}}), obj({"a": STRING, "spec": {"type": "strin"}})),
        "preserve unknown fields": crd(preserveUnknownFields=True),
        "preserve and default": crd(spec({"type": "string", "default": "x"}), preserveUnknownFields=True),
        "bad conversion": crd(conversion={"strategy": "Magic"}), "no strategy": crd(conversion={}),
        "webhook at none": crd(conversion={"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://a.b"}}}),
        "deprecation of a current version": one(deprecationWarning="x"),
        "empty deprecation": one(deprecated=True, deprecationWarning=""),
        "long deprecation": one(deprecated=True, deprecationWarning="x" * 257),
        "control character in deprecation": one(deprecated=True, deprecationWarning="a\tb"),
        "good deprecation": one(deprecated=True, deprecationWarning="use v2"),
        "column without all": column(), "column of bad type": column(name="A", type="text", jsonPath=".a"),
        "column of bad format": column(name="A", type="string", format="x", jsonPath=".a"),
        "column of bad path": column(name="A", type="string", jsonPath="a"),
        "good column": column(name="A", type="date", jsonPath=".metadata.creationTimestamp", priority=1),
        "scale without paths": scale(), "scale beside spec": scale(specReplicasPath=".status.n", statusReplicasPath="n"),
        "scale selector": scale(specReplicasPath=".spec.n", statusReplicasPath=".status.n", labelSelectorPath=".x"),
        "scale selector path": scale(specReplicasPath=".spec.n", statusReplicasPath=".status.n", labelSelectorPath="x"),
        "good scale": scale(specReplicasPath=".spec.n", statusReplicasPath=".status.n", labelSelectorPath=".status.s"),
        "root with anyOf beside status": crd(versions=[version(obj({"spec": OBJECT}, anyOf=[{"required": ["spec"]}]),
            subresources={"status": {}})]),
        "root of other type beside status": crd(versions=[version({"type": "array", "items": STRING},
            subresources={"status": {}})]),
        "protected group": crd(group="sub.k8s.io"),
        "protected group unapproved": crd(group="sub.k8s.io", metadata={"annotations":
            {"api-approved.kubernetes.io": "unapproved, test"}}),
        "protected group approved by word": crd(group="sub.kubernetes.io", metadata={"annotations":
            {"api-approved.kubernetes.io": "yes"}}),
        "protected group approved": crd(group="sub.k8s.io", metadata={"annotations":
            {"api-approved.kubernetes.io": "https://github.com/x/y/pull/1"}}),
        "bad label": crd(metadata={"labels": {"a/b/c": "-", "ok": "x y"}}),
        "bad annotation": crd(metadata={"annotations": {"-": "x"}}),
        "namespace": crd(metadata={"namespace": "default"}),
        "bad finalizer": crd(metadata={"finalizers": ["a b"]}),
        "selectable": selectable(".spec.a", ".spec.b", ".spec.c"),
        "selectable in metadata": selectable(".metadata.name"),
        "selectable of other types": selectable(".spec.list", ".spec.map", ".spec", ".spec.n"),
        "selectable twice": selectable(".spec.a", ".spec.a"),
        "selectable of bad paths": selectable("", "spec", ".spec.none", ".spec['a']", ".spec.map.x", ".spec."),
        "too many selectable": selectable(*[f".spec.f{i}" for i in range(9)]),
        "wrong type in names": crd(names={"kind": 5}), "wrong type in schema": crd(obj({"spec": {"maxLength": "x"}})),
        "fraction in schema": crd(obj({"spec": {"maxLength": 1.5}})), "wrong type of items": crd(obj({"a": {"items": 5}})),
        "unknown field": crd(obj({"spec": obj({"a": {"type": "string", "foo": 1}})})), "unknown field in spec": crd(x=1),
        "unknown field at the root": {**crd(), "x": 1}, "bad boolean": crd(obj({"spec": {"nullable": "x"}})),
        "bad additional properties": crd(obj({"spec": {"additionalProperties": 5}})),
    }


def selectable(*paths):
    fields = {"a": STRING, "b": {"type": "boolean"}, "c": {"type": "integer"}, "n": {"type": "number"},
              "list": arr(STRING), "map": obj(additionalProperties=STRING), **{f"f{i}": STRING for i in range(9)}}
    schema = obj({"spec": obj(fields), "metadata": obj({"name": STRING})})
    return crd(versions=[version(schema, selectableFields=[{"jsonPath": p} for p in paths])])


INT_OR_STRING = {X + "int-or-string": True}
ANY_OF = [INTEGER, STRING]


def bad_schemas():
    """Schemas of definitions that are refused."""
    yield {}
    yield STRING
    yield obj({}, additionalProperties=STRING)
    yield obj(additionalProperties=STRING)
    yield obj(nullable=True)
    yield spec({})
    yield spec({"type": "array"})
    yield spec(arr({}))
    yield spec({"type": "null"})
    yield spec({"type": "text"})
    yield spec({"type": "array", "items": [STRING, INTEGER]})
    yield spec(obj({"b": STRING}, additionalProperties=STRING))
    yield spec(obj({"b": STRING}, additionalProperties=False))
    yield spec(obj(additionalProperties={}))
    yield spec({"type": "string", "$ref": "#/x"})
    yield spec({"type": "string", "id": "x"})
    yield spec({"type": "string", "$schema": "x"})
    yield spec(obj(patternProperties={"a": STRING}))
    yield spec(obj(definitions={"a": STRING}))
    yield spec(obj(dependencies={"a": ["b"]}))
    yield spec(arr(STRING, additionalItems=STRING))
    yield spec(arr(STRING, uniqueItems=True))
    yield spec({"type": "string", "pattern": "(?!a)"})
    yield spec({"type": "string", "pattern": "[a"})
    yield spec({"type": "string", "pattern": "(a"})
    yield spec({"type": "string", "anyOf": [{"pattern": "*a"}]})
    for word in ("anyOf", "allOf", "oneOf"):
        yield spec({"type": "string", word: [STRING]})
    yield spec({"type": "string", "not": STRING})
    yield spec({"type": "string", "anyOf": [{"description": "d", "title": "t", "default": "x", "nullable": True}]})
    yield spec(obj({"b": STRING}, anyOf=[{"additionalProperties": True}, {"additionalProperties": STRING}]))
    yield spec(obj({"b": STRING}, allOf=[{"properties": {"c": {"minLength": 1}}}]))
    yield spec(obj({"b": STRING}, **{"not": {"properties": {"b": {"properties": {"c": {}}}}}}))
    yield spec(obj({}, anyOf=[{"properties": {"metadata": {}}}]))
    yield spec(arr(STRING, anyOf=[{"items": {"items": {"minLength": 1}}}]))
    yield spec({"type": "string", "anyOf": [{X + "int-or-string": True, X + "embedded-resource": True,
        X + "preserve-unknown-fields": True, X + "list-type": "set", X + "list-map-keys": ["a"], X + "map-type": "atomic"}]})
    yield spec({"type": "string", "allOf": [rules("self == 'a'")]})
    yield spec({X + "preserve-unknown-fields": False, "type": "object"})
    yield spec({**INT_OR_STRING, X + "preserve-unknown-fields": True})
    yield spec({**INT_OR_STRING, X + "embedded-resource": True})
    yield spec({**INT_OR_STRING, "anyOf": [STRING, INTEGER]})
    yield spec({X + "embedded-resource": True})
    yield spec({X + "embedded-resource": True, "type": "array", "items": STRING})
    yield spec(obj(**{X + "embedded-resource": True}))
    yield spec(obj(**{X + "embedded-resource": True, "additionalProperties": STRING}))
    yield spec(obj({"kind": INTEGER, "apiVersion": OBJECT, "metadata": STRING}, **{X + "embedded-resource": True}))
    yield obj({"metadata": obj({"labels": obj(additionalProperties=STRING)})})
    yield obj({"metadata": obj({"name": {"type": "string", "default": "x"}})})
    yield obj({"metadata": STRING, "kind": INTEGER, "apiVersion": OBJECT})
    yield obj({"metadata": obj({"name": {"type": "string", "maxLength": 5}}, description="d")})
    yield spec(obj(**{X + "map-type": "loose"}))
    yield spec({"type": "string", X + "map-type": "atomic"})
    yield spec({X + "preserve-unknown-fields": True, X + "map-type": "atomic", X + "list-type": "set"})
    yield spec(arr(STRING, **{X + "list-type": "bag"}))
    yield spec(obj(**{X + "list-type": "set"}))
    yield spec(arr(OBJECT, **{X + "list-type": "set"}))
    yield spec(arr(arr(STRING, **{X + "list-type": "set"}), **{X + "list-type": "set"}))
    yield spec(arr({**STRING, "nullable": True}, **{X + "list-type": "set"}))
    yield spec(arr(STRING, **{X + "list-type": "map"}))
    yield spec(arr(obj({"k": STRING}), **{X + "list-type": "map"}))
    yield spec(arr(obj({"k": STRING}), **{X + "list-type": "map", X + "list-map-keys": ["k"]}))
    yield spec(arr(obj({"k": {**STRING, "nullable": True}, "l": OBJECT}, required=["k", "l"], nullable=True),
                   **{X + "list-type": "map", X + "list-map-keys": ["k", "k", "l", "m"]}))
    yield spec(arr(STRING, **{X + "list-map-keys": ["k"]}))
    yield spec(arr(STRING, **{X + "list-type": "set", X + "list-map-keys": ["k"]}))
    # Defaults.
    yield spec({"type": "string", "default": 5})
    yield spec({"type": "string", "enum": ["a"], "default": "b"})
    yield spec({"type": "integer", "maximum": 3, "default": 5})
    yield spec(obj({"b": STRING}, default={"c": 1}))
    yield spec(obj({"b": STRING}, default={"b": 1}, required=["z"]))
    yield spec(arr(STRING, default=["x", 1]))
    yield spec({**INT_OR_STRING, "default": True})
    yield spec(obj(**{X + "embedded-resource": True, X + "preserve-unknown-fields": True, "default": {"a": 1}}))
    yield spec(obj(**{X + "embedded-resource": True, X + "preserve-unknown-fields": True,
                      "default": {"kind": "A b", "apiVersion": "a/b/c", "metadata": {"name": "x/y", "labels": {"-": "-"}}}}))
    yield spec(obj({"metadata": obj({"name": {"type": "string", "default": "a/b"}})}, **{X + "embedded-resource": True}))
    yield spec(obj({"metadata": obj({"labels": obj(additionalProperties={"type": "string", "default": "x"})})},
                   **{X + "embedded-resource": True}))
    yield spec(obj({"metadata": obj(**{X + "embedded-resource": True})}, **{X + "embedded-resource": True}))
    yield obj({"kind": {"type": "string", "default": "x"}})
    yield spec({"type": "string", "nullable": True, "default": None, "enum": []} | {"type": "strin"})
    yield spec({"type": "string", "format": "date-time", "default": "x"})
    yield spec({"type": "string", "minLength": 3, "pattern": "^a", "default": "b"})
    # The form of rules.
    yield spec({"type": "string", **rules("")})
    yield spec({"type": "string", **rules(rule("self == 'a'", message=" "))})
    yield spec({"type": "string", **rules(rule("self == 'a'", message="a\nb"))})
    yield spec({"type": "string", **rules("self\n== 'a'")})
    yield spec({"type": "string", **rules(rule("self == 'a'", messageExpression=" "))})
    yield spec({"type": "string", **rules(rule("self == 'a'", reason="Because"))})
    yield spec(obj({"b": STRING}, **rules(rule("self.b == 'a'", fieldPath=".c"), rule("self.b == 'a'", fieldPath=" "),
                                          rule("self.b == 'a'", fieldPath=".b\n"), rule("self.b == 'a'", fieldPath="b"))))


RULE_FIELDS = {"s": {"type": "string", "maxLength": 20}, "i": INTEGER, "n": {"type": "number"}, "b": {"type": "boolean"},
    "l": arr({"type": "string", "maxLength": 10}, maxItems=10), "m": obj(additionalProperties=INTEGER, maxProperties=10),
    "o": obj({"x": INTEGER}), "t": {"type": "string", "format": "date-time"}, "d": {"type": "string", "format": "duration"},
    "ios": {**INT_OR_STRING, "maxLength": 10}, "p": {X + "preserve-unknown-fields": True}, "by": {"type": "string", "format": "byte", "maxLength": 10},
    "big": arr(STRING), "objs": arr(obj({"k": STRING, "v": INTEGER}, required=["k"]), maxItems=10, **{X + "list-type": "map", X + "list-map-keys": ["k"]}),
    "a-b": STRING, "namespace": STRING, "x__y": STRING, "1x": STRING}


def bad_rules():
    """Rules on RULE_FIELDS that do not compile, or cost too much."""
    yield "self.none == 1"
    yield "self.o.y == 1"
    yield "nobody == 1"
    yield "1 + 1"
    yield "self.s"
    yield "self.s == 1"
    yield "self.s + 1 == 'a'"
    yield "self.i + self.n > 1.0"
    yield "!self.s"
    yield "-self.s == 1"
    yield "self.s && true"
    yield "self.s || self.i"
    yield "self.b ? 1 : 'a'"
    yield "self.i ? true : false"
    yield "self.s.startsWith(1)"
    yield "self.s.foo()"
    yield "foo(self.s)"
    yield "size(self.i) == 1"
    yield "self.l.all(x, x > 1)"
    yield "self.l.all(x, 1)"
    yield "self.l.exists(1, true)"
    yield "self.l.map(x, size(x)).exists(y, y == 'a')"
    yield "self.l.filter(x, x)"
    yield "self.l[0] == 1"
    yield "self.l['a'] == 'b'"
    yield "self.m[0] == 1"
    yield "self.m.x == 'a'"
    yield "self.s.x == 1"
    yield "self.i.x == 1"
    yield "has(self.none)"
    yield "has(self)"
    yield "has(self.s.x)"
    yield "self.p == 1"
    yield "[1, 'a'] == [1]"
    yield "{'a': 1, 'b': 'x'} == {}"
    yield "1 in self.l"
    yield "'a' in self.s"
    yield "self.t > self.d"
    yield "self.t + 1 > self.t"
    yield "self.d == '1h'"
    yield "timestamp('x') < self.t"
    yield "duration('x') < self.d"
    yield "self.s.matches('[')"
    yield "self."
    yield "self.s =="
    yield "(self.s"
    yield "self.s == 'a"
    yield "self.s == 'a' &&"
    yield "self.s === 'a'"
    yield "self.s = 'a'"
    yield "self.i == 1u"
    yield "int(self.b) == 1"
    yield "string(self.l) == ''"
    yield "self.i < self.s"
    yield "self.b < self.i"
    yield "self.o < self.o"
    yield "self.namespace == 'a'"
    yield "self.a-b == 'a'"
    yield "self.l.join(1) == ''"
    yield "self.l.sum() == 1"
    yield "quantity(self.i) == quantity('1')"
    yield "quantity(self.s).foo()"
    yield "self.s.split(',').size() == 'a'"
    yield "isURL(self.i)"
    yield "url(self.s).getHost() == 1"
    yield "ip(self.s).family() == '4'"
    yield "self.?s == 'a'"
    yield "self.?s.orValue(1) == 'a'"
    yield "optional.of(1).value() == 'a'"
    yield "self.objs.all(o, o.z == 1)"
    yield "self.big.all(x, self.big.all(y, x == y))"
    yield "self.big.all(x, x.contains('a'))"
    yield "self.big.exists(x, self.big.exists(y, self.big.exists(z, x == y)))"
    yield rule("self.i > 0", messageExpression="1")
    yield rule("self.i > 0", messageExpression="self.none")
    yield rule("self.i > 0", messageExpression="'a' +")
    yield rule("self.i > 0", optionalOldSelf=True)
    yield rule("oldSelf.i == self.i", optionalOldSelf=True)
    yield rule("oldSelf.none == self.i")
    yield "self.l.all(x, oldSelf == x)"
    yield "true ? self.s : self.s"
    yield "sets.contains(self.l, [1])"
    yield "self.s.format([1]) == 1"
    yield "format.dns1123Label().value().validate(self.s).hasValue() == 1"
    yield "semver(self.i).major() == 1"
    yield "cidr(self.s).containsIP(1)"
    yield "self.l.indexOf(1) == 0"
    yield "authorizer.path('/x').check('get').allowed()"
    yield "type(self.s) == 'string'"
    yield "dyn(self.s) + 1"
    yield "self.s.find(1) == ''"
    yield "self.l.all(i, x, x == 1)"
    yield "cel.bind(x, 1, x == 1)"
    yield "math.greatest(1, 2) == 2"
    yield "base64.encode(b'a') == 'YQ=='"
    yield "self.l.exists_one(x, x == 'a', 1)"
    yield "self.l.map(x, x == 'a', 1) == ['a']"
    yield "null == self.s"
    yield "self.i == null"
    yield "x"


def good_schemas():
    yield obj({"spec": obj(RULE_FIELDS, **rules(
        "self.s == 'a' || self.i > 1", "self.i == 1.0 || self.i < self.n", "self.l.all(x, x.startsWith('a'))", "self.m.all(k, k != 'a' && self.m[k] > 0)",
        "has(self.o.x) && self.o.x == 1", "self.t > timestamp('2020-01-01T00:00:00Z')", "self.d < duration('1h')",
        "type(self.ios) == int ? self.ios > 1 : self.ios == 'a'", "self.a__dash__b == self.__namespace__",
        "self.x__underscores__y == ''", "size(self.l) <= 3 && self.l.size() == 1", "'a' in self.m && 'x' in self.l",
        "self.s.matches('^[a-z]+$')", "self.?s.orValue('x') == 'y'", "self.objs.exists_one(o, o.k == 'a')",
        "oldSelf.i <= self.i", "self.by == b'a'", "quantity('1Gi').isGreaterThan(quantity('1'))",
        "self.l.map(x, size(x)).sum() < 5", "isURL(self.s) && url(self.s).getHost() == ''", "self.s.lowerAscii() == self.s",
        "self.l.join(',').split(',').size() == 1", "sets.contains(self.l, ['a'])", "cidr('10.0.0.0/8').containsIP(ip('10.0.0.1'))",
        "self.objs.filter(o, has(o.v)).map(o, o.v).max() > 1", "self.l.all(i, x, i >= 0 && x != '')",
        "self.s.find('[a-z]+') == 'a'", "self.l.isSorted() && self.l.indexOf('a') == -1", "'%s'.format([self.s]) == 'a'",
        "self.b ? self.s == 'a' : true", "!self.b && !(self.i in [1, 2])", "self.o == {'x': 1} || true" if False else "true",
        "self.l == ['a'] && self.l + ['b'] == self.l", "string(self.i) + self.s == '1a' && int('1') == self.i && double('1') < self.n"))})
    yield spec({**INT_OR_STRING, "anyOf": ANY_OF, "default": "50%"})
    yield spec({**INT_OR_STRING, "allOf": [{"anyOf": ANY_OF}, {"pattern": "^x"}], "default": 5})
    yield spec(obj({"b": {**STRING, "default": "d"}}, default={}))
    yield spec({"type": "string", "format": "nonsense"})
    yield spec({"type": "integer", "format": "int128"})
    yield obj({"spec": OBJECT, "metadata": obj({"name": {"type": "string", "maxLength": 5}}), "kind": STRING})
    yield obj(**{X + "preserve-unknown-fields": True})
    yield spec(obj({}, additionalProperties=True))
    yield spec(arr(obj({"k": STRING, "d": {**STRING, "default": "x"}}, required=["k"]), **{X + "list-type": "map", X + "list-map-keys": ["k", "d"]}))
    yield spec(obj({"b": STRING}, oneOf=[{"required": ["b"], "properties": {"b": {"minLength": 1}}}, {"not": {"required": ["b"]}}]))
    yield spec({"type": "string", "enum": ["a", "b"], "default": "a", "example": "a", "externalDocs": {"url": "https://x"}, "title": "T"})


def updates():
    """Updates of definitions: (name, old, new)."""
    base = crd(obj({"spec": OBJECT}))
    two = lambda a, b: [version(OBJECT, name=a), version(OBJECT, name=b, storage=False)]
    yield "unchanged", base, base
    yield "scope", base, crd(scope="Cluster")
    yield "kind", base, crd(kind="Bar")
    yield "short names", base, crd(names={"shortNames": ["fo"]})
    yield "group", base, {**base, "spec": {**base["spec"], "group": "other.com"}}
    yield "plural", base, {**base, "spec": {**base["spec"], "names": {"plural": "bars", "kind": "Foo"}}}
    yield "version removed", crd(versions=two("v1", "v2")), crd(versions=[version(OBJECT, name="v2")])
    yield "storage moved", crd(versions=two("v1", "v2")), crd(versions=two("v2", "v1"))
    yield "version added", base, crd(versions=two("v1", "v2"))
    yield "schema broken", base, crd(spec({}))
    yield "preserve set", base, crd(preserveUnknownFields=True)
    yield "label", base, crd(metadata={"labels": {"a": "-"}})


from objects import groups  # noqa: E402,F401
