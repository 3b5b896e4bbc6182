"""HTTP requests to the REST API, with functions named as in NNI that return None on an error.

They use ``requests`` if it is installed, because users' tests replace that library, and httpx otherwise.
"""

from __future__ import annotations

import importlib
import time
from typing import Any

from nni.tools.nnictl.common_utils import print_error
from nni.tools.nnictl.constants import REST_TIME_OUT
from nni.tools.nnictl.url_utils import check_status_url

__all__ = [
    "check_response",
    "check_rest_server",
    "check_rest_server_quick",
    "rest_delete",
    "rest_get",
    "rest_post",
    "rest_put",
]

_HEADERS = {"Accept": "application/json", "Content-Type": "application/json"}
_TRIES = 20
_QUICK_S = 5


def rest_get(url: str, timeout: float, show_error: bool = False) -> Any:
    """Send a GET request. Return the response, or None if the server does not respond."""
    return _call("GET", url, None, timeout, show_error)


def rest_delete(url: str, timeout: float, show_error: bool = False) -> Any:
    """Send a DELETE request. Return the response, or None if the server does not respond."""
    return _call("DELETE", url, None, timeout, show_error)


def rest_put(url: str, data: str, timeout: float, show_error: bool = False) -> Any:
    """Send JSON text with a PUT request. Return the response, or None if the server does not respond."""
    return _call("PUT", url, data, timeout, show_error)


def rest_post(url: str, data: str, timeout: float, show_error: bool = False) -> Any:
    """Send JSON text with a POST request. Return the response, or None if the server does not respond."""
    return _call("POST", url, data, timeout, show_error)


def check_rest_server(rest_port: int | str) -> tuple[bool, Any]:
    """Wait until the server on a port responds, for at most 20 attempts with 1 s between them.

    Return whether the server is ready, and its response or None.
    """
    response = None
    for _ in range(_TRIES):
        response = rest_get(check_status_url(rest_port), REST_TIME_OUT)
        if response is not None:
            break
        time.sleep(1)
    return check_response(response), response


def check_rest_server_quick(rest_port: int | str) -> tuple[bool, Any]:
    """Return whether the server on a port is ready, and its response (None if it is not ready)."""
    response = rest_get(check_status_url(rest_port), _QUICK_S)
    return (True, response) if check_response(response) else (False, None)


def check_response(response: Any) -> bool:
    """Return whether there is a response with the HTTP status 200."""
    return response is not None and response.status_code == 200


def _call(method: str, url: str, data: str | None, timeout: float, show_error: bool) -> Any:
    body = {} if data is None else {"data": data.encode(), "headers": _HEADERS}
    try:
        requests: Any = importlib.import_module("requests")
    except ModuleNotFoundError:
        requests = importlib.import_module("httpx")
        body = {} if data is None else {"content": data.encode(), "headers": _HEADERS}
    try:
        return requests.request(method, url, timeout=timeout, **body)
    except Exception as error:  # the two libraries have different errors
        if "Timeout" in type(error).__name__:
            print_error(f"{url} did not answer within {timeout} s.")
        elif show_error:
            print_error(error)
        return None
