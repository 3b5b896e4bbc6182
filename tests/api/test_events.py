"""Event streams: a cursor that loses nothing, bounded memory, and their end."""

from __future__ import annotations

import asyncio
import gc

import pytest

from nnimgr.api import streams
from nnimgr.rules import facts as f
from tests.api.lab import BEARER, EXPERIMENT, Lab
from tests.api.streaming import opened

EVENTS = f"{EXPERIMENT}/events"


async def test_every_fact_comes_once_and_in_order(lab: Lab) -> None:
    lab.life.start(0)
    lab.life.metric(0, 0, 0.5)
    await lab.runner.commit()
    async with opened(lab.app, EVENTS) as stream:
        events = await stream.events(lab.runner.last_number)
    assert [event.id for event in events] == list(range(1, lab.runner.last_number + 1))
    assert [event.kind for event in events] == [type(r.fact).__name__ for r in lab.life.log]
    assert all(event.data["number"] == event.id for event in events)


async def test_a_reconnect_with_the_last_number_loses_nothing(lab: Lab) -> None:
    lab.life.start(0)
    await lab.runner.commit()
    seen: list[int | None] = []
    last = 0
    for step in range(4):
        # A metric arrives while no client listens. The client then reconnects with its last number.
        lab.life.metric(0, 2 * step, 0.1)
        await lab.runner.commit()
        async with opened(lab.app, EVENTS, headers=BEARER | {"Last-Event-ID": str(last)}) as stream:
            seen += [event.id for event in await stream.events(lab.runner.last_number)]
            lab.runner.waiting.clear()
            await asyncio.wait_for(lab.runner.waiting.wait(), 10)
            lab.life.metric(0, 2 * step + 1, 0.2)
            await lab.runner.commit()
            seen += [event.id for event in await stream.events(lab.runner.last_number)]
        last = lab.runner.last_number
    assert seen == list(range(1, last + 1))


async def test_the_header_goes_before_the_query(lab: Lab) -> None:
    last = lab.runner.last_number
    async with opened(
        lab.app, f"{EVENTS}?after=0", headers=BEARER | {"Last-Event-ID": str(last - 1)}
    ) as stream:
        event = await stream.event()
    assert event is not None and event.id == last
    async with opened(lab.app, f"{EVENTS}?after={last - 2}") as stream:
        event = await stream.event()
    assert event is not None and event.id == last - 1


@pytest.mark.parametrize("cursor", ["-1", "x", "9" * 30])
async def test_a_cursor_must_be_a_number(lab: Lab, cursor: str) -> None:
    answer = await lab.client.get(EVENTS, headers={"Last-Event-ID": cursor})
    assert answer.status_code == 422


async def test_pages_join_without_a_seam(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PAGE", 4)
    lab.life.start(0)
    for position in range(30):
        lab.life.metric(0, position, position / 10)
    await lab.runner.commit()
    async with opened(lab.app, EVENTS) as stream:
        events = await stream.events(lab.runner.last_number)
    assert [event.id for event in events] == list(range(1, lab.runner.last_number + 1))


async def test_a_client_that_does_not_read_holds_one_page(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PAGE", 4)
    pages: list[int] = []
    reading = lab.manager.reading.facts

    def counting(*, after: int, limit: int) -> list[f.Recorded]:
        pages.append(after)
        return reading(after=after, limit=limit)

    monkeypatch.setattr(lab.manager.reading, "facts", counting)
    lab.life.start(0)
    for position in range(400):
        lab.life.metric(0, position, 0.5)
    await lab.runner.commit()
    async with opened(lab.app, EVENTS) as stream:
        await stream.event()  # one page was read and taken, two more wait
        await stream.until_stuck()
        assert len(pages) <= 5


async def test_a_stopped_experiment_is_replayed_and_closed(lab: Lab) -> None:
    lab.life.take(f.ExperimentStopRequested())
    lab.life.end(0)
    lab.life.end(1)
    await lab.runner.commit()
    assert lab.life.state.status is f.ExperimentStatus.STOPPED
    async with opened(lab.app, EVENTS) as stream:
        events = await stream.events(lab.runner.last_number)
        closed = await stream.event()
        assert await stream.event() is None
    assert len(events) == lab.runner.last_number
    assert closed is not None and closed.kind == "closed" and closed.id is None
    assert closed.data == {"status": "STOPPED", "reason": lab.life.state.reason}


async def test_an_experiment_of_no_server_is_replayed_and_closed(lab: Lab) -> None:
    last, lab.manager.runner = lab.runner.last_number, None
    async with opened(lab.app, EVENTS) as stream:
        assert len(await stream.events(last)) == last
        closed = await stream.event()
    assert closed is not None and closed.kind == "closed"


async def test_a_runner_that_ends_while_somebody_waits(lab: Lab) -> None:
    async with opened(lab.app, EVENTS) as stream:
        await stream.events(lab.runner.last_number)
        await asyncio.wait_for(lab.runner.waiting.wait(), 10)
        lab.manager.runner = None
        lab.runner.end()
        closed = await stream.event()
        assert closed is not None and closed.kind == "closed"
        assert await stream.event() is None


async def test_a_deleted_experiment_ends_its_streams(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(lab.app, EVENTS) as stream:
        await stream.events(lab.runner.last_number)

        def gone(*args: object, **kwargs: object) -> list[object]:
            raise FileNotFoundError("there is no database")

        await asyncio.wait_for(lab.runner.waiting.wait(), 10)
        monkeypatch.setattr(lab.manager.reading, "facts", gone)
        lab.runner.end()
        assert await stream.event() is None


async def test_a_leaving_server_ends_its_streams(lab: Lab) -> None:
    async with opened(lab.app, EVENTS) as stream:
        await stream.events(lab.runner.last_number)
        lab.parts.shutdown.closing.set()
        assert await stream.event() is None  # no "closed" event, because the client has to reconnect


async def test_heartbeats(lab: Lab) -> None:
    stream = streams.event_stream(
        lab.manager.reading,
        find=lambda: lab.runner,  # type: ignore[arg-type,return-value]
        after=lab.runner.last_number,
        heartbeat_s=0.01,
    )
    assert (await anext(stream)).startswith(b"retry:")
    assert await anext(stream) == b": still here\n\n"
    assert await anext(stream) == b": still here\n\n"
    await stream.aclose()


async def test_what_events_say(lab: Lab) -> None:
    lab.life.start(0)
    lab.life.take(f.MetricReported(lab.life.job(0), 0, "PERIODICAL", 0, "0", None, "NaN"))
    lab.life.take(
        f.AlgorithmFailed(role=f.Role.TUNER, call="generate_parameters", sentence="it raised", traceback="tb")
    )
    await lab.runner.commit()
    async with opened(lab.app, EVENTS) as stream:
        events = await stream.events(lab.runner.last_number)
    by_kind = {event.kind: event.data for event in events}
    trial = lab.life.trial(0)
    metric = by_kind["MetricReported"]
    assert (metric["trialId"], metric["attempt"], metric["value"], metric["text"]) == (trial, 1, None, "NaN")
    assert metric["at"] == "2026-01-01T00:00:00+00:00"
    assert by_kind["Suggested"]["parameters"] == {"x": 1}
    assert by_kind["JobPlaced"]["place"]["keeperId"] == "local"
    assert by_kind["ExperimentCreated"]["searchSpace"] == {"x": {"_type": "uniform", "_value": [0, 1]}}
    assert by_kind["ExperimentCreated"]["limits"]["trialConcurrency"] == 2
    assert by_kind["AlgorithmFailed"]["sentence"] == "it raised"
    assert "tokenSha256" not in by_kind["KeeperEnrolled"]


# ---- of the server ----------------------------------------------------------------------------------------


async def test_the_server_says_which_experiment_has_moved_on(lab: Lab) -> None:
    changes = lab.manager.changes
    changes.tell("before", 1)
    async with opened(lab.app, "/api/v1/events") as stream:
        await stream.text("retry")  # from here on, no change is missed
        changes.tell("one", 5)
        changes.tell("two", 7)
        events = [await stream.event(), await stream.event()]
        changes.tell("one", 8)
        events.append(await stream.event())
    assert [(event.kind, event.id, event.data) for event in events if event is not None] == [
        ("changed", None, {"experiment": "one", "number": 5}),
        ("changed", None, {"experiment": "two", "number": 7}),
        ("changed", None, {"experiment": "one", "number": 8}),
    ]


async def test_many_changes_are_one_to_a_client_that_does_not_read(lab: Lab) -> None:
    changes = lab.manager.changes
    async with opened(lab.app, "/api/v1/events") as stream:
        await stream.text("retry")
        stuck = asyncio.create_task(stream.until_stuck())
        last = 0
        while not stuck.done():
            last += 1
            changes.tell("one", last)
            await asyncio.sleep(0)
        changes.tell("one", last + 1000)
        numbers: list[int] = []
        while last + 1000 not in numbers:
            event = await stream.event()
            assert event is not None
            numbers.append(event.data["number"])
    assert len(numbers) == 3  # one change was taken, one waited, and the others became one


async def test_the_stream_of_the_server_ends_with_it(lab: Lab) -> None:
    async with opened(lab.app, "/api/v1/events") as stream:
        await stream.text("retry")
        lab.parts.shutdown.closing.set()
        assert await stream.event() is None


async def test_a_client_that_has_gone_is_told_nothing_more(lab: Lab) -> None:
    async with opened(lab.app, "/api/v1/events") as stream:
        await stream.text("retry")
    gc.collect()
    assert not lab.manager.changes.followers


async def test_the_stream_of_the_server_needs_the_token(lab: Lab) -> None:
    assert (await lab.client.get("/api/v1/events", headers={"Authorization": "Bearer no"})).status_code == 401
