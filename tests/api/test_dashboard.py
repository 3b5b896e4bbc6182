"""Files of the dashboard: which file each address serves, and under which policy."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from nnimgr.api import dashboard
from tests.api.lab import Lab

PAGE = "<!doctype html><title>nnimgr</title>"
SCRIPT = "export const answer = 42;\n"


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a dashboard of two files, and a secret file beside its folder."""
    folder = tmp_path / "webui"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(PAGE)
    (folder / "assets" / "main-1a2b.js").write_text(SCRIPT)
    (folder / "assets" / "main-1a2b.js.gz").write_bytes(gzip.compress(SCRIPT.encode()))
    (tmp_path / "secret").write_text("secret")
    (folder / "assets" / "link.js").symlink_to(tmp_path / "secret")
    monkeypatch.setattr(dashboard, "_FOLDER", folder)
    return folder


@pytest.mark.parametrize(
    "path", ["/", "/new", "/compare", "/resources", "/experiments/abc", "/experiments/abc/trials/x1"]
)
async def test_every_address_of_it_is_the_one_page(lab: Lab, built: Path, path: str) -> None:
    answer = await lab.client.get(path)
    assert answer.status_code == 200 and answer.text == PAGE
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self';" in policy and "unsafe" not in policy and "http" not in policy
    assert answer.headers["cache-control"] == "no-store"


async def test_an_asset_is_sent_compressed_and_kept_by_the_browser(lab: Lab, built: Path) -> None:
    packed = await lab.client.get("/assets/main-1a2b.js", headers={"Accept-Encoding": "gzip, br"})
    assert packed.headers["content-encoding"] == "gzip" and packed.text == SCRIPT
    assert packed.headers["content-type"].startswith("text/javascript")
    assert "immutable" in packed.headers["cache-control"]
    plain = await lab.client.get("/assets/main-1a2b.js", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers and plain.text == SCRIPT


@pytest.mark.parametrize("name", ["gone.js", "..%2Findex.html", "..%2F..%2Fsecret", "link.js", "x" * 300])
async def test_nothing_else_is_sent(lab: Lab, built: Path, name: str) -> None:
    assert (await lab.client.get(f"/assets/{name}")).status_code == 404


async def test_without_it_the_page_says_so(lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dashboard, "_FOLDER", tmp_path)
    answer = await lab.client.get("/")
    assert answer.status_code == 503 and "/docs" in answer.text


async def test_addresses_of_nnis_pages_lead_to_ours(lab: Lab) -> None:
    places = [
        (await lab.client.get(path)).headers["location"] for path in ("/oview", "/detail", "/experiment")
    ]
    latest = lab.parts.manager.latest
    assert places == [f"/experiments/{latest}", f"/experiments/{latest}/trials", "/"]


async def test_a_browser_at_an_unknown_address_gets_the_page(lab: Lab, built: Path) -> None:
    browser = {"accept": "text/html,application/xhtml+xml"}
    answer = await lab.client.get("/experimens/exp", headers=browser)
    assert answer.status_code == 404 and answer.headers["content-type"].startswith("text/html")
    for path, headers in (("/experimens/exp", {}), ("/api/v1/experimens", browser)):
        answer = await lab.client.get(path, headers=headers)
        assert answer.status_code == 404 and answer.json()["error"]["message"] == f"There is no {path} here."
