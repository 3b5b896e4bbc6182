"""Access control: an ASGI layer in front of all routes except those for keepers.

A request passes with the token (as bearer, or as the password of HTTP basic authentication) or with a session
cookie. Without a credential, it passes if a program of the server's own user sent it over loopback, or if the
server was started with --no-token.

Before that, the layer checks the request's Host and Origin headers. This stops other web pages and DNS
rebinding, even if the browser adds a valid credential. The layer also adds the security headers to all
responses.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import logging
import socket
import time
from collections.abc import Callable, Iterable
from enum import Enum, auto
from http.cookies import CookieError, SimpleCookie

from nnimgr.api.asgi import ASGIApp, Message, Receive, Scope, Send, header, refuse
from nnimgr.api.limits import BodyLimit
from nnimgr.api.loopback import comes_from_own_program
from nnimgr.api.pages import Page
from nnimgr.api.sessions import SESSION_LIFE, Sessions

__all__ = ["AllowedHosts", "Authentication", "Credentials", "FailureThrottle", "LOGIN_PAGE", "LOGIN_ROUTE"]

logger = logging.getLogger(__name__)

LOGIN_PAGE = "/login"
LOGIN_ROUTE = "/api/v1/login"
TENSORBOARDS = "/tensorboard/"  # pages of TensorBoard, whose scripts cannot add our own header
REQUEST_HEADER = b"x-nnimgr-request"
MOST_OPEN_BODY = 4096  # largest size in bytes of a request to a route that needs no credential

_OPEN_ROUTES = frozenset({("GET", LOGIN_PAGE), ("POST", LOGIN_ROUTE)})
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_HOW = (
    "This server needs its token: send it as 'Authorization: Bearer TOKEN' or as the password of HTTP basic "
    "authentication, or open the address that nnictl prints. Programs of the server's own user need no token "
    "on the server's machine, unless it was started with --require-token."
)
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'"),
)


class Identity(Enum):
    """Kind of credential with which a request was accepted."""

    TOKEN = auto()
    BASIC = auto()
    SESSION = auto()
    OWN_PROGRAM = auto()  # no credential, but the kernel says that the server's own user sent the request
    ANYBODY = auto()  # no credential was needed


class Credentials:
    """Credentials that the server accepts: its token and the sessions in ``sessions``.

    ``token`` returns the present token. When it was replaced, all sessions end.

    If ``needed`` is False, no request needs a credential, but requests from other web sites are still
    rejected. If ``trusts_own_programs``, programs of the server's own user on this machine need no
    credential.
    """

    def __init__(
        self,
        token: Callable[[], str],
        *,
        sessions: Sessions,
        port: int,
        secure: bool = False,
        needed: bool = True,
        trusts_own_programs: bool = True,
    ) -> None:
        self.needed = needed
        self._trusts_own_programs = trusts_own_programs
        self._token = token
        self._known = _sum(token())
        self.sessions = sessions
        # All ports of a host share cookies, so servers on one host need different names for their cookies.
        self.cookie_name = f"nnimgr-{port}"
        self._secure = secure

    def identify(self, scope: Scope) -> Identity | None:
        if not self.needed:
            return Identity.ANYBODY
        given = header(scope, b"authorization")
        if given is not None:
            scheme, _, value = given.partition(" ")
            if scheme.lower() == "bearer" and self.is_token(value.strip()):
                return Identity.TOKEN
            if scheme.lower() == "basic" and self.is_token(_basic_password(value.strip())):
                return Identity.BASIC
        session = self.session_of(scope)
        if session is not None:
            self._expected()
            if self.sessions.knows(session):
                return Identity.SESSION
        if self._trusts_own_programs and given is None and comes_from_own_program(scope):
            return Identity.OWN_PROGRAM
        return None

    def session_of(self, scope: Scope) -> str | None:
        """Return the value of this server's session cookie in the request, whether it is valid or not.

        Return None if the request does not have the cookie.
        """
        for key, value in scope["headers"]:
            if key == b"cookie":
                try:
                    morsel = SimpleCookie(value.decode("latin-1")).get(self.cookie_name)
                except CookieError:
                    continue
                if morsel is not None:
                    return morsel.value
        return None

    def set_cookie(self, session: str) -> str:
        """Return the value of the Set-Cookie header for a session. An empty ``session`` removes the browser's
        cookie.
        """
        age = int(SESSION_LIFE.total_seconds()) if session else 0
        secure = "; Secure" if self._secure else ""
        return f"{self.cookie_name}={session}; HttpOnly; SameSite=Strict; Path=/; Max-Age={age}{secure}"

    def is_token(self, given: str) -> bool:
        """Return True if ``given`` is the server's token."""
        return hmac.compare_digest(_sum(given), self._expected())

    def _expected(self) -> bytes:
        """Return the hash of the present token. If the token was replaced, end all sessions."""
        expected = _sum(self._token())
        if expected != self._known:
            self._known = expected
            self.sessions.end_all()
        return expected


class AllowedHosts:
    """Host names that the server accepts in requests. A request with any other name may be a DNS rebinding
    attack.
    """

    def __init__(self, bound: str, *, extra: Iterable[str] = ()) -> None:
        self._names = {"localhost", "127.0.0.1", "::1", bound.lower(), *(name.lower() for name in extra)}
        # True if the server listens at all addresses. Then it accepts any IP address as the host, because DNS
        # rebinding needs a name.
        self._any_address = bound in ("", "0.0.0.0", "::")
        if self._any_address:
            self._names.add(socket.gethostname().lower())

    def allow(self, host: str) -> bool:
        """Return True if this Host header (with or without a port) names the server."""
        name = _host_name(host)
        return name in self._names or (self._any_address and _is_address(name))


class FailureThrottle:
    """Counter of each client's failed logins. Above a limit, each further failure is answered with HTTP
    status 429.

    A correct credential is always accepted, and only failed attempts are counted. Otherwise any account of
    the machine could lock the user out with a few wrong tokens.
    """

    def __init__(
        self,
        *,
        allowed: int = 20,
        refill_s: float = 3.0,
        clock: Callable[[], float] = time.monotonic,
        most_clients: int = 1024,
    ) -> None:
        self._allowed = allowed
        self._refill_s = refill_s
        self._clock = clock
        self._most_clients = most_clients
        self._spent: dict[str, tuple[float, float]] = {}  # client -> (failures, time of the count)

    def wait_s(self, client: str) -> int:
        """Return the seconds until this client may try again, 0 if it may try now."""
        over = self._failures(client) - self._allowed + 1
        return max(0, int(over * self._refill_s + 0.999))

    def failed(self, client: str, *, outdated: bool = False) -> None:
        """Count a failed login. Log the first one after a pause, and that the limit is reached.

        ``outdated``: the session of a browser has ended, which is not logged.
        """
        failures = self._failures(client)
        client = client or "this machine"  # over the Unix socket
        if failures < 1 and not outdated:
            logger.warning("a login from %s has failed: its token or login code is wrong", client)
        elif failures < self._allowed <= failures + 1:
            logger.warning("further failed logins from %s have to wait", client)
        self._spent.pop(client, None)
        while len(self._spent) >= self._most_clients:
            del self._spent[next(iter(self._spent))]
        self._spent[client] = (min(failures + 1, 2 * self._allowed), self._clock())

    def _failures(self, client: str) -> float:
        failures, at = self._spent.get(client, (0.0, 0.0))
        return max(0.0, failures - (self._clock() - at) / self._refill_s)


class Authentication:
    """ASGI layer that passes permitted requests on to ``app`` and answers all other requests itself."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        credentials: Credentials,
        hosts: AllowedHosts,
        throttle: FailureThrottle,
        login_page: Page,
    ) -> None:
        self._app = app
        self._open = BodyLimit(app, most=MOST_OPEN_BODY)
        self._credentials = credentials
        self._hosts = hosts
        self._throttle = throttle
        self._login_page = login_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._request(scope, receive, _with_headers(send))
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        foreign = self._foreign(scope)
        if foreign is not None:
            await refuse(send, 403, sentence=foreign)
            return
        client = scope["client"][0] if scope.get("client") else ""
        if (scope["method"], scope["path"]) in _OPEN_ROUTES:
            await self._open_route(scope, receive, send, client=client)
            return
        identity = self._credentials.identify(scope)
        if identity is None:
            await self._unknown(scope, send, client=client)
        elif identity is Identity.SESSION and (forged := _forged(scope)):
            await refuse(send, 403, sentence=forged)
        else:
            await self._app(scope, receive, send)

    async def _open_route(self, scope: Scope, receive: Receive, send: Send, *, client: str) -> None:
        if scope["path"] == LOGIN_PAGE:
            await self._login_page.send(send, 200)
            return

        seconds = self._throttle.wait_s(client)
        refused = False

        async def counting(message: Message) -> None:
            nonlocal refused
            if message["type"] == "http.response.start" and 400 <= message["status"] < 500:
                self._throttle.failed(client)
                if seconds:
                    refused = True
                    await _too_many(send, seconds)
            if not refused:
                await send(message)

        await self._open(scope, receive, counting)

    async def _unknown(self, scope: Scope, send: Send, *, client: str) -> None:
        seconds = self._throttle.wait_s(client)
        if seconds:
            await _too_many(send, seconds)
            return
        has_token = bool(header(scope, b"authorization"))
        if has_token or self._credentials.session_of(scope):
            self._throttle.failed(client, outdated=not has_token)
        challenges = [(b"www-authenticate", b'Bearer realm="nnimgr"')]
        if scope["method"] == "GET" and "text/html" in (header(scope, b"accept") or ""):
            await self._login_page.send(send, 401, headers=challenges)
            return
        if header(scope, b"sec-fetch-mode") in (None, "navigate"):
            # Scripts of a web page do not get this header, because it makes a browser show its login dialog.
            challenges.append((b"www-authenticate", b'Basic realm="nnimgr", charset="UTF-8"'))
        await refuse(send, 401, sentence=_HOW, headers=challenges)

    def _foreign(self, scope: Scope) -> str | None:
        """Return a sentence that says why another web page may have caused this request, or None."""
        host = header(scope, b"host") or ""
        if not self._hosts.allow(host):
            return f"This server does not accept the host name {_host_name(host)!r}."
        origin = header(scope, b"origin")
        if origin is not None and origin.partition("://")[2].lower() != host.lower():
            return "The request comes from another web page."
        site = header(scope, b"sec-fetch-site")
        if site in ("cross-site", "same-site") and header(scope, b"sec-fetch-mode") != "navigate":
            return "The request comes from another web page."
        return None


async def _too_many(send: Send, seconds: int) -> None:
    sentence = f"Too many failed attempts: try again in {seconds} s."
    await refuse(send, 429, sentence=sentence, headers=[(b"retry-after", str(seconds).encode())])


def _forged(scope: Scope) -> str | None:
    """Return a sentence that says why another web site may have caused this request with a session cookie, or
    None.
    """
    if scope["method"] in _SAFE_METHODS:
        return None
    if scope["path"].startswith(TENSORBOARDS) and header(scope, b"origin") is not None:
        return None  # a browser has named the page, which is one of this server's (see _foreign)
    if header(scope, REQUEST_HEADER) is None:
        return "A change made with the session cookie needs the header X-Nnimgr-Request."
    kind = (header(scope, b"content-type") or "").partition(";")[0].strip().lower()
    if kind != "application/json":
        return "A change made with the session cookie needs the content type application/json."
    return None


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            fields = list(message.get("headers", ()))
            present = {name.lower() for name, _ in fields}
            fields += [(name, value) for name, value in _HEADERS if name not in present]
            message = {**message, "headers": fields}
        await send(message)

    return sending


def _sum(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _basic_password(value: str) -> str:
    try:
        text = base64.b64decode(value, validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return ""
    return text.partition(":")[2]


def _host_name(host: str) -> str:
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host if host.count(":") > 1 else host.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
