"""Access to the server: every permitted way, and every way that must be refused."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI
from starlette.routing import BaseRoute, Route

from nnimgr.api.app import api
from nnimgr.api.auth import AllowedHosts, FailureThrottle
from nnimgr.api.nni import experiment_routes, trial_routes
from tests.api.lab import BASE, BEARER, EXPERIMENT, TOKEN, Lab

OPEN = {("GET", "/login"), ("POST", "/api/v1/login")}
SCRIPT = {"X-Nnimgr-Request": "test", "Content-Type": "application/json"}


def basic(password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"x:{password}".encode()).decode()}


def routes(app: FastAPI) -> Iterator[tuple[str, str]]:
    """Yield (method, path) of every route that the live application serves."""
    found: list[BaseRoute] = list(app.routes)
    while found:
        route = found.pop()
        if (included := getattr(route, "original_router", None)) is not None:
            found.extend(included.routes)
        else:
            assert isinstance(route, Route), f"a route of a kind that this walk does not know: {route}"
            pattern = route.path.replace(":path}", "}")
            path = pattern.format(
                id="exp",
                trialId="abcde",
                name="stdout",
                path="a/b",
                machine="m",
                keeper="k",
                viewId=1,
                attempt=1,
                number=1,
                task="t",
            )
            yield from ((method, path) for method in route.methods or ())


async def sign_in(lab: Lab) -> str:
    """Return the cookie header of a new session."""
    made = await lab.client.post("/api/v1/server/login-code")
    url = made.json()["url"]
    assert url.startswith(f"{BASE}/login#code=")
    answer = await lab.stranger.post("/api/v1/login", json={"code": url.partition("#code=")[2]})
    assert answer.status_code == 200
    cookie = answer.headers["set-cookie"]
    lab.stranger.cookies.clear()
    for part in ("HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"):
        assert part in cookie
    value: str = cookie.partition(";")[0]
    assert value.startswith("nnimgr-8080=")
    return value


async def test_every_route_needs_the_token(lab: Lab) -> None:
    walked = sorted(set(routes(api(lab.parts))))
    assert len(walked) > 20
    for method, path in walked:
        if (method, path) in OPEN:
            continue
        answer = await lab.stranger.request(method, path, content=b"{}" if method != "GET" else None)
        assert answer.status_code == 401, (method, path)
        assert method == "HEAD" or "started with --require-token" in answer.json()["error"]["message"]
        assert "Authorization: Bearer" in answer.json()["error"]["message"] if method != "HEAD" else True
    assert not lab.manager.created and not lab.manager.stopped


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/nothing", "/login/", "//login", "/api/v1/login/x"])
async def test_unknown_paths_tell_a_stranger_nothing(lab: Lab, path: str) -> None:
    assert (await lab.stranger.get(path)).status_code == 401


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/nothing", "/api/v1/experiments/exp/nothing"])
async def test_unknown_paths_are_404(lab: Lab, path: str) -> None:
    answer = await lab.client.get(path)
    assert answer.status_code == 404
    assert answer.json() == {"error": {"message": f"There is no {path} here."}}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (BEARER, 200),
        ({"Authorization": f"bearer  {TOKEN} "}, 200),
        (basic(TOKEN), 200),
        ({"Authorization": f"Bearer {TOKEN}x"}, 401),
        ({"Authorization": "Bearer "}, 401),
        ({"Authorization": TOKEN}, 401),
        (basic(""), 401),
        (basic(TOKEN[:-1]), 401),
        ({"Authorization": "Basic !!!"}, 401),
        ({"Authorization": "Basic /w=="}, 401),
        ({"Authorization": "Digest x"}, 401),
        ({"Cookie": f"nnimgr-8080={TOKEN}"}, 401),
        ({"Cookie": "nnimgr-8080="}, 401),
        ({"Cookie": ";;=;\x7f"}, 401),
    ],
)
async def test_credentials(lab: Lab, headers: dict[str, str], status: int) -> None:
    answer = await lab.stranger.get("/api/v1/server", headers=headers)
    assert answer.status_code == status


async def test_the_token_in_an_address(lab: Lab) -> None:
    answer = await lab.stranger.get(f"http://x:{TOKEN}@localhost:8080/api/v1/server")
    assert answer.status_code == 200


async def test_a_cookie_signs_in_and_out(lab: Lab) -> None:
    cookie = {"Cookie": await sign_in(lab)}
    assert (await lab.stranger.get("/api/v1/server", headers=cookie)).status_code == 200
    assert (await lab.stranger.get("/docs", headers=cookie)).status_code == 200
    ended = await lab.stranger.post("/api/v1/logout", headers=cookie | SCRIPT)
    assert ended.status_code == 200
    assert "Max-Age=0" in ended.headers["set-cookie"]
    assert (await lab.stranger.get("/api/v1/server", headers=cookie)).status_code == 401


async def test_a_cookie_of_another_port_is_none_of_ours(lab: Lab) -> None:
    cookie = (await sign_in(lab)).replace("8080", "8081")
    assert (await lab.stranger.get("/api/v1/server", headers={"Cookie": cookie})).status_code == 401


async def test_an_address_may_name_the_page_after_the_login(lab: Lab) -> None:
    wanted = {"page": "/experiments/abc"}
    url = (await lab.client.post("/api/v1/server/login-code", json=wanted)).json()["url"]
    assert url.startswith(f"{BASE}/login#code=") and url.endswith("&page=/experiments/abc")
    for page in ("//elsewhere", "https://elsewhere", "/a?b", "/\\elsewhere", ""):
        answer = await lab.client.post("/api/v1/server/login-code", json={"page": page})
        assert answer.status_code == 422


async def test_a_code_works_once(lab: Lab) -> None:
    url = (await lab.client.post("/api/v1/server/login-code")).json()["url"]
    body = {"code": url.partition("#code=")[2]}
    assert (await lab.stranger.post("/api/v1/login", json=body)).status_code == 200
    again = await lab.stranger.post("/api/v1/login", json=body)
    assert again.status_code == 401
    assert "Get a new address with nnictl" in again.json()["error"]["message"]
    assert "set-cookie" not in again.headers


async def test_a_change_by_cookie_must_come_from_our_page(lab: Lab) -> None:
    cookie = {"Cookie": await sign_in(lab)}
    path = f"{EXPERIMENT}/stop"
    for headers in (
        {},
        {"Content-Type": "application/json"},
        {"X-Nnimgr-Request": "1", "Content-Type": "text/plain"},
        SCRIPT | {"Origin": "http://localhost:3000"},
        SCRIPT | {"Origin": "http://evil.example"},
        SCRIPT | {"Origin": "null"},
        SCRIPT | {"Sec-Fetch-Site": "cross-site"},
        SCRIPT | {"Sec-Fetch-Site": "same-site"},
    ):
        answer = await lab.stranger.post(path, content=b"{}", headers=cookie | headers)
        assert answer.status_code == 403, headers
    assert not lab.manager.stopped
    mine = SCRIPT | {"Origin": BASE, "Sec-Fetch-Site": "same-origin"}
    assert (await lab.stranger.post(path, content=b"{}", headers=cookie | mine)).status_code == 200


async def test_another_page_may_not_even_use_the_token(lab: Lab) -> None:
    for origin in ("http://evil.example", "null", "http://localhost:9999"):
        answer = await lab.client.get("/api/v1/server", headers={"Origin": origin})
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers


async def test_a_link_to_us_may_be_followed(lab: Lab) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert (await lab.client.get("/docs", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("localhost", True),
        ("LOCALHOST:8080", True),
        ("127.0.0.1:9", True),
        ("[::1]:8080", True),
        ("::1", True),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("10.0.0.1:8080", False),
        ("", False),
    ],
)
def test_names_of_a_loopback_server(host: str, allowed: bool) -> None:
    assert AllowedHosts("127.0.0.1").allow(host) is allowed


def test_names_of_an_open_server() -> None:
    hosts = AllowedHosts("0.0.0.0", extra=["Tuning.example"])
    assert hosts.allow("192.168.1.5:8080") and hosts.allow("[fe80::1]:80")  # addresses cannot be rebound
    assert hosts.allow("tuning.example:443")
    assert not hosts.allow("evil.example")
    assert AllowedHosts("10.1.2.3").allow("10.1.2.3:8080")


async def test_a_rebound_name_gets_nothing(lab: Lab) -> None:
    for path in ("/", "/login", "/api/v1/server"):
        answer = await lab.client.get(path, headers={"Host": "evil.example:8080"})
        assert answer.status_code == 403
        assert "evil.example" in answer.json()["error"]["message"]


async def test_keepers_have_no_route_here(lab: Lab) -> None:
    assert (await lab.stranger.post("/keepers/v1/exp/local/sync")).status_code == 401
    assert (await lab.client.post("/keepers/v1/exp/local/sync")).status_code == 404


async def test_security_headers_are_on_every_answer(lab: Lab) -> None:
    answers: list[httpx.Response] = [
        await lab.client.get("/"),
        await lab.client.get("/docs"),
        await lab.stranger.get("/login"),
        await lab.stranger.get("/api/v1/server"),
        await lab.client.get("/api/v1/nothing"),
        await lab.client.get("/api/v1/server", headers={"Host": "evil"}),
        await lab.client.get(EXPERIMENT),
    ]
    for answer in answers:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"


async def test_a_401_says_how(lab: Lab) -> None:
    plain = await lab.stranger.get("/api/v1/server")
    assert plain.headers.get_list("www-authenticate") == [
        'Bearer realm="nnimgr"',
        'Basic realm="nnimgr", charset="UTF-8"',
    ]
    page = await lab.stranger.get("/", headers={"Accept": "text/html", "Sec-Fetch-Mode": "navigate"})
    assert page.status_code == 401 and page.headers["content-type"].startswith("text/html")
    assert page.headers.get_list("www-authenticate") == ['Bearer realm="nnimgr"']  # no browser dialog
    assert '<label for="token">' in page.text and TOKEN not in page.text
    script = await lab.stranger.get("/api/v1/server", headers={"Sec-Fetch-Mode": "cors"})
    assert script.headers.get_list("www-authenticate") == ['Bearer realm="nnimgr"']  # no browser dialog


async def test_failures_are_slowed_and_the_owner_is_not(lab: Lab) -> None:
    wrong = {"Authorization": "Bearer wrong"}
    statuses = [(await lab.stranger.get("/api/v1/server", headers=wrong)).status_code for _ in range(21)]
    assert statuses == [401] * 20 + [429]
    refused = await lab.stranger.post("/api/v1/login", json={"code": "guess"})
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) > 0
    assert (await lab.client.get("/api/v1/server")).status_code == 200


async def test_the_token_signs_a_browser_in(lab: Lab) -> None:
    answer = await lab.stranger.post("/api/v1/login", json={"token": f" {TOKEN}\n"})
    assert answer.status_code == 200
    cookie = {"Cookie": answer.headers["set-cookie"].partition(";")[0]}
    lab.stranger.cookies.clear()
    assert TOKEN not in cookie["Cookie"]
    assert (await lab.stranger.get("/api/v1/server", headers=cookie)).status_code == 200


@pytest.mark.parametrize("body", [{}, {"code": "a", "token": "b"}, {"token": "x" * 201}, {"token": None}])
async def test_what_is_no_login(lab: Lab, body: dict[str, str]) -> None:
    answer = await lab.stranger.post("/api/v1/login", json=body)
    assert answer.status_code == 422 and "set-cookie" not in answer.headers


async def test_wrong_tokens_count_as_failures(lab: Lab) -> None:
    for _ in range(20):
        answer = await lab.stranger.post("/api/v1/login", json={"token": "wrong"})
        assert answer.status_code == 401 and "set-cookie" not in answer.headers
        assert answer.json()["error"]["message"] == "This is not the token of this server."
    assert (await lab.stranger.post("/api/v1/login", json={"token": "wrong"})).status_code == 429


async def test_wrong_codes_count_as_failures(lab: Lab) -> None:
    for _ in range(20):
        assert (await lab.stranger.post("/api/v1/login", json={"code": "x"})).status_code == 401
    assert (await lab.stranger.post("/api/v1/login", json={"code": "x"})).status_code == 429


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"{", 422),
        (b"[" * 4000, 400 if sys.version_info < (3, 13) else 422),  # newer versions of Python read deeper
        (b'{"tok":1}', 422),
        (b" " * 4097, 413),
    ],
)
async def test_refused_bodies_count_as_failures(lab: Lab, content: bytes, status: int) -> None:
    headers = {"Content-Type": "application/json"}
    statuses = [
        (await lab.stranger.post("/api/v1/login", content=content, headers=headers)).status_code
        for _ in range(21)
    ]
    assert statuses == [status] * 20 + [429]


async def test_a_right_credential_is_accepted_after_any_number_of_wrong_ones(lab: Lab) -> None:
    url = (await lab.client.post("/api/v1/server/login-code")).json()["url"]
    for _ in range(50):
        await lab.stranger.post("/api/v1/login", json={"token": "wrong"})
    assert (await lab.stranger.post("/api/v1/login", json={"token": "wrong"})).status_code == 429
    for body in ({"token": TOKEN}, {"code": url.partition("#code=")[2]}):
        answer = await lab.stranger.post("/api/v1/login", json=body)
        assert answer.status_code == 200
        cookie = {"Cookie": answer.headers["set-cookie"].partition(";")[0]}
        lab.stranger.cookies.clear()
        assert (await lab.stranger.get("/api/v1/server", headers=cookie)).status_code == 200
    assert (await lab.stranger.post("/api/v1/login", json={"token": "wrong"})).status_code == 429


def test_the_throttle_forgets() -> None:
    now = 0.0
    throttle = FailureThrottle(allowed=2, refill_s=3.0, clock=lambda: now, most_clients=2)
    assert throttle.wait_s("a") == 0
    throttle.failed("a")
    throttle.failed("a")
    assert throttle.wait_s("a") == 3
    assert throttle.wait_s("b") == 0
    for _ in range(100):
        throttle.failed("a")
    assert throttle.wait_s("a") == 9  # the wait has a limit
    now = 9.0
    assert throttle.wait_s("a") == 0
    throttle.failed("b")
    throttle.failed("c")  # removes client a, because memory is bounded
    assert len(throttle._spent) == 2


async def test_no_body_goes_in_before_the_token(lab: Lab) -> None:
    """A body without a credential is not even parsed."""
    answer = await lab.stranger.post(
        "/api/v1/experiments", content=b"[" * 1000, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 401


# ---- no token


@pytest.fixture
def open_to_all(lab: Lab) -> httpx.AsyncClient:
    """Return a client without a token, for a server that needs none."""
    lab.parts.credentials.needed = False
    return lab.stranger


async def test_a_server_that_needs_no_token(lab: Lab, open_to_all: httpx.AsyncClient) -> None:
    assert (await open_to_all.get("/api/v1/nni/check-status")).json()["status"] == "RUNNING"
    assert (await open_to_all.delete("/api/v1/nni/experiment")).status_code == 200
    assert (await open_to_all.post("/api/v1/experiments/exp/stop")).status_code == 200
    assert (await open_to_all.get("/api/v1/server")).json()["needsToken"] is False
    address = await open_to_all.post("/api/v1/server/login-code")
    assert address.json() == {"url": BASE, "needsToken": False}
    wanted = {"page": "/experiments/exp"}
    address = await open_to_all.post("/api/v1/server/login-code", json=wanted)
    assert address.json()["url"] == f"{BASE}/experiments/exp"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:8080"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:9999"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/nni/experiment", "/e/exp/api/v1/nni/experiment"])
async def test_other_sites_are_refused_even_without_a_token(
    lab: Lab, open_to_all: httpx.AsyncClient, headers: dict[str, str], path: str
) -> None:
    for method in ("GET", "DELETE"):
        answer = await open_to_all.request(method, path, headers=headers)
        assert answer.status_code == 403
    assert not lab.life.state.stop_requested


async def test_nnis_routes_need_the_token_too(lab: Lab) -> None:
    walked = [
        (method, base + route.path.format(trial="abcde", first=0, last=1, name="stdout"))
        for base in ("/api/v1/nni", "/e/exp/api/v1/nni")
        for route in (*experiment_routes.ROUTES, *trial_routes.ROUTES)
        for method in route.methods or ()
    ]
    assert len(walked) > 50
    for method, path in walked:
        assert (await lab.stranger.request(method, path)).status_code == 401, (method, path)
    assert not lab.life.state.stop_requested
