#!/usr/bin/env python3
"""Writes the field numbers of Kubernetes' protobuf messages for the embedded API server.

Usage: apiserver-protobuf.py K8S_IO_API K8S_IO_APIMACHINERY > apiserver/src/server/protobuf/messages.txt

The arguments are the folders of the Go modules k8s.io/api and k8s.io/apimachinery. Numbers and types come from the files
generated.proto; the names in JSON, and whether a field is embedded or left out when it is empty, from the tags in types.go.
One line is one message: its name, then NUMBER NAME FLAGS TYPE for each field, separated by semicolons. Flags: r repeated,
m map of strings, i embedded, z left out when empty.
"""
import glob
import os
import re
import sys

STABLE = re.compile(r"/v[0-9]+/generated\.proto$")
SCALARS = {"string", "bytes", "bool", "int32", "int64", "uint32", "uint64", "double", "float"}


def short(package):
    """k8s.io.api.core.v1 -> core/v1; k8s.io.apimachinery.pkg.util.intstr -> intstr."""
    parts = package.split(".")
    return "/".join(parts[-2:]) if re.fullmatch(r"v[0-9]+\w*", parts[-1]) else parts[-1]


def tags(folder):
    """Returns the JSON name and flags of each field, by the name of the struct and the field's number."""
    found = {}
    for path in glob.glob(os.path.join(folder, "*.go")):
        struct = None
        for line in open(path, encoding="utf-8"):
            start = re.match(r"type (\w+) struct \{", line)
            struct = start[1] if start else struct
            match = re.match(r"\s*(?:\w+\s+)?(\*?)[^`/]*`.*json:\"([^\"]*)\".*protobuf:\"\w+,(\d+)", line)
            if struct and match:
                pointer, json, number = match.groups()
                name, _, options = json.partition(",")
                field_type = line.split("`")[0].split()[-1]
                is_scalar = not pointer and not field_type.startswith(("[", "map"))
                flags = "i" if "inline" in options else ""
                flags += "z" if "omitempty" in options and is_scalar else ""
                found[(struct, number)] = (name, flags)
    return found


def messages(path):
    text = re.sub(r"//[^\n]*", "", open(path, encoding="utf-8").read())
    package = re.search(r"package ([\w.]+);", text)[1]
    known = tags(os.path.dirname(path))
    for name, body in re.findall(r"message (\w+) \{(.*?)\n\}", text, re.S):
        fields = []
        pattern = r"(optional|repeated)?\s*(map<string,\s*([\w.]+)>|[\w.]+)\s+(\w+)\s*=\s*(\d+)\s*;"
        for label, kind, value, proto, number in re.findall(pattern, body):
            json, flags = known.get((name, number), (proto, ""))
            kind = value or kind
            if kind not in SCALARS:
                home, _, plain = kind.lstrip(".").rpartition(".")
                kind = f"{short(home or package)}.{plain}"
                flags = flags.replace("z", "")
            flags += "r" if label == "repeated" else "m" if value else ""
            fields.append(f"{number} {json or proto} {flags or '-'} {kind}")
        yield f"{short(package)}.{name} {';'.join(fields)}"


def main():
    api, machinery = sys.argv[1:3]
    paths = [p for p in glob.glob(api + "/**/generated.proto", recursive=True) if STABLE.search(p)]
    parts = ("util/intstr", "runtime", "api/resource", "apis/meta/v1")
    paths += [f"{machinery}/pkg/{part}/generated.proto" for part in parts]
    for line in sorted(line for path in paths for line in messages(path)):
        print(line)


main()
