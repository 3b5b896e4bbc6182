"""First program of a job that starts a keeper: the server gives it the keeper, its token and its settings.

The server sends this file's text in the job's command, so it uses nothing else of this package. The command
also has a ticket, which everybody sees who may see the command. The first program that shows the ticket gets
the token; the server refuses all later ones. If the same program repeats its call, it gets the same answer.

The argument is base64 of JSON: ``{"urls": [str], "fingerprint": str, "authorities": str | null, "ticket":
str}`` (see ``manager.json`` in ``trial_keeper.wire``). The server answers with JSON::

    {"manager": {...},            content of manager.json
     "program": base64,           zip file of the keeper
     "arguments": [str],          what it does: its arguments before the folders of manager.json and of work
     "folder": str | null,        where to create the folder of work; null: where temporary files are
     "unset": [str],              beginnings of the names of variables that the keeper does not get
     "keep": [str],               variables that it gets all the same
     "copied": {name: other},     variables that get the value of another one, if that one is set
     "environment": {str: str}}   further variables

To ``NNIMGR_POD_UID`` the program adds "=" and the address from which it calls, at which members of gangs
reach this host.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import itertools
import json
import os
import ssl
import sys
import tempfile
import time
import uuid
from urllib.parse import urlsplit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn
    from urllib.parse import SplitResult

LEAST = (3, 8)
LIMIT_S = 300.0  # the server may be restarted meanwhile
UNKNOWN_S = 60.0  # a server that does not know the ticket for so long will not know it later
PAUSES_S = (0.2, 5.0)  # first and longest pause before another call
CALL_S = 30.0
FAILED = 1  # exit status: no keeper was started
REFUSED = 97  # exit status: another program has shown the ticket first
MARK = "nnimgr: "  # before each sentence in the job's output


class Again(Exception):
    """Error that may be over soon, within ``limit`` seconds. The message is one sentence."""

    limit = LIMIT_S


def say(sentence: str) -> None:
    sys.stdout.write(MARK + sentence + "\n")
    sys.stdout.flush()


def fail(sentence: str, status: int = FAILED) -> NoReturn:
    say(sentence)
    sys.exit(status)


def connect(url: SplitResult, order: dict[str, Any]) -> http.client.HTTPSConnection:
    """Connect to the server at ``url``, whose certificate must be the expected one. Raises OSError."""
    unchecked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unchecked.check_hostname = False
    unchecked.verify_mode = ssl.CERT_NONE
    connection = http.client.HTTPSConnection(str(url.hostname), url.port, timeout=CALL_S, context=unchecked)
    connection.connect()
    certificate = connection.sock.getpeercert(binary_form=True) or b""
    if hashlib.sha256(certificate).hexdigest() == order["fingerprint"].lower():
        return connection
    connection.close()
    if order["authorities"] is None:
        raise OSError("its certificate is not that of the server")
    trusted = ssl.create_default_context(cadata=order["authorities"] or None)
    connection = http.client.HTTPSConnection(str(url.hostname), url.port, timeout=CALL_S, context=trusted)
    connection.connect()
    return connection


def call(address: str, order: dict[str, Any], launch: str) -> dict[str, Any]:
    """Return the server's answer, with the ``address`` from which it was called.

    Raises Again. Exits if the server refuses this program for good.
    """
    url = urlsplit(address)
    try:
        connection = connect(url, order)
        try:
            headers = {"Authorization": "Bearer " + order["ticket"], "Content-Type": "application/json"}
            address = connection.sock.getsockname()[0]
            connection.request("POST", url.path, json.dumps({"launch": launch}), headers)
            answer = connection.getresponse()
            body = json.loads(answer.read())
        finally:
            connection.close()
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        sentence = f"the server at {url.netloc} cannot be reached from {os.uname().nodename}: {why}"
        raise Again(sentence) from error
    if answer.status == 409:
        fail(body["error"], REFUSED)
    if answer.status != 200:
        again = Again(f"the server at {url.netloc} answers: {body.get('error')}")
        again.limit = UNKNOWN_S if answer.status == 401 else LIMIT_S
        raise again
    return dict(body, address=address)


def enrol(order: dict[str, Any]) -> dict[str, Any]:
    """Call the server until it answers. Exits if it does not."""
    launch, began, told = uuid.uuid4().hex, time.monotonic(), set()
    pause, longest = PAUSES_S
    for address in itertools.cycle(order["urls"]):
        try:
            return call(address, order, launch)
        except Again as error:
            sentence, limit = str(error), error.limit
        if sentence not in told:
            told.add(sentence)
            say(sentence)
        if time.monotonic() > began + limit:
            break
        time.sleep(pause)
        pause = min(2 * pause, longest)
    fail(f"no keeper was started within {limit:g} s: {sentence}")


def prepare(answer: dict[str, Any]) -> str:
    """Write the keeper and its ``manager.json`` to a new folder, and return its path. Raises OSError."""
    os.umask(0o077)
    work = tempfile.mkdtemp(prefix="nnimgr-", dir=answer["folder"])
    os.mkdir(work + "/manager")
    with open(work + "/manager/manager.json", "w") as file:
        json.dump(answer["manager"], file)
    with open(work + "/keeper.pyz", "wb") as program:
        program.write(base64.b64decode(answer["program"]))
    return work


def environment(answer: dict[str, Any], work: str) -> dict[str, str]:
    """Return the keeper's environment variables, which its trials inherit."""
    dropped = tuple(answer["unset"])
    found = {
        name: value
        for name, value in os.environ.items()
        if name in answer["keep"] or not name.startswith(dropped)
    }
    found.update(answer["environment"], NNIMGR_POD_CLEAN=work)
    found["NNIMGR_POD_UID"] += "=" + answer["address"]
    for name, other in answer["copied"].items():
        if other in os.environ:
            found[name] = os.environ[other]
    return found


def main() -> NoReturn:
    if sys.version_info < LEAST:
        fail(f"a keeper needs Python 3.8 or newer; {sys.executable} is {sys.version.split()[0]}")
    answer = enrol(json.loads(base64.b64decode(sys.argv[1])))
    try:
        work = prepare(answer)
    except OSError as error:
        fail(f"{error.filename or 'the folder of work'} cannot be written: {error.strerror}")
    words = [*answer["arguments"], work + "/manager", work + "/run"]
    command = [sys.executable, "-S", "-E", work + "/keeper.pyz", *words]
    os.execve(sys.executable, command, environment(answer, work))


if __name__ == "__main__":
    main()
