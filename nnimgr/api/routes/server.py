"""Routes of the server itself: its profile, and login and logout of a browser."""

from __future__ import annotations

import os

from fastapi import APIRouter, Request, Response

from nnimgr.api import models
from nnimgr.api.auth import LOGIN_PAGE, LOGIN_ROUTE, Credentials
from nnimgr.api.dependencies import Parts, refusals

router = APIRouter(tags=["server"])


class LoginRefused(Exception):
    """Error: the login code or the token is not valid."""


@router.get("/api/v1/server")
async def show_server(parts: Parts) -> models.ServerProfile:
    """Return the server's version, process id, port and start time."""
    return models.ServerProfile(
        version=parts.version,
        pid=os.getpid(),
        port=parts.port,
        started_at=parts.started_at,
        url_prefix=parts.url_prefix,
        needs_token=parts.credentials.needed,
        leaves=parts.shutdown.until_idle and parts.manager.idle,
    )


@router.post("/api/v1/server/login-code")
async def make_login_code(parts: Parts, wanted: models.LoginWanted | None = None) -> models.LoginAddress:
    """Return an address that logs one browser in. It works once, within twelve hours."""
    page = "/" if wanted is None else wanted.page
    if not parts.credentials.needed:
        return models.LoginAddress(url=parts.url + page.rstrip("/"), needs_token=False)
    code = parts.credentials.sessions.new_code()
    then = "" if page == "/" else f"&page={page}"
    return models.LoginAddress(url=f"{parts.url}{LOGIN_PAGE}#code={code}{then}", needs_token=True)


@router.post(LOGIN_ROUTE, responses=refusals(401, 422))
async def log_in(parts: Parts, wanted: models.Login, response: Response) -> models.Done:
    """Log a browser in: give it a session cookie in exchange for a login code or the token."""
    session = _session(parts.credentials, wanted)
    response.headers["set-cookie"] = parts.credentials.set_cookie(session)
    return models.Done()


@router.post("/api/v1/logout")
async def log_out(parts: Parts, request: Request, response: Response) -> models.Done:
    """Log a browser out: end the session of its cookie, and remove the cookie."""
    session = parts.credentials.session_of(request.scope)
    if session is not None:
        parts.credentials.sessions.end(session)
    response.headers["set-cookie"] = parts.credentials.set_cookie("")
    return models.Done()


def _session(credentials: Credentials, wanted: models.Login) -> str:
    """Begin a session for a valid login code or token, and return its cookie value. Raise LoginRefused."""
    if wanted.token is not None:
        if not credentials.is_token(wanted.token.strip()):
            raise LoginRefused("This is not the token of this server.")
        return credentials.sessions.begin()
    session = credentials.sessions.exchange(wanted.code or "")
    if session is None:
        raise LoginRefused("This address was used already or has expired. Get a new address with nnictl.")
    return session
