#!/usr/bin/env python3
"""Collects the CustomResourceDefinitions and samples of well-known projects as JSON, from their Go modules.

Usage: upstream.py FOLDER. Then: UPSTREAM_CRDS=FOLDER cargo test -p operetta-apiserver --test crd -- --ignored
"""
import glob, json, os, subprocess, sys
import yaml

MODULES = ["github.com/cert-manager/cert-manager@v1.21.2", "sigs.k8s.io/cluster-api@v1.14.2", "sigs.k8s.io/gateway-api@v1.4.0",
           "github.com/argoproj/argo-rollouts@v1.8.3", "github.com/argoproj/argo-workflows/v3@v3.7.2", "github.com/argoproj/argo-cd/v3@v3.1.0"]

folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
definitions, samples = {}, {}
for module in MODULES:
    found = subprocess.run(["go", "mod", "download", "-json", module], capture_output=True, text=True, cwd="/")
    root = json.loads(found.stdout)["Dir"]
    for path in sorted(glob.glob(root + "/**/*.yaml", recursive=True)):
        if "/vendor/" in path:
            continue
        try:
            documents = list(yaml.load_all(open(path), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
        except (yaml.YAMLError, UnicodeDecodeError):
            continue
        for document in documents:
            if not isinstance(document, dict) or not isinstance(document.get("metadata"), dict):
                continue
            try:
                text = json.dumps(document)
            except TypeError:
                text = json.dumps(document, default=str)
            if document.get("kind") == "CustomResourceDefinition" and "spec" in document:
                name = document["metadata"].get("name")
                if name and len(text) > len(definitions.get(name, "")):
                    definitions[name] = text
            elif "apiVersion" in document and isinstance(document.get("apiVersion"), str) and "/" in document["apiVersion"]:
                samples.setdefault((document["apiVersion"], document.get("kind")), set()).add(text)
for name, text in definitions.items():
    open(os.path.join(folder, name + ".json"), "w").write(text)
kinds = set()
for text in definitions.values():
    spec = json.loads(text)["spec"]
    kinds |= {(f"{spec['group']}/{v['name']}", spec["names"]["kind"]) for v in spec["versions"]}
chosen = [json.loads(t) for key in sorted(k for k in samples if k in kinds) for t in sorted(samples[key])[:12]]
json.dump(chosen, open(os.path.join(folder, "samples.list"), "w"))
print(len(definitions), "definitions,", len(chosen), "samples")


def record():
    """With KUBECONFIG: asks a real API server for its answers to the samples, good and spoilt."""
    import copy, record as r
    by_kind, out = {}, []
    for name, text in sorted(definitions.items()):
        crd = json.loads(text)
        crd.pop("status", None)
        for field in ("creationTimestamp", "resourceVersion", "uid"):
            crd["metadata"].pop(field, None)
        crd["spec"].pop("conversion", None)
        answer = r.repeated("POST", r.CRDS + "?dryRun=All", crd, times=1)
        out.append({"definition": name, "code": answer["code"], "causes": answer.get("causes", [])})
        if answer["code"] != 200:
            print(name, answer)
            continue
        r.call("POST", r.CRDS, crd)
        for version in crd["spec"]["versions"]:
            by_kind[f"{crd['spec']['group']}/{version['name']}", crd["spec"]["names"]["kind"]] = crd
    r.time.sleep(3)
    for sample in chosen:
        crd = by_kind.get((sample["apiVersion"], sample["kind"]))
        version = sample["apiVersion"].split("/")[1]
        if not crd or not next(v for v in crd["spec"]["versions"] if v["name"] == version)["served"]:
            continue
        namespaced = crd["spec"]["scope"] == "Namespaced"
        sample["metadata"] = {"name": "sample", **({"namespace": "default"} if namespaced else {})}
        path = f"/apis/{sample['apiVersion']}/" + ("namespaces/default/" if namespaced else "") + crd["spec"]["names"]["plural"]
        bodies = [sample]
        for key, value in (sample.get("spec") or {}).items() if isinstance(sample.get("spec"), dict) else []:
            spoilt = copy.deepcopy(sample)
            spoilt["spec"][key] = "spoilt" if not isinstance(value, str) else {"spoilt": 1}
            bodies.append(spoilt)
        for body in bodies:
            answer = r.repeated("POST", f"{path}?dryRun=All&fieldValidation=Strict", body, times=2)
            if answer:
                out.append({"crd": crd["metadata"]["name"], "new": body, **answer})
    for crd in {c["metadata"]["name"]: c for c in by_kind.values()}.values():
        r.call("DELETE", r.CRDS + "/" + crd["metadata"]["name"])
    json.dump(out, open(os.path.join(folder, "answers.list"), "w"))
    print(len(out), "answers,", sum(a["code"] >= 400 for a in out), "refusals")


if os.environ.get("KUBECONFIG"):
    record()
