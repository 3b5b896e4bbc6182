"""Calls of the REST API of an experiment, under NNI's names."""

from __future__ import annotations

from typing import Any

import httpx

__all__ = ["delete", "get", "post", "put", "request"]

timeout = 20


def request(method: str, port: int | None, api: str, data: Any = None, prefix: str | None = None) -> Any:
    """Call ``api`` below ``/api/v1/nni``. Return the JSON that GET and POST answer, None if it is empty.

    Raise RuntimeError without a port, and httpx.HTTPError if the server does not answer or refuses.
    """
    if port is None:
        raise RuntimeError("Experiment is not running")
    path = "/".join(part.strip("/") for part in (prefix, "api/v1/nni", api) if part)
    with httpx.Client(timeout=timeout, trust_env=False) as client:
        answer = client.request(method.upper(), f"http://localhost:{port}/{path}", json=data)
    answer.raise_for_status()
    return answer.json() if method.lower() in ("get", "post") and answer.content else None


def get(port: int | None, api: str, prefix: str | None = None) -> Any:
    """Return the JSON at ``api``."""
    return request("get", port, api, prefix=prefix)


def post(port: int | None, api: str, data: Any, prefix: str | None = None) -> Any:
    """Send JSON to ``api``. Return the JSON of the answer."""
    return request("post", port, api, data, prefix)


def put(port: int | None, api: str, data: Any, prefix: str | None = None) -> None:
    """Send JSON to ``api`` with PUT."""
    request("put", port, api, data, prefix)


def delete(port: int | None, api: str, prefix: str | None = None) -> None:
    """Call ``api`` with DELETE."""
    request("delete", port, api, prefix=prefix)
