"""The analysis process of a real server: starts with a question, ends with the server."""

from __future__ import annotations

import os
import select
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from nnimgr.home import Home
from nnimgr.index import Index, IndexEntry
from tests.analysis.past import Past
from tests.server.harness import Server, serving


@pytest.fixture
async def stored(tmp_path: Path) -> AsyncIterator[None]:
    """Store a stopped experiment ``exp`` with two trials and add it to the index."""
    past = Past(tmp_path / "work" / "exp")
    past.suggest({"lr": 0.1}, {"lr": 0.2})
    await past.write()
    await past.close()
    (tmp_path / "home").mkdir()
    Index(Home(tmp_path / "home")).put(
        IndexEntry(
            id="exp",
            port=None,
            started_at=None,
            ended_at=None,
            status="STOPPED",
            platform="local",
            name="stored",
            log_dir=str(tmp_path / "work"),
        )
    )
    yield


def children(server: Server) -> set[int]:
    found = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text()
    return set(map(int, found.split()))


@pytest.mark.usefixtures("stored")
def test_it_is_started_by_the_first_question_and_ends_with_the_server(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert children(server) == set()
        answer = server.call("GET", "/api/v1/experiments/exp/trials?filter=lr%3E0.1")
        assert [trial["sequence"] for trial in answer.body["trials"]] == [1]
        (child,) = children(server)
        handle = os.pidfd_open(child)
        assert server.end() == 0
        assert select.select([handle], [], [], 30.0)[0]
        os.close(handle)
        assert "Traceback" not in server.said


@pytest.mark.usefixtures("stored")
def test_it_reads_what_is_binary(tmp_path: Path) -> None:
    with serving(tmp_path) as server, closing(server.connection()) as connection:
        path = "/api/v1/experiments/exp"
        connection.request("GET", f"{path}/columns?names=parameters.lr", headers=server.bearer)
        response = connection.getresponse()
        content = response.read()
        assert response.headers["content-type"] == "application/vnd.nnimgr.columns"
        assert b'"parameters.lr"' in content
        connection.request("GET", f"{path}/trials/export", headers=server.bearer)
        lines = connection.getresponse().read().decode().splitlines()
        assert lines[0].startswith("id,sequence,status")
        assert len(lines) == 3
