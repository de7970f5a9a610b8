#!/usr/bin/env python3
"""Generates apiserver/data from a real API server: kinds-data.py KUBECONFIG (as deploy/controlplane writes it).

kinds.zst    discovery, the columns of tables and the Go types, one JSON document
schemas.zst  all OpenAPI v3 schemas by name; it is also the dictionary of the documents
openapi.bin  a line of JSON (name, URL and length of each document), then each document's zstd frame
"""

import base64
import json
import pathlib
import re
import ssl
import subprocess
import sys
import tempfile
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "apiserver/data"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class Server:
    def __init__(self, kubeconfig):
        text = pathlib.Path(kubeconfig).read_text()
        self.url = re.search(r"server: (\S+)", text)[1]
        self.token = re.search(r"token: (\S+)", text)[1]
        authority = re.search(r"certificate-authority-data: (\S+)", text)[1]
        self.tls = ssl.create_default_context(cadata=base64.b64decode(authority).decode())

    def get(self, path, accept="application/json"):
        request = urllib.request.Request(self.url + path)
        request.add_header("Authorization", "Bearer " + self.token)
        request.add_header("Accept", accept)
        with urllib.request.urlopen(request, context=self.tls) as response:
            return response.read()


def compress(data, dictionary=None):
    command = ["zstd", "--ultra", "-22", "-q", "-c"]
    with tempfile.NamedTemporaryFile() as file:
        if dictionary is not None:
            file.write(dictionary)
            file.flush()
            command += ["-D", file.name]
        return subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout


def write_openapi(server):
    index = json.loads(server.get("/openapi/v3"))["paths"]
    documents = {name: server.get(entry["serverRelativeURL"]) for name, entry in index.items()}
    schemas = {}
    for text in documents.values():
        schemas |= json.loads(text).get("components", {}).get("schemas", {})
    dictionary = json.dumps(schemas, separators=(",", ":"), sort_keys=True).encode()
    (DATA / "schemas.zst").write_bytes(compress(dictionary))
    frames = [compress(text, dictionary) for text in documents.values()]
    header = [[name, index[name]["serverRelativeURL"], len(frame)] for name, frame in zip(documents, frames)]
    line = json.dumps(header, separators=(",", ":")).encode() + b"\n"
    (DATA / "openapi.bin").write_bytes(line + b"".join(frames))


def columns(server, discovery):
    """Returns the columnDefinitions of each resource that can be listed."""
    tables = {}
    for group in discovery:
        for version in group["versions"]:
            name = "/".join(filter(None, [group["metadata"].get("name"), version["version"]]))
            prefix = "/api/" if name == "v1" else "/apis/"
            for resource in version["resources"]:
                if "list" in resource["verbs"]:
                    path = f"{prefix}{name}/{resource['resource']}?limit=1"
                    tables[f"{name} {resource['resource']}"] = json.loads(server.get(path, TABLE))["columnDefinitions"]
    return tables


def write_kinds(server):
    discovery = {name: server.get("/" + name, DISCOVERY) for name in ("api", "apis")}
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, text in discovery.items():
            files.append(pathlib.Path(folder) / name)
            files[-1].write_bytes(text)
        command = ["go", "run", ".", *map(str, files)]
        types = subprocess.run(command, cwd=ROOT / "scripts/kinds-data", stdout=subprocess.PIPE, check=True).stdout
    discovery = {name: json.loads(text)["items"] for name, text in discovery.items()}
    document = {
        **discovery,
        "columns": columns(server, discovery["api"] + discovery["apis"]),
        "types": types.decode(),
    }
    (DATA / "kinds.zst").write_bytes(compress(json.dumps(document, separators=(",", ":")).encode()))


def main():
    server = Server(sys.argv[1])
    DATA.mkdir(exist_ok=True)
    write_openapi(server)
    write_kinds(server)


if __name__ == "__main__":
    main()
