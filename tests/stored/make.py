"""Makes the fixtures of ``test_stored`` with any version of nnimgr, beside the answers of that version.

Each version that should be opened by all later ones gets a folder here, named after its commit or its schema.
To make one, install that version into a virtual environment of its own, and run this file with the Python of
that environment:

    git archive COMMIT --prefix=before/ | tar x -C /tmp
    (cd /tmp/before && .ci/venv dev)
    /tmp/before/.venv/bin/python tests/stored/make.py COMMIT [SCENARIO ...]

It works in ``/tmp/nnimgr-fixture``, which it clears first, on ports 18080 and 18081. An sshd is needed. For
each scenario of ``scenarios.py`` it writes

    <version>/<scenario>.tar.xz          the experiment's folder, and its entry of the index
    <version>/<scenario>.answers.json.xz  {"GET path": {"status", "type", "body"}}

An experiment is asked by a server on another port than its own, so that it is read and not opened. What of an
answer is kept says ``answers.py``.
"""

from __future__ import annotations

import io
import json
import lzma
import shutil
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.stored.answers import comparable
from tests.stored.making import PLACE, VIEWER_PORT, Answer, Maker, get
from tests.stored.scenarios import SCENARIOS, TRIAL

LEFT_OUT = ("-shm", "lock", ".tar.gz", ".pyz", ".pyc")  # made again, or the code of trials


def main(version: str, names: list[str]) -> None:
    """Make the fixtures of a version."""
    target = Path(__file__).parent / version
    target.mkdir(exist_ok=True)
    for name in names or SCENARIOS:
        made = Maker(name, TRIAL)
        try:
            if name != "machines":
                made.serve()
            SCENARIOS[name](made)
        finally:
            made.lose_power()
        made.forget_pid()
        archive(made, target / f"{name}.tar.xz")
        answers = record(made)
        text = json.dumps(answers, indent=0, sort_keys=True, ensure_ascii=False)
        (target / f"{name}.answers.json.xz").write_bytes(lzma.compress(text.encode(), preset=9))
        sys.stderr.write(f"{name}: {len(answers)} answers\n")


def archive(made: Maker, path: Path) -> None:
    """Pack the experiment's folder and its entry of the index."""

    def kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if member.name.endswith(LEFT_OUT) or not (member.isfile() or member.isdir() or member.islnk()):
            return None
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    with tarfile.open(path, "w:xz", preset=9) as packed:
        packed.add(made.folder, made.id, filter=kept)
        entry = (PLACE / "home" / ".experiment").read_bytes()
        member = tarfile.TarInfo("index.json")
        member.size = len(entry)
        packed.addfile(member, io.BytesIO(entry))


def record(made: Maker) -> dict[str, Any]:
    """Ask all routes of the experiment, of a server that does not open it."""
    home = PLACE / "viewer"
    home.mkdir()
    shutil.copy(PLACE / "home" / ".experiment", home)
    made.serve(port=VIEWER_PORT, home=home)
    answers: dict[str, Any] = {}

    def ask(path: str) -> Any:
        answer: Answer = get(VIEWER_PORT, path)
        status, kind, text = answer
        answers[path] = {"status": status, "type": kind, "body": comparable(kind, text)}
        return json.loads(text) if kind.startswith("application/json") and text else None

    for path in (*routes(ask, made.id), *nni_routes(ask, made.id)):
        ask(path)
    made.leave()
    return answers


def routes(ask: Any, experiment_id: str) -> Iterator[str]:
    """Yield the paths of nnimgr's own routes, with their pages."""
    url = f"/api/v1/experiments/{experiment_id}"
    yield from ("/api/v1/experiments", url, f"{url}/export", f"{url}/export?intermediate=true")
    names = [column["name"] for column in ask(f"{url}/columns/schema")["columns"]]
    told = quote(",".join(["id", *names]))
    yield from (f"{url}/trials/export?format=json", f"{url}/trials/export?columns={told}")
    yield from (f"{url}/trials?sort={sort}&order=desc" for sort in ("sequence", "value", "status", "ended"))
    yield from (f"{url}/trials?search=good", f"{url}/trials?filter=status:SUCCEEDED")
    trials = ask(f"{url}/trials?limit=1000")["trials"]
    yield from (f"{url}/trials?status={status}" for status in sorted({trial["status"] for trial in trials}))
    yield from (f"{url}/trials?limit=2&offset={offset}" for offset in range(0, len(trials) + 1, 2))
    for trial in trials:
        yield from trial_routes(ask, f"{url}/trials/{trial['id']}", remote=experiment_id == "machines")
    if experiment_id == "annotated":  # versions before schema 5 lack these routes
        yield from (f"{url}/tags", f"{url}/views", f"{url}/trials?search=may")
        yield from (f"{url}/trials?filter=tags:base", f"{url}/trials/export?columns=id,userNote,tags")
    if experiment_id == "gangs":  # versions before schema 8 lack these routes
        for trial in trials:
            folder = f"{url}/trials/{trial['id']}"
            yield from (f"{folder}/logs/stdout?member=1", f"{folder}/files?member=1")
    yield f"{url}/trials/nobody"
    yield from pages(ask, f"{url}/metrics", "limit=3")
    yield from (f"{url}/metrics", f"{url}/metrics?type=FINAL")
    yield from (f"{url}/columns", f"{url}/columns?names=sequence,value,status")
    for question in ("curves", "importance", "history", "pareto", "timeline", "rungs", "stopped"):
        yield f"{url}/analysis/{question}"
    yield from (f"{url}/analysis/density?x=value&bins=4", f"{url}/analysis/history?filter=value%3E1")
    yield from (f"{url}/machines", f"{url}/events", f"{url}/events?after=5")
    yield from (f"{url}/feed?limit=500", f"{url}/feed?limit=5", f"{url}/feed?after=3&limit=5")
    yield from (f"{url}/feed?before=9&limit=3", f"{url}/logs", f"{url}/logs/dispatcher")


def trial_routes(ask: Any, url: str, *, remote: bool) -> Iterator[str]:
    """Yield the paths about one trial; files on other machines are not asked for."""
    yield from (url, f"{url}/metrics", f"{url}/metrics?type=FINAL")
    yield from pages(ask, f"{url}/metrics", "limit=2")
    if remote:
        return
    yield from (f"{url}/logs/stdout", f"{url}/logs/stderr", f"{url}/logs/stdout?tail=1&attempt=1")
    for file in (ask(f"{url}/files") or {}).get("files", ()):
        yield f"{url}/files/{quote(file['path'])}"


def pages(ask: Any, url: str, limit: str) -> Iterator[str]:
    """Ask for all pages, one after the other."""
    after: int | None = 0
    while after is not None:
        after = ask(f"{url}?{limit}&after={after}")["nextAfter"]
    yield from ()


def nni_routes(ask: Any, experiment_id: str) -> Iterator[str]:
    """Yield the paths of NNI's routes."""
    url = f"/e/{experiment_id}/api/v1/nni"
    for name in ("check-status", "experiment", "experiment/imported-data", "experiment-metadata"):
        yield f"{url}/{name}"
    yield from (f"{url}/job-statistics", f"{url}/export-data", f"{url}/experiments-info")
    for trial in ask(f"{url}/trial-jobs"):
        yield f"{url}/trial-jobs/{trial['trialJobId']}"
        yield f"{url}/metric-data/{trial['trialJobId']}"
        if experiment_id != "machines":
            yield from (
                f"{url}/trial-file/{trial['trialJobId']}/{name}" for name in ("stdout", "parameter.cfg")
            )
    yield from (f"{url}/trial-jobs?status=SUCCEEDED", f"{url}/metric-data", f"{url}/metric-data?type=FINAL")
    yield from (f"{url}/metric-data-range/1/3", f"{url}/metric-data-latest")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
