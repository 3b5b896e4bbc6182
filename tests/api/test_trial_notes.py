"""Notes and tags of trials, and saved views, over REST."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from tests.api.lab import EXPERIMENT, Lab


async def send(lab: Lab, method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
    answer = await lab.client.request(method, f"{EXPERIMENT}/{path}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


async def annotate(lab: Lab, sequence: int, **changes: Any) -> Any:
    return await send(lab, "PATCH", f"trials/{lab.life.trial(sequence)}/annotation", changes)


async def sequences(lab: Lab, query: str) -> list[int]:
    return [trial["sequence"] for trial in (await send(lab, "GET", f"trials?{query}"))["trials"]]


@pytest.fixture
async def four(lab: Lab) -> Lab:
    """Create four trials, two of which have ended."""
    for sequence in range(2):
        lab.life.start(sequence)
        lab.life.metric(sequence, 0, 0.5, "FINAL")
        lab.life.end(sequence)
    await lab.runner.commit()
    return lab


async def test_a_trial_shows_its_note_and_tags(lab: Lab) -> None:
    first = lab.life.trial(0)
    assert await annotate(lab, 0, note="good\n<b>run</b>") == {"userNote": "good\n<b>run</b>", "tags": []}
    assert (await annotate(lab, 0, tags=["a", "größer", "a"]))["tags"] == ["a", "größer"]
    shown = await send(lab, "GET", f"trials/{first}")
    assert (shown["userNote"], shown["tags"], shown["note"]) == ("good\n<b>run</b>", ["a", "größer"], None)
    (page, *others) = (await send(lab, "GET", "trials"))["trials"]
    assert (page["userNote"], page["tags"]) == (shown["userNote"], shown["tags"])
    assert {(each["userNote"], *each["tags"]) for each in others} == {("",)}
    assert await annotate(lab, 0, note="", tags=[]) == {"userNote": "", "tags": []}


async def test_who_follows_the_experiments_hears_of_a_change(lab: Lab) -> None:
    follower = lab.manager.changes.follow()
    await annotate(lab, 0, note="x")
    assert await follower.take() == {"exp": 0}


@pytest.mark.parametrize(
    "body",
    [
        {"note": "x" * 4001},
        {"note": "\x00"},
        {"tags": ["x" * 41]},
        {"tags": ["a,b"]},
        {"tags": [""]},
        {"tags": [" a"]},
        {"tags": ["a\nb"]},
        {"tags": [str(number) for number in range(21)]},
        {"tag": "a"},
    ],
)
async def test_annotations_that_are_refused(lab: Lab, body: Any) -> None:
    await send(lab, "PATCH", f"trials/{lab.life.trial(0)}/annotation", body, status=422)
    assert (await send(lab, "GET", f"trials/{lab.life.trial(0)}"))["tags"] == []


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({"tags": ["x" * 41]}, "body.tags.0", "must have at most 40 characters"),
        ({"note": "x" * 4001}, "body.note", "must have at most 4000 characters"),
        ({"tags": [str(n) for n in range(21)]}, "body.tags", "must have at most 20 items, not 21"),
    ],
)
async def test_what_is_too_long_says_how_long_it_may_be(
    lab: Lab, body: Any, field: str, message: str
) -> None:
    answer = await send(lab, "PATCH", f"trials/{lab.life.trial(0)}/annotation", body, status=422)
    assert answer["error"]["problems"] == [{"field": field, "message": message}]


async def test_half_a_surrogate_pair_is_refused(lab: Lab) -> None:
    path = f"{EXPERIMENT}/trials/{lab.life.trial(0)}/annotation"
    for text in (r'{"note": "\ud800"}', r'{"tags": ["\udfff"]}'):
        answer = await lab.client.patch(path, content=text, headers={"content-type": "application/json"})
        assert answer.status_code == 422


async def test_an_unknown_trial_is_not_found(lab: Lab) -> None:
    answer = await send(lab, "PATCH", "trials/nobody/annotation", {"note": "x"}, status=404)
    assert answer["error"]["message"] == "There is no trial nobody."


async def test_tags_of_several_trials(four: Lab) -> None:
    lab = four
    ids = [lab.life.trial(sequence) for sequence in range(3)]
    await annotate(lab, 0, tags=["old", "kept"])
    answer = await send(lab, "POST", "tags", {"trialIds": ids, "add": ["new"], "remove": ["old"]})
    assert answer["trials"] == [
        {"id": ids[0], "tags": ["kept", "new"]},
        {"id": ids[1], "tags": ["new"]},
        {"id": ids[2], "tags": ["new"]},
    ]
    assert await send(lab, "GET", "tags") == {
        "tags": [{"tag": "new", "trials": 3}, {"tag": "kept", "trials": 1}]
    }
    many = [str(number) for number in range(19)]
    refused = await send(lab, "POST", "tags", {"trialIds": ids, "add": many}, status=409)
    assert refused["error"]["message"] == f"Trial {ids[0]} would have 21 tags; the limit is 20."
    await send(lab, "POST", "tags", {"trialIds": [*ids, "nobody"], "add": ["x"]}, status=404)
    assert [tag["tag"] for tag in (await send(lab, "GET", "tags"))["tags"]] == ["new", "kept"]


async def test_filters_and_searches_find_what_users_have_added(four: Lab) -> None:
    lab = four
    await annotate(lab, 0, note="the baseline of May", tags=["baseline"])
    await annotate(lab, 1, tags=["x; y", "other"])
    assert await sequences(lab, "filter=tags:baseline") == [0]
    assert await sequences(lab, "filter=tags:[baseline,other]&sort=value&order=desc") == [0, 1]
    assert await sequences(lab, 'filter=tags:"x; y"') == [1]
    assert await sequences(lab, "filter=tags≠baseline&limit=2") == [1, 2]
    assert await sequences(lab, "search=of may") == [0]
    assert await sequences(lab, "search=OTHER&filter=sequence>=0") == [1]
    await annotate(lab, 2, tags=["baseline"])
    assert await sequences(lab, "filter=tags:baseline") == [0, 2]
    await annotate(lab, 0, tags=[])
    assert await sequences(lab, "filter=tags:baseline") == [2]


async def test_charts_follow_a_filter_of_tags(four: Lab) -> None:
    lab = four
    axes = {"axes": [{"name": "value"}], "filter": "tags:a", "lines": 10}
    path = f"{EXPERIMENT}/analysis/parallel"
    before = await lab.client.post(path, json=axes)
    await annotate(lab, 0, tags=["a"])
    after = await lab.client.post(path, json=axes)
    assert (before.status_code, after.status_code) == (200, 200)
    assert before.content != after.content


async def test_an_export_has_notes_and_tags(lab: Lab) -> None:
    await annotate(lab, 0, note="=1+1\nline", tags=["a", "b c"])
    answer = await lab.client.get(f"{EXPERIMENT}/trials/export?filter=sequence<2")
    (first, second) = csv.DictReader(io.StringIO(answer.text))
    assert (first["userNote"], first["tags"]) == ("'=1+1\nline", "a,b c")
    assert (second["userNote"], second["tags"]) == ("", "")
    found = await send(lab, "GET", "trials/export?format=json&columns=userNote,tags&filter=sequence<2")
    assert found["trials"] == [
        {"userNote": "=1+1\nline", "tags": ["a", "b c"]},
        {"userNote": None, "tags": []},
    ]


CONTENT = {
    "columns": ["sequence", "parameters.x, y"],
    "filter": "x>1",
    "search": "",
    "statuses": ["FAILED"],
    "withoutResult": False,
    "sort": "value",
    "order": "desc",
}


async def test_views_are_saved_listed_renamed_and_deleted(lab: Lab) -> None:
    follower = lab.manager.changes.follow()
    saved = await send(lab, "POST", "views", {"name": "bad / slow", "content": CONTENT}, status=201)
    assert saved == {"id": 1, "name": "bad / slow", "content": CONTENT}
    assert await follower.take() == {"exp": 0}
    await send(lab, "POST", "views", {"name": "all", "content": {}}, status=201)
    taken = await send(lab, "POST", "views", {"name": "all", "content": {}}, status=409)
    assert taken["error"]["message"] == ('There is another view with the name "all": choose another name.')
    renamed = await send(lab, "PATCH", "views/1", {"name": "slow"})
    assert renamed == saved | {"name": "slow"}
    changed = await send(lab, "PATCH", "views/2", {"content": {"filter": "x>2"}})
    assert (changed["name"], changed["content"]["filter"]) == ("all", "x>2")
    assert await send(lab, "GET", "views") == {"views": [changed, renamed]}
    assert await send(lab, "DELETE", "views/2") == {"ok": True}
    assert await send(lab, "GET", "views") == {"views": [renamed]}
    for method, body in (("DELETE", None), ("PATCH", {"name": "x"})):
        await send(lab, method, "views/2", body, status=404)


@pytest.mark.parametrize(
    "body",
    [
        {"name": "", "content": {}},
        {"name": "x" * 61, "content": {}},
        {"name": "a\nb", "content": {}},
        {"name": "a"},
        {"name": "a", "content": {"statuses": ["DONE"]}},
        {"name": "a", "content": {"sort": ""}},
        {"name": "a", "content": {"colour": "red"}},
    ],
)
async def test_views_that_are_refused(lab: Lab, body: Any) -> None:
    await send(lab, "POST", "views", body, status=422)
    assert await send(lab, "GET", "views") == {"views": []}
