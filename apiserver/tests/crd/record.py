#!/usr/bin/env python3
"""Records what a real API server says to the cases in cases.py: definitions.json and objects.json. The costs in costs.json
are those of its code: `go run ./costs <OLD >NEW` in scripts/kinds-data.

Usage: KUBECONFIG=... record.py. The server must be one that may be written to. Each request is sent several times:
where the order of causes differs, the case is marked as unordered.
"""
import copy, http.client, json, os, re, ssl, sys, time, urllib.parse
import cases

kubeconfig = open(os.environ["KUBECONFIG"]).read()
server = urllib.parse.urlparse(re.search(r"server: (\S+)", kubeconfig).group(1))
token = re.search(r"token: (\S+)", kubeconfig).group(1)
connection = None
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def call(method, path, body=None):
    global connection
    for attempt in (0, 1):
        try:
            if connection is None:
                context = ssl._create_unverified_context()
                connection = http.client.HTTPSConnection(server.hostname, server.port, context=context, timeout=60)
            headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json"}
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            response = connection.getresponse()
            text = response.read()
            warnings = [v for k, v in response.getheaders() if k.lower() == "warning"]
            parsed = json.loads(text) if text[:1] == b"{" else {"message": text.decode()}
            return response.status, parsed, [re.match(r'299 - "(.*)"$', w).group(1).replace('\\"', '"') for w in warnings]
        except (http.client.HTTPException, OSError):
            connection = None
            if attempt:
                raise


def outcome(status, body, warnings):
    """The part of an answer that is compared."""
    text = lambda t: re.sub(r"selfType\d+", "selfType", t)
    if status >= 400:
        causes = [[c["reason"], c["field"], text(c["message"])] for c in body.get("details", {}).get("causes", [])]
        return {"code": status, "causes": causes} if causes else {"code": status, "message": text(body["message"])}
    meta = {k: v for k, v in body["metadata"].items() if k in ("labels", "annotations", "finalizers", "generation")}
    rest = {k: v for k, v in body.items() if k not in ("metadata", "apiVersion", "kind")}
    out = {"code": 200, "object": {"metadata": meta, **rest}}
    if warnings:
        out["warnings"] = warnings
    return out


def repeated(method, path, body, times=4):
    outcomes = [outcome(*call(method, path, body)) for _ in range(times)]
    first = outcomes[0]
    if any(o != first for o in outcomes[1:]):
        key = lambda o: sorted(map(json.dumps, o.get("causes", [])))
        if all(key(o) == key(first) and "causes" in o for o in outcomes):
            first["causes"].sort()
            return {**first, "unordered": True}
        return None
    return first


def wait_for(check):
    for _ in range(100):
        if check():
            return
        time.sleep(0.1)
    sys.exit("timeout")


def install(crd):
    """Creates or replaces a definition, and waits until it is served."""
    name = crd["metadata"]["name"]
    status, old, _ = call("GET", f"{CRDS}/{name}")
    if status == 200:
        body = copy.deepcopy(crd)
        body["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        status, out, _ = call("PUT", f"{CRDS}/{name}", body)
    else:
        status, out, _ = call("POST", CRDS, crd)
    if status not in (200, 201):
        sys.exit(f"{name}: {out['message']}")
    group, version = crd["spec"]["group"], crd["spec"]["versions"][0]["name"]
    path = f"/apis/{group}/{version}/" + crd["spec"]["names"]["plural"]
    wait_for(lambda: call("GET", path)[0] == 200)
    time.sleep(1.0)


def remove(crd):
    name = crd["metadata"]["name"]
    call("DELETE", f"{CRDS}/{name}")
    wait_for(lambda: call("GET", f"{CRDS}/{name}")[0] == 404)


def record_definitions():
    out = []
    for name, crd in cases.creates():
        result = repeated("POST", CRDS + "?dryRun=All&fieldValidation=Strict", crd)
        if result is None:
            print("unstable", name)
            continue
        out.append({"name": name, "new": crd, **result})
    for name, old, new in cases.updates():
        install(old)
        current = call("GET", f"{CRDS}/{old['metadata']['name']}")[1]
        new = copy.deepcopy(new)
        new["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"]
        result = repeated("PUT", f"{CRDS}/{old['metadata']['name']}?dryRun=All&fieldValidation=Strict", new)
        del new["metadata"]["resourceVersion"]
        remove(old)
        out.append({"name": name, "old": old, "new": new, **result})
    return out


def path_of(crd, body):
    group, version, plural = crd["spec"]["group"], crd["spec"]["versions"][0]["name"], crd["spec"]["names"]["plural"]
    namespace = f"namespaces/{body['metadata'].get('namespace', 'default')}/" if crd["spec"]["scope"] == "Namespaced" else ""
    return f"/apis/{group}/{version}/{namespace}{plural}"


def record_group(group):
    crd, out = group["crd"], []
    lax = group.get("lax")
    install(lax or crd)
    olds = {}
    for case in group["cases"]:
        if "old" in case:
            body = copy.deepcopy(case["old"])
            body["metadata"]["name"] = case["id"]
            path = path_of(crd, body)
            status, made, _ = call("POST", path, body)
            assert status == 201, (case["id"], made)
            if "oldStatus" in case:
                made["status"] = case["oldStatus"]
                status, made, _ = call("PUT", f"{path}/{case['id']}/status", made)
                assert status == 200, (case["id"], made)
            olds[case["id"]] = (path, made)
    if lax:
        install(crd)
    for case in group["cases"]:
        mode = case.get("validation", "Strict")
        query = f"dryRun=All&fieldValidation={mode}"
        body = copy.deepcopy(case["new"])
        if "old" in case:
            path, made = olds[case["id"]]
            body["metadata"] = {**body["metadata"], "name": case["id"],
                "resourceVersion": case.get("resourceVersion", made["metadata"]["resourceVersion"])}
            sub = "/status" if case.get("status") else ""
            result = repeated("PUT", f"{path}/{case['id']}{sub}?{query}", body)
            case = {**case, "was": {k: v for k, v in made.items() if k not in ("metadata", "apiVersion", "kind")}}
        else:
            result = repeated("POST", f"{path_of(crd, body)}?{query}", body)
        if result is None:
            print("unstable", case["id"])
            continue
        out.append({**case, **result})
    remove(crd)
    return {**group, "cases": out}


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    write = lambda name, value: open(os.path.join(here, name), "w").write(
        "[\n" + ",\n".join(json.dumps(v, separators=(",", ":"), sort_keys=True) for v in value) + "\n]\n")
    only = sys.argv[1:] or ["definitions", "objects"]
    if "definitions" in only:
        call("DELETE", f"{CRDS}/foos.example.com")
        found = record_definitions()
        fields = json.dumps(cases.RULE_FIELDS)
        short = lambda v: json.loads(json.dumps(v).replace(fields, '"$rules"'))
        write("definitions.json", [{"name": "rule fields", "fields": cases.RULE_FIELDS}] + short(found))
        print(len(found), "definitions,", sum(f["code"] >= 400 for f in found), "refused")
    if "objects" in only:
        found = [record_group(group) for group in cases.groups()]
        write("objects.json", found)
        flat = [c for g in found for c in g["cases"]]
        print(len(flat), "objects,", sum(c["code"] >= 400 for c in flat), "refused")
