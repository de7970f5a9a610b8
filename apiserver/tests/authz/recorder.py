"""A client of a real control plane that records answers, for the tables of the tests in this folder and its neighbour.

KUBECONFIG names the control plane, whose admin has a bearer token and is in system:masters.
"""
import base64, http.client, json, os, re, ssl, urllib.parse

text = open(os.environ["KUBECONFIG"]).read()
field = lambda name: re.search(name + r": (\S+)", text).group(1)
url = urllib.parse.urlparse(field("server"))
context = ssl.create_default_context(cadata=base64.b64decode(field("certificate-authority-data")).decode())
ADMIN = field("token")
connection = http.client.HTTPSConnection(url.hostname, url.port, context=context)


def call(method, path, body=None, token=ADMIN, headers=()):
    """Sends a request; returns the status code, the body as JSON if it is JSON, and the Warning headers."""
    connection.putrequest(method, path)
    if token:
        connection.putheader("Authorization", "Bearer " + token)
    for key, value in headers:
        connection.putheader(key, value)
    data = json.dumps(body).encode() if body is not None else b""
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(len(data)))
    connection.endheaders(data)
    response = connection.getresponse()
    raw = response.read()
    warnings = [value for key, value in response.getheaders() if key.lower() == "warning"]
    try:
        return response.status, json.loads(raw), warnings
    except ValueError:
        return response.status, None, warnings


def as_user(user, groups=()):
    """Headers by which the admin sends a request as a user."""
    return [("Impersonate-User", user)] + [("Impersonate-Group", group) for group in groups]


PLURALS = {"NetworkPolicy": "networkpolicies", "ValidatingAdmissionPolicy": "validatingadmissionpolicies"}
CLUSTER = {"Namespace", "Node", "ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy",
           "ValidatingAdmissionPolicyBinding", "PriorityClass"}


def collection(item):
    """The path of the collection of an object."""
    version, kind = item["apiVersion"], item["kind"]
    plural = PLURALS.get(kind, kind.lower() + "s")
    root = ("/api/" if "/" not in version else "/apis/") + version
    return root + ("" if kind in CLUSTER else "/namespaces/" + item["metadata"]["namespace"]) + "/" + plural


def create(item):
    """Creates an object unless a run before has; returns it as it is stored."""
    code, answer, _ = call("POST", collection(item), item)
    if code == 409:
        return call("GET", collection(item) + "/" + item["metadata"]["name"])[1]
    assert code == 201, (code, answer, item)
    return answer


CONSTANT = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}


def short(answer):
    """A failed Status without the fields that are the same in all."""
    assert all(answer.get(key) == value for key, value in CONSTANT.items()), answer
    return {key: value for key, value in answer.items() if key not in CONSTANT}


def write(name, lines):
    """Writes a list of JSON values, one a line."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)  # An absolute name stays.
    with open(path, "w") as out:
        out.write("[\n" + ",\n".join(json.dumps(line, separators=(",", ":")) for line in lines) + "\n]\n")
    print(name, len(lines))


def without_managed(item):
    """An object without the fields that only the server that stored it needs."""
    item = json.loads(json.dumps(item))
    for key in ("managedFields", "resourceVersion", "creationTimestamp", "generation"):
        item["metadata"].pop(key, None)
    item.pop("status", None)
    return item
