"""Functions that send requests to the REST API of an experiment, named as in NNI."""

from __future__ import annotations

from typing import Any

import httpx

__all__ = ["delete", "get", "post", "put", "request"]

timeout = 20


def request(method: str, port: int | None, api: str, data: Any = None, prefix: str | None = None) -> Any:
    """Send an HTTP request to the path ``api`` below ``/api/v1/nni``.

    Return the JSON of the response for GET and POST, or None if the response is empty. Raise RuntimeError if
    the port is None, and httpx.HTTPError if the server refuses or does not respond.
    """
    if port is None:
        raise RuntimeError("Experiment is not running")
    path = "/".join(part.strip("/") for part in (prefix, "api/v1/nni", api) if part)
    with httpx.Client(timeout=timeout, trust_env=False) as client:
        answer = client.request(method.upper(), f"http://localhost:{port}/{path}", json=data)
    answer.raise_for_status()
    return answer.json() if method.lower() in ("get", "post") and answer.content else None


def get(port: int | None, api: str, prefix: str | None = None) -> Any:
    """Return the JSON that the server sends for a GET of ``api``, a path below ``/api/v1/nni``."""
    return request("get", port, api, prefix=prefix)


def post(port: int | None, api: str, data: Any, prefix: str | None = None) -> Any:
    """Send JSON with POST to ``api``, a path below ``/api/v1/nni``. Return the JSON of the response."""
    return request("post", port, api, data, prefix)


def put(port: int | None, api: str, data: Any, prefix: str | None = None) -> None:
    """Send JSON with PUT to ``api``, a path below ``/api/v1/nni``."""
    request("put", port, api, data, prefix)


def delete(port: int | None, api: str, prefix: str | None = None) -> None:
    """Send a DELETE for ``api``, a path below ``/api/v1/nni``."""
    request("delete", port, api, prefix=prefix)
