"""Routers whose routes refuse query parameters that they do not have."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from nnimgr.spelling import nearest

__all__ = ["CheckedRoute", "Router"]


class CheckedRoute(APIRoute):
    """Route that answers a request with an unknown query parameter with status 422.

    Otherwise a misspelled filter would silently return everything.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        known = list(dict.fromkeys(_names(self.dependant)))

        async def checked(request: Request) -> Response:
            unknown = [name for name in request.query_params if name not in known]
            if unknown:
                raise RequestValidationError([_fault(name, known) for name in unknown])
            return await handle(request)

        return checked


class Router(APIRouter):
    """Router for routes of this API."""

    def __init__(self, route_class: type[CheckedRoute] = CheckedRoute, **fields: Any) -> None:
        super().__init__(route_class=route_class, **fields)


def _names(dependant: Dependant) -> Iterator[str]:
    """Yield the names of the query parameters of a route and of what it depends on."""
    for field in dependant.query_params:
        yield field.alias
    for each in dependant.dependencies:
        yield from _names(each)


def _fault(name: str, known: list[str]) -> dict[str, Any]:
    likely = nearest(name, known)
    meant = "" if likely is None else f"; did you mean {likely}?"
    has = f"it has {', '.join(known)}" if known else "it has none"
    return {
        "type": "unknown",
        "loc": ("query", name),
        "msg": f"this route has no such parameter: {has}{meant}",
    }
