"""Route for the feed of an experiment, which describes its facts in sentences."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from fastapi.responses import Response

from nnimgr.api import models
from nnimgr.api.dependencies import Reader, refusals, reply
from nnimgr.api.feed import TOLD, Names, mentioned, tell
from nnimgr.api.routing import Router
from nnimgr.store.reader import ExperimentReader

router = Router(prefix="/api/v1/experiments/{id}", tags=["events"])

_KINDS = frozenset(kind.__name__ for kind in TOLD)


Number = Query(ge=0, lt=2**63, description="number of a fact")


@router.get("/feed", response_model=models.Feed, responses=refusals(404, 422))
async def read_feed(
    reader: Reader,
    before: Annotated[int | None, Number] = None,
    after: Annotated[int | None, Number] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    trial_id: Annotated[str | None, Query(alias="trialId", max_length=16)] = None,
) -> Response:
    """Return one sentence for each event of the experiment, newest first. Metrics are omitted.

    With ``after`` alone, the page begins directly after the fact with that number, so that nothing is missed.
    Otherwise, the page ends directly before the fact number ``before``, or with the newest event.
    """
    return await reply(lambda: _feed(reader, before, after, limit, trial_id))


def _feed(
    reader: ExperimentReader, before: int | None, after: int | None, limit: int, trial_id: str | None
) -> models.Feed:
    last = reader.experiment().last_number  # read before the facts, so that later facts are on the next page
    forward = after is not None and before is None
    page = reader.facts_between(
        _KINDS, before=before, after=after or 0, trial_id=trial_id, oldest=forward, limit=limit
    )
    trials = reader.trials_of({each for recorded in page for each in mentioned(recorded.fact)})
    names = Names(trials)
    entries = []
    for number, at, fact in page:
        severity, sentence = tell(fact, names)
        about = next(iter(mentioned(fact)), None)
        row = trials.get(about) if about is not None else None
        entries.append(
            models.FeedEntry(
                number=number,
                at=at,
                severity=severity,
                sentence=sentence,
                trial_id=about,
                sequence=row.sequence if row is not None else None,
            )
        )
    full = len(page) == limit
    newest = page[0].number if page else 0
    return models.Feed(
        entries=entries,
        next_before=page[-1].number if page and (full or forward) else None,
        next_after=newest if full and forward else max(last, newest, after or 0),
    )
