#!/usr/bin/env python3
"""Records the definitions in the OpenAPI document of version 2 of a real API server: record.py KUBECTL KUBECONFIG.

definitions.zst has the definitions of the built-in kinds and of those in definitions.yaml, and for each of them the SHA-256 of
its protobuf encoding, in which values are YAML: with one kind of quotes, as writers of YAML choose different ones. Its dictionary is that of ../../../data. The group versions of the kinds that all groups have are left out.
"""

import hashlib
import json
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[4] / "scripts"))
kinds_data = __import__("kinds-data")
PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
DEFINITIONS = 9
ALL_GROUPS = ["io.k8s.apimachinery.pkg.apis.meta.v1." + kind for kind in ("DeleteOptions", "WatchEvent")]


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """Yields the fields of a message whose values have lengths."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        length, at = varint(data, at)
        yield tag >> 3, data[at : at + length]
        at += length


def main():
    kubectl, kubeconfig = sys.argv[1:]
    command = [kubectl, "--kubeconfig", kubeconfig, "apply", "-f", str(HERE / "definitions.yaml")]
    subprocess.run(command, check=True)
    time.sleep(5)
    server = kinds_data.Server(kubeconfig)
    definitions = json.loads(server.get("/openapi/v2"))["definitions"]
    entries = [v for n, v in fields(server.get("/openapi/v2", PROTOBUF)) if n == DEFINITIONS]
    hashes = {}
    for _, entry in fields(entries[0]):
        parts = dict(fields(entry))
        hashes[parts[1].decode()] = hashlib.sha256(parts[2].replace(b'"', b"'")).hexdigest()
    for name in ALL_GROUPS:
        del definitions[name]["x-kubernetes-group-version-kind"], hashes[name]
    dictionary = subprocess.run(["zstd", "-dcq", kinds_data.DATA / "schemas.zst"], stdout=subprocess.PIPE, check=True).stdout
    text = json.dumps({"definitions": definitions, "protobuf": hashes}, separators=(",", ":"), sort_keys=True)
    (HERE / "definitions.zst").write_bytes(kinds_data.compress(text.encode(), dictionary))


if __name__ == "__main__":
    main()
