"""Objects of custom resources that record.py sends to a real API server."""
import copy

X = "x-kubernetes-"
STRING, INTEGER, NUMBER, BOOLEAN, OBJECT = ({"type": t} for t in ("string", "integer", "number", "boolean", "object"))
count = 0


def groups():
    import cases as c
    for build in (values, formats, structure, lists, embedded, metadata, combined, ratchet, status, scale, cluster,
                  cel, cel_update, cel_ratchet, root):
        yield build(c)


def case(resource, spec=None, **more):
    """A case: `new` is the object, `old` the one that it updates."""
    global count
    count += 1
    ident = f"{resource.lower()}-{count}"
    body = lambda s: {"apiVersion": "example.com/v1", "kind": resource, "metadata": {"name": ident}, **({} if s is None else {"spec": s})}
    out = {"id": ident, "new": body(spec)}
    if "old" in more:
        out["old"] = body(more.pop("old"))
    for key in ("metadata", "kind", "apiVersion"):
        if key in more:
            value = more.pop(key)
            out["new"][key] = {**out["new"][key], **value} if key == "metadata" else value
    out["new"].update(more.pop("top", {}))
    out.update(more)
    return out


def group(kind, crd, specs, lax=None, extra=()):
    make = lambda s: s if isinstance(s, dict) and "id" in s else case(kind, s)
    return {"crd": crd, **({"lax": lax} if lax else {}), "cases": [make(s) for s in specs] + list(extra)}


def define(c, kind, fields, lax=None, **more):
    plural = kind.lower() + "s"
    status = more.pop("status", None)
    root = more.pop("root", {})
    build = lambda f: c.obj({"spec": c.obj(f, **more.get("spec", {})), **({"status": status} if status else {})}, **root)
    extra = more.get("version", {})
    scope = more.get("scope", "Namespaced")
    return c.crd(plural=plural, kind=kind, scope=scope, versions=[c.version(build(fields), **extra)])


def values(c):
    fields = {"s": {**STRING, "minLength": 2, "maxLength": 4}, "p": {**STRING, "pattern": "^[a-z]+$"},
              "e": {**STRING, "enum": ["a", "b"]}, "ei": {**INTEGER, "enum": [1, 2]}, "i": {**INTEGER, "minimum": 1, "maximum": 10},
              "x": {**INTEGER, "minimum": 1, "exclusiveMinimum": True, "maximum": 10, "exclusiveMaximum": True},
              "m": {**INTEGER, "multipleOf": 3}, "n": {**NUMBER, "minimum": 0.5, "maximum": 1.5}, "nm": {**NUMBER, "multipleOf": 0.1},
              "b": BOOLEAN, "a": c.arr(STRING, minItems=1, maxItems=2), "o": c.obj({"r": STRING}, required=["r", "q"]),
              "map": c.obj(additionalProperties=INTEGER, minProperties=1, maxProperties=2), "ios": {X + "int-or-string": True},
              "iosp": {X + "int-or-string": True, "pattern": "^[0-9]+%$", "maximum": 100}, "i32": {**INTEGER, "format": "int32"},
              "i64": {**INTEGER, "format": "int64"}, "f": {**NUMBER, "format": "float"}, "nul": {**STRING, "nullable": True},
              "nule": {**STRING, "nullable": True, "enum": ["a"]}, "fr": {**INTEGER, "maximum": 2.5}, "en": {**NUMBER, "enum": [1.5, 2]},
              "eo": {X + "preserve-unknown-fields": True, "enum": ["a", {"b": 1}, [1]]}, "deep": c.arr(c.arr(c.obj({"v": INTEGER})))}
    bad = [{"s": "a"}, {"s": "abcde"}, {"s": "äöüß"}, {"s": 5}, {"s": None}, {"s": {}}, {"s": []}, {"s": True}, {"s": 1.5}, {"p": "A"}, {"p": "a<b"},
           {"e": "c"}, {"e": 1}, {"ei": 3}, {"ei": "1"}, {"i": 0}, {"i": 11}, {"i": 5}, {"i": 1.5}, {"i": 5.0}, {"i": "5"}, {"i": 1e30}, {"x": 1}, {"x": 10}, {"x": 5},
           {"m": 4}, {"m": 6}, {"m": 0}, {"n": 0.1}, {"n": 1}, {"n": 2}, {"n": "1"}, {"nm": 0.3}, {"nm": 0.35}, {"nm": 1}, {"b": "true"}, {"b": 1}, {"b": False},
           {"a": []}, {"a": ["x", "y", "z"]}, {"a": [1, "x"]}, {"a": [None]}, {"a": "x"}, {"a": {}}, {"o": {}}, {"o": {"r": 1}}, {"o": {"r": "x", "q": 1}}, {"o": []}, {"o": "x"},
           {"map": {}}, {"map": {"a": 1, "b": 2, "c": 3}}, {"map": {"a": "x"}}, {"map": {"a.b": "x"}}, {"map": {"a": None}}, {"ios": 1}, {"ios": "x"}, {"ios": 1.5}, {"ios": True}, {"ios": {}}, {"ios": None},
           {"iosp": "5%"}, {"iosp": "x"}, {"iosp": 101}, {"iosp": 5}, {"i32": 2147483648}, {"i32": 1}, {"i64": 9223372036854775807}, {"i64": 9223372036854775808}, {"f": 1e39}, {"f": 1.5}, {"f": 1},
           {"nul": None}, {"nul": "x"}, {"nule": None}, {"nule": "b"}, {"fr": 3}, {"fr": 2}, {"en": 1.5}, {"en": 2}, {"en": 2.5}, {"eo": "a"}, {"eo": {"b": 1}}, {"eo": {"b": 2}}, {"eo": [1]},
           {"deep": [[{"v": "x"}]]}, {"deep": [[{"v": 1}], [1]]}, {"deep": [[{"u": 1}]]}, {"s": "a", "p": "A"}, {"s": "\u0001\"\\\u200b\u00e9"}, {"e": "<&>\n"}]
    return group("Val", define(c, "Val", fields), bad)


def formats(c):
    names = {"dt": "date-time", "date": "date", "dur": "duration", "uuid": "uuid", "ipv4": "ipv4", "ipv6": "ipv6", "cidr": "cidr", "uri": "uri", "email": "email",
             "host": "hostname", "mac": "mac", "byte": "byte", "none": "nonsense", "short": "k8s-short-name", "long": "k8s-long-name", "pw": "password", "hex": "hexcolor", "isbn": "isbn", "ssn": "ssn"}
    fields = {k: {**STRING, "format": v} for k, v in names.items()}
    fields["iosf"] = {X + "int-or-string": True, "format": "int32"}
    specs = [{"dt": "2024-01-01T00:00:00Z"}, {"dt": "2024-01-01"}, {"dt": "2024-01-01T00:00:00+25:00"}, {"dt": ["x"]}, {"dt": 5}, {"date": "2024-02-30"}, {"date": "2024-02-29"}, {"dur": "1h"}, {"dur": "5 fortnights"},
             {"uuid": "x"}, {"ipv4": "1.2.3.4"}, {"ipv4": "256.1.1.1"}, {"ipv6": "::1"}, {"ipv6": "1.2.3.4"}, {"cidr": "10.0.0.0/33"}, {"cidr": "10.0.0.0/8"}, {"uri": "x y"}, {"uri": "https://x/y"}, {"uri": "x"},
             {"email": "a@b"}, {"email": "a b"}, {"host": "a_b"}, {"host": "a.example.com"}, {"mac": "00:00"}, {"byte": "a"}, {"byte": "YQ=="}, {"byte": ""}, {"none": "anything"}, {"short": "A"}, {"long": "a.b"}, {"long": "a..b"},
             {"pw": ""}, {"hex": "#12"}, {"isbn": "978-0321751041"}, {"isbn": "1"}, {"ssn": "1"}, {"iosf": "x"}, {"iosf": 5000000000}]
    return group("Fmt", define(c, "Fmt", fields), specs)


def structure(c):
    inner = c.obj({"d": {**INTEGER, "default": 7}, "k": STRING})
    fields = {"known": STRING, "o": inner, "free": c.obj(**{X + "preserve-unknown-fields": True}), "mixed": c.obj({"in": inner}, **{X + "preserve-unknown-fields": True}),
              "list": c.arr(inner), "map": c.obj(additionalProperties=inner), "any": c.obj(additionalProperties=True), "dn": {**STRING, "default": "x", "nullable": True},
              "dd": {**STRING, "default": "y"}, "nul": {**STRING, "nullable": True}, "made": c.obj({"a": {**INTEGER, "default": 1}}, default={}),
              "ln": c.arr({**STRING, "nullable": True}), "ld": c.arr({**STRING, "default": "z"}), "anything": {X + "preserve-unknown-fields": True}}
    specs = [{"unknown": 1}, {"o": {"u": 1, "v": 2}}, {"free": {"a": {"b": 1}}}, {"mixed": {"a": 1, "in": {"u": 1}}}, {"list": [{"u": 1}, {}]}, {"map": {"k": {"u": 1}}}, {"any": {"k": {"u": 1}, "j": 1}},
             {"dn": None}, {"dd": None}, {"nul": None}, {"known": None}, {"o": None}, {"list": None}, {"list": [None]}, {"ln": [None, "a"]}, {"ld": [None, "a"]}, {"map": {"k": None}}, {"made": None}, {"made": {"a": None}},
             {"anything": None}, {"anything": {"a": [None]}}, {}, None, "x", {"any": "x"}]
    lenient = [case("Str", {"unknown": 1, "o": {"u": 1}}, validation=mode) for mode in ("Warn", "Ignore")]
    tops = [case("Str", {}, top={"extra": 1}), case("Str", {}, top={"status": {"a": 1}}), case("Str", {}, metadata={"unknown": 1}), case("Str", {"o": {"u": 1}}, top={"x": {}}, metadata={"y": 1})]
    return group("Str", define(c, "Str", fields), specs, extra=lenient + tops)


def lists(c):
    item = c.obj({"k": STRING, "l": {**INTEGER, "default": 1}, "v": STRING}, required=["k"])
    fields = {"set": c.arr(STRING, **{X + "list-type": "set"}), "ints": c.arr(NUMBER, **{X + "list-type": "set"}), "map": c.arr(item, **{X + "list-type": "map", X + "list-map-keys": ["k"]}),
              "two": c.arr(item, **{X + "list-type": "map", X + "list-map-keys": ["k", "l"]}), "objs": c.arr(c.obj({"a": INTEGER}, **{X + "map-type": "atomic"}), **{X + "list-type": "set"}),
              "nested": c.obj(additionalProperties=c.arr(STRING, **{X + "list-type": "set"})), "atomic": c.arr(STRING, **{X + "list-type": "atomic"})}
    specs = [{"set": ["a", "b"]}, {"set": ["a", "a"]}, {"set": ["a", "b", "a", "b", "a"]}, {"ints": [1, 1.5, 1]}, {"map": [{"k": "a"}, {"k": "b"}]}, {"map": [{"k": "a"}, {"k": "a", "v": "x"}]}, {"map": [{}, {}]},
             {"two": [{"k": "a"}, {"k": "a", "l": 2}]}, {"two": [{"k": "a"}, {"k": "a", "l": 1}]}, {"objs": [{"a": 1}, {"a": 2}]}, {"objs": [{"a": 1}, {"a": 1}]}, {"nested": {"x": ["a", "a"]}}, {"atomic": ["a", "a"]}, {"map": ["x"]}, {"set": [1, 1]}]
    more = [case("Lst", {"set": ["a", "a"]}, old={"set": ["a"]}), case("Lst", {"map": [{"k": "a"}, {"k": "a"}]}, old={"map": [{"k": "a"}]})]
    return group("Lst", define(c, "Lst", fields), specs, extra=more)


def embedded(c):
    free = c.obj(**{X + "embedded-resource": True, X + "preserve-unknown-fields": True})
    fields = {"r": free, "list": c.arr(free), "strict": c.obj({"spec": c.obj({"a": INTEGER})}, **{X + "embedded-resource": True}), "map": c.obj(additionalProperties=free)}
    full = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}
    specs = [{"r": full}, {"r": {}}, {"r": {"kind": "Pod"}}, {"r": {**full, "kind": ""}}, {"r": {**full, "kind": "a b"}}, {"r": {**full, "apiVersion": "a/b/c"}}, {"r": {**full, "apiVersion": ""}}, {"r": {**full, "kind": 5}},
             {"r": {**full, "metadata": {"name": "a/b"}}}, {"r": {**full, "metadata": {"name": "..", "namespace": "A"}}}, {"r": {**full, "metadata": {"labels": {"a": "-"}}}}, {"r": {**full, "metadata": {"labels": 5}}},
             {"r": {**full, "metadata": {"labels": {"a": 5}}}}, {"r": {**full, "metadata": {"unknown": 1}}}, {"r": {**full, "metadata": "x"}}, {"r": {**full, "spec": {"free": 1}}}, {"list": [full, {"kind": "A"}]}, {"map": {"k": {"apiVersion": "v1"}}},
             {"strict": {**full, "spec": {"a": 1, "b": 2}, "other": 1}}, {"strict": {**full, "metadata": {"generateName": "x-", "finalizers": ["a"], "creationTimestamp": None}}}, {"r": {**full, "metadata": {"creationTimestamp": "x"}}},
             {"r": {**full, "metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "", "uid": ""}]}}}, {"r": {**full, "metadata": None}}, {"r": {**full, "metadata": {"generation": "1"}}}]
    return group("Emb", define(c, "Emb", fields), specs)


def metadata(c):
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u"}
    metas = [{"labels": {"a": "b"}}, {"labels": {"a b": "c"}}, {"labels": {"a": "b c"}}, {"labels": {"/a": "", "b/": "x" * 64}}, {"labels": {"a": 5}}, {"labels": "x"}, {"annotations": {"A/b": "anything at all"}}, {"annotations": {"a b": ""}},
             {"finalizers": ["a.b/c"]}, {"finalizers": ["plain"]}, {"finalizers": ["with.dot"]}, {"finalizers": ["a b"]}, {"finalizers": ["orphan", "foregroundDeletion"]}, {"finalizers": "x"},
             {"ownerReferences": [owner]}, {"ownerReferences": [{**owner, "uid": "", "name": ""}]}, {"ownerReferences": [{**owner, "controller": True}, {**owner, "name": "b", "controller": True}]}, {"ownerReferences": [{**owner, "kind": "Event"}]},
             {"generateName": "B_"}, {"creationTimestamp": "yesterday"}, {"deletionGracePeriodSeconds": "x"}, {"name": "Bad_Name"}, {"name": "a" * 254}, {"generation": 5}]
    fresh = [case("Met", {}, metadata=m) for m in metas]
    changes = [case("Met", {}, old={}, resourceVersion=""), case("Met", {"a": "b"}, old={"a": "c"}, metadata={"labels": {"-": ""}}), case("Met", {"a": "b"}, old={}), case("Met", {}, old={}, metadata={"finalizers": ["bad one"]}),
               case("Met", {}, old={}, metadata={"finalizers": ["new"]})]
    return group("Met", define(c, "Met", {"a": STRING}), [], extra=fresh + changes)


def combined(c):
    ab = {"a": STRING, "b": INTEGER, "c": STRING}
    fields = {"any": c.obj(ab, anyOf=[{"required": ["a"]}, {"required": ["b"], "properties": {"b": {"minimum": 5}}}]), "one": c.obj(ab, oneOf=[{"required": ["a"]}, {"required": ["b"]}]),
              "all": c.obj(ab, allOf=[{"required": ["a"]}, {"properties": {"b": {"maximum": 5}}}]), "not": c.obj(ab, **{"not": {"required": ["a", "b"]}}), "s": {**STRING, "anyOf": [{"minLength": 5}, {"pattern": "^x"}]},
              "i": {**INTEGER, "oneOf": [{"minimum": 5}, {"multipleOf": 2}]}, "n": {**STRING, "not": {"enum": ["x"]}}, "ios": {X + "int-or-string": True, "anyOf": [INTEGER, STRING]}, "nested": {**INTEGER, "allOf": [{"anyOf": [{"minimum": 5}, {"maximum": 1}]}]},
              "fmt": {**STRING, "oneOf": [{"format": "ipv4"}, {"format": "ipv6"}]}, "items": c.arr(STRING, anyOf=[{"items": {"minLength": 2}}, {"maxItems": 1}])}
    specs = [{"any": {}}, {"any": {"a": "x"}}, {"any": {"b": 1}}, {"any": {"b": 9}}, {"one": {}}, {"one": {"a": "x"}}, {"one": {"a": "x", "b": 1}}, {"all": {}}, {"all": {"a": "x", "b": 9}}, {"all": {"b": 9}}, {"all": {"a": "x", "b": 1}}, {"not": {"a": "x", "b": 1}}, {"not": {"a": "x"}},
             {"s": "a"}, {"s": "xa"}, {"i": 3}, {"i": 6}, {"i": 4}, {"n": "x"}, {"n": "y"}, {"ios": True}, {"ios": 1.5}, {"nested": 3}, {"nested": 7}, {"fmt": "1.2.3.4"}, {"fmt": "x"}, {"items": ["a", "b"]}, {"items": ["a"]}, {"any": 5}, {"one": "x"}]
    return group("Com", define(c, "Com", fields), specs)


def ratchet(c):
    item = lambda v: c.obj({"k": STRING, "v": v}, required=["k"])
    build = lambda strict: {"s": {**STRING, **({"maxLength": 2} if strict else {})}, "t": {**STRING, **({"enum": ["a"]} if strict else {})},
        "o": c.obj({"i": {**INTEGER, **({"maximum": 5} if strict else {})}, "j": INTEGER}, **({"required": ["q"]} if strict else {})),
        "list": c.arr({**STRING, **({"maxLength": 2} if strict else {})}), "map": c.arr(item({**INTEGER, **({"maximum": 5} if strict else {})}), **{X + "list-type": "map", X + "list-map-keys": ["k"]}),
        "set": c.arr(STRING, **({X + "list-type": "set"} if strict else {X + "list-type": "atomic"})), "dict": c.obj(additionalProperties={**INTEGER, **({"maximum": 5} if strict else {})}),
        "any": {**INTEGER, **({"anyOf": [{"maximum": 5}]} if strict else {})}, "in": c.obj({"x": c.obj({"y": {**INTEGER, **({"maximum": 5} if strict else {})}})}, **({"allOf": [{"properties": {"x": {"properties": {"y": {"maximum": 4}}}}}]} if strict else {}))}
    change = lambda old, new: case("Rat", new, old=old)
    bad = {"s": "abc", "t": "b", "o": {"i": 9}, "list": ["abc", "x"], "map": [{"k": "a", "v": 9}, {"k": "b", "v": 1}], "set": ["a", "a"], "dict": {"a": 9}, "any": 9}
    deep = copy.deepcopy
    specs = [change(bad, bad), change(bad, {**bad, "s": "abcd"}), change(bad, {**bad, "t": "c"}), change(bad, {**bad, "o": {"i": 9, "j": 1}}), change(bad, {**bad, "o": {"i": 8}}), change(bad, {**bad, "list": ["abc", "y"]}),
             change(bad, {**bad, "map": [{"k": "b", "v": 2}, {"k": "a", "v": 9}]}), change(bad, {**bad, "map": [{"k": "a", "v": 8}]}), change(bad, {**bad, "map": bad["map"] + [{"k": "c", "v": 7}]}), change(bad, {**bad, "set": ["a", "a", "a"]}),
             change(bad, {**bad, "dict": {"a": 9, "b": 1}}), change(bad, {**bad, "dict": {"a": 9, "b": 7}}), change(bad, {**bad, "any": 8}), change({}, {"s": "abc"}), change({"s": "abc"}, {}), change({"set": ["a"]}, {"set": ["a", "a"]}), change({"in": {"x": {"y": 9}}}, {"in": {"x": {"y": 9}}, "s": "a"}), change({"in": {"x": {"y": 9}}}, {"in": {"x": {"y": 8}}})]
    return group("Rat", define(c, "Rat", build(True)), specs, lax=define(c, "Rat", build(False)))


def status(c):
    crd = define(c, "Sta", {"a": STRING}, status=c.obj({"n": {**INTEGER, "maximum": 5}, "l": c.arr(STRING, **{X + "list-type": "set"}), "d": {**STRING, "default": "x"}}, required=["n"]), version={"subresources": {"status": {}}})
    make = lambda st, **more: case("Sta", {"a": "x"}, old={"a": "x"}, status=True, top={"status": st}, **more)
    cases = [case("Sta", {"a": "x"}, top={"status": {"n": 9}}), make({"n": 1}), make({"n": 9}), make({}), make({"n": "x"}), make({"n": 1, "l": ["a", "a"]}), make({"n": 1, "u": 1}), make("x"), make(None),
             case("Sta", {"a": "y"}, old={"a": "x"}, status=True, top={"status": {"n": 2}}, metadata={"labels": {"l": "m"}}), case("Sta", {"a": "y"}, old={"a": "x"}, oldStatus={"n": 3}, top={"status": {"n": 4}}), case("Sta", {"a": "x"}, old={"a": "x"}, oldStatus={"n": 3}, status=True)]
    return group("Sta", crd, [], extra=cases)


def scale(c):
    places = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n", "labelSelectorPath": ".status.s"}
    crd = define(c, "Sca", {"n": {X + "preserve-unknown-fields": True}}, status=c.obj(**{X + "preserve-unknown-fields": True}), version={"subresources": {"scale": places}})
    specs = [{"n": 3}, {"n": -1}, {"n": 2147483648}, {"n": "x"}, {"n": 1.5}, {}]
    return group("Sca", crd, specs, extra=[case("Sca", {"n": 1}, top={"status": s}) for s in ({"n": 1, "s": "a=b"}, {"n": -1}, {"n": 1, "s": 5}, {"n": {}})])


def cluster(c):
    crd = define(c, "Clu", {"a": STRING}, scope="Cluster")
    return group("Clu", crd, [{"a": "x"}, {"a": 5}], extra=[case("Clu", {}, metadata={"namespace": "default"})])


def cel(c):
    r = c.rules
    fields = {**c.RULE_FIELDS, "q": STRING, "u": STRING, "opt": STRING, "big": c.arr({**STRING, "maxLength": 10}, maxItems=10)}
    rules = r(c.rule("!has(self.i) || self.i > 0", message="i must be positive"), c.rule("!has(self.s) || self.s != 'bad'", reason="FieldValueForbidden", fieldPath=".s"),
        c.rule("!has(self.l) || self.l.all(x, x.startsWith('a'))", messageExpression="'found ' + self.l[0]"), c.rule("!has(self.m) || self.m.all(k, self.m[k] < 5)", reason="FieldValueDuplicate", fieldPath=".m"),
        c.rule("!has(self.o) || self.o.x == 1", reason="FieldValueRequired", message="x must be 1", fieldPath=".o.x"), "!has(self.t) || self.t > timestamp('2020-01-01T00:00:00Z')", "!has(self.d) || self.d < duration('1h')",
        "!has(self.ios) || (type(self.ios) == int ? self.ios < 5 : self.ios.endsWith('%'))", "!has(self.by) || self.by == b'abc'", "!has(self.q) || quantity(self.q).isLessThan(quantity('1Gi'))", "!has(self.u) || (isURL(self.u) && url(self.u).getScheme() == 'https')",
        "!has(self.objs) || self.objs.exists_one(o, o.k == 'a' && o.?v.orValue(7) == 7)", "!has(self.n) || self.n > 1", "!has(self.a__dash__b) || self.a__dash__b.size() < 3", "self.?opt.orValue('ok') == 'ok'", "!has(self.big) || self.big[1] != 'x'",
        "!has(self.big) || self.big.map(x, int(x)).sum() < 10")
    specs = [{}, {"i": 1}, {"i": 0}, {"s": "bad"}, {"l": ["a", "ab"]}, {"l": ["b"]}, {"m": {"a": 1}}, {"m": {"a": 9}}, {"o": {"x": 2}}, {"o": {}}, {"t": "2019-01-01T00:00:00Z"}, {"t": "2021-01-01T00:00:00Z"}, {"d": "2h"}, {"d": "30m"}, {"ios": 7}, {"ios": 3}, {"ios": "5%"}, {"ios": "x"}, {"by": "YWJj"}, {"by": "YQ=="},
             {"q": "2Gi"}, {"q": "5Mi"}, {"q": "x"}, {"u": "https://a"}, {"u": "http://a"}, {"u": ":"}, {"objs": [{"k": "a"}]}, {"objs": [{"k": "a", "v": 1}]}, {"objs": [{"k": "b"}]}, {"n": 0.5}, {"n": 2}, {"a-b": "abc"}, {"opt": "no"}, {"big": ["1"]}, {"big": ["1", "x"]}, {"big": ["1", "2"]}, {"big": ["5", "6"]}, {"i": 0, "s": "bad"}, {"i": "x"}, {"m": {"a": "x"}, "i": 0}]
    nested = {"inner": c.obj({"v": {**INTEGER, **r("self > 2")}}, **r("self.v < 9")), "items": c.arr({**STRING, "maxLength": 9, **r(c.rule("self != 'x'", messageExpression="'not ' + self"))}, maxItems=9), "vals": c.obj(additionalProperties={**INTEGER, **r("self % 2 == 0")}, maxProperties=9),
              "emb": c.obj(**{X + "embedded-resource": True, X + "preserve-unknown-fields": True, **r("self.kind == 'Pod' && self.metadata.name != 'x'")})}
    more = [{"inner": {"v": 1}}, {"inner": {"v": 10}}, {"inner": {"v": 5}}, {"inner": {}}, {"items": ["x", "y"]}, {"vals": {"a": 1}}, {"vals": {"a": 2}}, {"emb": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}}, {"emb": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "y"}}}]
    return group("Cel", define(c, "Cel", {**fields, **nested}, spec=rules), specs + more)


def cel_update(c):
    r = c.rules
    item = c.obj({"k": STRING, "v": {**INTEGER, **r("self >= oldSelf")}}, required=["k"])
    fields = {"i": {**INTEGER, **r(c.rule("self >= oldSelf", message="i must not fall"))}, "s": {**STRING, **r("self == oldSelf")}, "map": c.arr(item, maxItems=9, **{X + "list-type": "map", X + "list-map-keys": ["k"]}),
              "dict": c.obj(additionalProperties={**INTEGER, **r("self != oldSelf")}, maxProperties=9), "opt": {**INTEGER, **r(c.rule("oldSelf.hasValue() ? self > oldSelf.value() : self == 0", optionalOldSelf=True))}, "once": STRING}
    rules = r(c.rule("!has(oldSelf.once) || has(self.once)", message="once is required once set"), c.rule("oldSelf.orValue({}).size() == 0" if False else "true"))
    change = lambda old, new: case("Tra", new, old=old)
    specs = [case("Tra", {"i": 1, "s": "a"}), case("Tra", {"opt": 1}), case("Tra", {"opt": 0}), change({"i": 1}, {"i": 2}), change({"i": 2}, {"i": 1}), change({}, {"i": 1}), change({"s": "a"}, {"s": "b"}), change({"s": "a"}, {}), change({"map": [{"k": "a", "v": 5}]}, {"map": [{"k": "b", "v": 1}, {"k": "a", "v": 4}]}),
             change({"map": [{"k": "a", "v": 5}]}, {"map": [{"k": "b", "v": 1}]}), change({"dict": {"a": 1}}, {"dict": {"a": 1}}), change({"dict": {"a": 1}}, {"dict": {"a": 2, "b": 1}}), change({"opt": 0}, {"opt": 1}), change({"opt": 0}, {"opt": 0}), change({"once": "x"}, {}), change({"once": "x"}, {"once": "y"})]
    return group("Tra", define(c, "Tra", fields, spec=rules), specs)


def cel_ratchet(c):
    build = lambda strict: {"i": {**INTEGER, **(c.rules("self < 5") if strict else {})}, "j": INTEGER, "o": c.obj({"x": INTEGER, "y": INTEGER}, **(c.rules("self.x < 5") if strict else {})), "l": c.arr(c.obj({"v": INTEGER}, **(c.rules("self.v < 5") if strict else {})), maxItems=9),
        "e": {**STRING, **(c.rules(c.rule("self == 'a'", message="must be a")) if strict else {})}}
    change = lambda old, new: case("Cra", new, old=old)
    specs = [change({"i": 9}, {"i": 9, "j": 1}), change({"i": 9}, {"i": 8}), change({"o": {"x": 9}}, {"o": {"x": 9}, "j": 1}), change({"o": {"x": 9}}, {"o": {"x": 9, "y": 1}}), change({"l": [{"v": 9}]}, {"l": [{"v": 9}], "j": 1}), change({"l": [{"v": 9}]}, {"l": [{"v": 9}, {"v": 1}]}), change({"e": "b"}, {"e": "b", "j": 2})]
    return group("Cra", define(c, "Cra", build(True)), specs, lax=define(c, "Cra", build(False)))


def root(c):
    crd = define(c, "Roo", {"name": STRING}, root=c.rules(c.rule("self.metadata.name == self.spec.name", message="names must agree"), "self.kind == 'Roo' && self.apiVersion == 'example.com/v1'", c.rule("self.metadata.name.size() < 7", fieldPath=".spec.name", reason="FieldValueForbidden")))
    out = []
    for name, spec in (("a", "a"), ("b", "c"), ("longname", "longname"), ("x", None)):
        one = case("Roo", {"name": spec} if spec else {})
        one["new"]["metadata"]["name"] = name
        out.append(one)
    return group("Roo", crd, [], extra=out)
