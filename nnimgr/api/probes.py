"""Health probes for Kubernetes and similar systems: whether the server runs, and whether it accepts requests.

Probes need no token.
"""

from __future__ import annotations

from nnimgr.api.asgi import Scope, Send, answer, refuse

__all__ = ["LIVE", "READY", "answer_probe"]

LIVE = "/healthz"
READY = "/readyz"
_METHODS = frozenset({"GET", "HEAD"})
_FRESH = ((b"cache-control", b"no-store"),)


async def answer_probe(scope: Scope, send: Send, *, leaving: bool) -> None:
    """Answer a health probe with status 200. While the server shuts down (``leaving``), answer 503 to
    ``/readyz``.

    ``/healthz`` answers 200 until the end, so that no orchestrator kills a server that is shutting down. A
    server that starts answers no probe before it has opened its experiments again.
    """
    if scope["method"] not in _METHODS:
        sentence = f"{scope['path']} does not accept {scope['method']}."
        await refuse(send, 405, sentence=sentence, headers=[(b"allow", b"GET, HEAD")])
    elif scope["path"] == READY and leaving:
        await refuse(send, 503, sentence="The server is leaving.", headers=_FRESH)
    else:
        await answer(send, 200, body=b"ok\n", content_type=b"text/plain", headers=_FRESH)
