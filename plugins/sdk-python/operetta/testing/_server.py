"""The connection of a test cluster to the test server of `operetta test`.

A request and its response are one line of JSON each. A connection is one cluster: it is empty at first, and ends with
the connection.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import threading
import weakref
from typing import Any, Mapping, Optional

from .._json import encode
from ..errors import ApiError, Cause, Status

ADDRESS = "OPERETTA_TEST_ADDRESS"
"""The variable that `operetta test` sets for the tests that it runs: `TOKEN@127.0.0.1:PORT`."""
PROGRAM = "OPERETTA"
"""The variable with the program that serves the tests if ADDRESS is not set; by default `operetta`."""
_MISSING = f"run the tests with `operetta test`, or put `operetta` on PATH, or set {PROGRAM} to the program"
_ERRORS = {error.variant: error for error in ApiError.__subclasses__()}


class ServerFault(BaseException):
    """A fault of the test server, or of its use, as a missing program.

    It is no `Exception`: a reconciler cannot handle it, as it cannot handle a trap of the host. The test fails.
    """


class Connection:
    """A connection to the test server: one cluster."""

    def __init__(self) -> None:
        """Opens a new cluster. The first one of the process starts the server, unless `operetta test` runs it.

        Raises:
            ServerFault: The server cannot be started or reached.
        """
        token, _, address = _address().partition("@")
        host, _, port = address.rpartition(":")
        try:
            sock = socket.create_connection((host, int(port)))
        except (OSError, ValueError) as error:
            raise ServerFault(f"no connection to the test server at {address!r}: {error}; {_MISSING}") from None
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = sock.makefile("rwb")
        self._lock = threading.Lock()
        self._warnings: list[str] = []
        self._finalizer = weakref.finalize(self, _close, sock, self._stream)
        self.call("open", {"token": token})

    def call(self, name: str, arguments: Mapping[str, Any], **texts: str) -> Any:
        """Sends a request and returns the value of its response.

        Args:
            name: The call's name.
            arguments: The arguments; those that are None are not sent.
            texts: Further arguments, as JSON texts.

        Raises:
            ApiError: The call failed.
            ServerFault: The server refused the request, or has ended.
        """
        given = {key: value for key, value in arguments.items() if value is not None}
        head = encode({"call": name, **given}, f"the call {name!r}")
        line = head[:-1] + "".join(f',"{key}":{text}' for key, text in texts.items()) + "}\n"
        with self._lock:
            answer = self._exchange(line.encode())
        if not answer:
            raise ServerFault(f"the test server closed the connection in the call {name!r}; its error output says why")
        if name != "dump":
            _mark_used(self)
        response = json.loads(answer)
        self._warnings += response.get("warnings", ())
        if "error" in response:
            raise _error(response["error"])
        if "failure" in response:
            raise ServerFault(response["failure"])
        return response["ok"]

    def take_warnings(self) -> list[str]:
        """Takes the API server's warnings about the calls since the last time."""
        taken, self._warnings = self._warnings, []
        return taken

    def _exchange(self, line: bytes) -> bytes:
        """Sends a line and returns the next; empty if the connection has ended."""
        try:
            self._stream.write(line)
            self._stream.flush()
            return self._stream.readline()
        except OSError:
            return b""


_used: dict[Connection, None] = {}
"""The clusters that the test has used, in the order of their last calls."""
_MAX_USED = 10
"""The largest number of clusters that a failed test shows, and that are kept for it."""


def _mark_used(connection: Connection) -> None:
    _used.pop(connection, None)
    _used[connection] = None
    if len(_used) > _MAX_USED:
        del _used[next(iter(_used))]


def forget_used() -> None:
    """Begins a test: `dumps` then has the clusters that are used from now on."""
    _used.clear()


def dumps() -> list[str]:
    """Returns the objects and the calls of each cluster that the test has used."""
    found = []
    for connection in list(_used):
        try:
            found.append(str(connection.call("dump", {})))
        except ServerFault as fault:
            found.append(str(fault))
    return found


_lock = threading.Lock()
_started: Optional[str] = None


def _address() -> str:
    """Returns the server's address. Starts the server if nobody did."""
    global _started
    given = os.environ.get(ADDRESS)
    if given:
        return given
    with _lock:
        if _started is None:
            _started = _start(os.environ.get(PROGRAM) or "operetta")
        return _started


def _start(program: str) -> str:
    """Starts a server, which ends with this process, and returns its address."""
    command = [program, "test", "--serve"]
    try:
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    except OSError as error:
        raise ServerFault(f"the test server {program!r} cannot be started: {error.strerror}; {_MISSING}") from None
    atexit.register(_stop, server)
    assert server.stdout is not None
    address = server.stdout.readline().strip()
    if not address:
        code = server.wait()
        raise ServerFault(f"`{' '.join(command)}` ended with exit code {code}; its error output says why")
    return address


def _stop(server: "subprocess.Popen[str]") -> None:
    # The server ends when its stdin closes.
    server.communicate()


def _close(sock: socket.socket, stream: Any) -> None:
    for closed in (stream, sock):
        try:
            closed.close()
        except OSError:
            pass


def _error(error: Mapping[str, Any]) -> ApiError:
    """Returns the exception for an error of the server."""
    status = error["status"]
    causes = tuple(Cause(cause["reason"], cause["message"], cause["field"]) for cause in status.get("causes") or ())
    made = Status(status["code"], status["reason"], status["message"], causes, status.get("retryAfterSeconds"))
    return _ERRORS[error["type"]](made)
