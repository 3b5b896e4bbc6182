"""Charts of an experiment's trials, computed by the analysis process as pictures instead of all trials.

Answers of the type ``application/vnd.nnimgr.columns`` have the format that ``/columns`` describes.
"""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import Field

from nnimgr.api import models
from nnimgr.api.analysis import COLUMNS, Analysis, Filter
from nnimgr.api.dependencies import ExperimentId, Parts, refusals, streams

router = APIRouter(prefix="/api/v1/experiments/{id}/analysis", tags=["analysis"])

_PACKED = streams(COLUMNS) | refusals(404, 422, 503)
_JSON = "application/json"

Metric = Annotated[str, Query(max_length=500, description="a column of numbers")]
Mode = Annotated[
    models.OptimizeMode | None, Query(description="what is best; the tuner's optimize_mode if not given")
]
Number = Annotated[float | None, Query(allow_inf_nan=False)]
ColumnName = Annotated[str, Query(max_length=500, description="a column, as in `columns/schema`")]
Logarithmic = Annotated[bool | None, Query(description="as the search space says if not given")]


@router.post("/parallel", response_class=Response, responses=_PACKED)
async def parallel_coordinates(analysis: Analysis, wanted: models.ParallelQuestion) -> Response:
    """Parallel coordinates of all trials: histograms on the axes and between neighbouring ones.

    An axis of numbers has equal parts (`bins`) from `low` to `high`, of their logarithms if `log`; one of
    few integers a part for each of these, one of categories a part for each. Of trials without a value
    there is one more part, the last. Header: `axes` (name, kind, log, bins, low, high, min, max,
    categories), `total` (trials that the filter lets through), `selected` (those of them in all brushes and
    the top share), `metric` (min, max).

    Columns: for axis i `axis.i.all` and `axis.i.selected` (trials in each part). Between axes i and i + 1
    the cells that have any trial, numbered `left * (bins of the right axis + 1) + right`: `all.i.cells`,
    `all.i.counts`, and `selected.i.cells`, `selected.i.counts`, `selected.i.mean` (of the metric).
    `sequences`: the selected trials, if they are not more than `lines`.
    """
    question = wanted.model_dump(mode="json", by_alias=False)
    return Response(await analysis.ask("parallel", **question), media_type=COLUMNS)


@router.get("/curves", response_class=Response, responses=_PACKED)
async def curves(
    analysis: Analysis,
    key: Annotated[
        str, Query(max_length=500, description="of metrics that are objects; `keys` says which there are")
    ] = "default",
    filter: Filter = "",
    lines: Annotated[
        int, Query(ge=0, le=10_000, description="at most; evenly spread over the trials")
    ] = 1000,
    points: Annotated[int, Query(ge=4, le=10_000, description="of a line and of the band, at most")] = 200,
    sequence: Annotated[
        list[Annotated[int, Field(ge=0, lt=2**32)]] | None,
        Query(max_length=1000, description="of a trial whose line is wanted in any case; may be repeated"),
    ] = None,
    index: Annotated[
        int | None, Query(ge=0, lt=2**53, description="only curves with a value at this step ...")
    ] = None,
    low: Annotated[Number, Query(alias="from", description="... that is at least this ...")] = None,
    high: Annotated[Number, Query(alias="to", description="... and at most this")] = None,
) -> Response:
    """Intermediate metrics: lines with fewer points that keep their peaks, and the band of all that match.

    Header: `total` (matching curves), `lines`, `key`, `keys`. Columns: `line.sequence` and `line.start`
    (where its points begin; one more, their end); `x` (NNI's sequence of the metric) and `y` of all lines;
    `band.x`, `band.count` (metrics there), `band.p10`, `band.p50`, `band.p90`.
    """
    answer = await analysis.ask(
        "curves",
        key=key,
        filter=filter,
        lines=lines,
        points=points,
        sequences=sequence,
        index=index,
        low=low,
        high=high,
    )
    return Response(answer, media_type=COLUMNS)


@router.get("/density", response_class=Response, responses=_PACKED)
async def density(
    analysis: Analysis,
    x: ColumnName,
    y: Annotated[str | None, Query(max_length=500, description="along x alone if not given")] = None,
    bins: Annotated[int, Query(ge=2, le=512)] = 64,
    x_log: Annotated[Logarithmic, Query(alias="xLog")] = None,
    y_log: Annotated[Logarithmic, Query(alias="yLog")] = None,
    filter: Filter = "",
    metric: Metric = "value",
) -> Response:
    """A scatter plot as a grid, for when there are too many trials to draw each.

    Header: `axes` (as of parallel coordinates), `total` (matching trials), `shown` (those that have both
    values). Columns, of the cells that have any trial: `x`, `y` (numbers of their parts), `count`, and of
    the metric `mean`, `min`, `max`.
    """
    answer = await analysis.ask(
        "density", x=x, y=y, bins=bins, x_log=x_log, y_log=y_log, filter=filter, metric=metric
    )
    return Response(answer, media_type=COLUMNS)


@router.get("/importance", response_model=models.Importance, responses=refusals(404, 422, 503))
async def importance(
    analysis: Analysis, filter: Filter = "", metric: Metric = "value", mode: Mode = None
) -> Response:
    """How much each parameter matters for being among the best tenth of the trials, by PED-ANOVA."""
    answer = await analysis.ask("importance", filter=filter, metric=metric, mode=mode)
    return Response(answer, media_type=_JSON)


@router.get("/history", response_model=models.History, responses=refusals(404, 422, 503))
async def history(
    analysis: Analysis,
    points: Annotated[int, Query(ge=2, le=10_000)] = 200,
    filter: Filter = "",
    metric: Metric = "value",
    mode: Mode = None,
) -> Response:
    """The best result so far: each trial that was better than all before it, by sequence."""
    answer = await analysis.ask("history", points=points, filter=filter, metric=metric, mode=mode)
    return Response(answer, media_type=_JSON)


@router.get("/pareto", response_model=models.ParetoSet, responses=refusals(404, 422, 503))
async def pareto(
    analysis: Analysis,
    filter: Filter = "",
    limit: Annotated[
        int, Query(ge=2, le=10_000, description="trials at most; evenly spread over the set")
    ] = 1000,
) -> Response:
    """The Pareto set of the experiment's objectives, in the order of the main one."""
    return Response(await analysis.ask("pareto", filter=filter, limit=limit), media_type=_JSON)


@router.get("/timeline", response_class=Response, responses=_PACKED)
async def timeline(
    parts: Parts,
    experiment_id: ExperimentId,
    analysis: Analysis,
    begin: Annotated[
        Number, Query(alias="from", ge=0, description="seconds since the experiment's creation; 0 by default")
    ] = None,
    end: Annotated[Number, Query(alias="to", ge=0, description="the end of all there is by default")] = None,
    pixels: Annotated[int, Query(ge=10, le=10_000, description="how wide the picture is")] = 1000,
    filter: Filter = "",
) -> Response:
    """Which attempts ran where and when; what is narrower than a pixel is merged.

    Header: `lanes` (keeperId, gpu: null without one, part: there are several where attempts share a place),
    `from` and `to` (of the picture), `begin` and `end` (of all there is), `originAt`. Columns of the bars:
    `lane`, `start` and `end` (seconds since `originAt`), `sequence`, `attempt`, `count` (more than 1:
    merged, these are of the first), `busy` (share of the bar that anything ran), `status` (an attempt with
    a successor is LOST or RETRIED; of a merged bar the most frequent). Of the whole experiment, at the end
    of each pixel: `queue.at`, `queue.waiting` (trials without a place yet), `queue.running` (attempts).
    """
    live = parts.manager.find(experiment_id) is not None
    answer = await analysis.ask(
        "timeline",
        begin=begin,
        end=end,
        pixels=pixels,
        filter=filter,
        now=time.time() if live else None,
    )
    return Response(answer, media_type=COLUMNS)


@router.get("/rungs", response_class=Response, responses=_PACKED)
async def rungs(
    analysis: Analysis,
    filter: Filter = "",
    lines: Annotated[
        int, Query(ge=1, le=20_000, description="configurations at most; those that came far first")
    ] = 2000,
) -> Response:
    """Which trials came to which rung, which of them went on, and which were stopped there by whom.

    A rung is a budget (`TRIAL_BUDGET`, where trials have several: a promoted configuration is a further
    trial with a larger one), or else a number of reports at which the assessor has stopped trials; of very
    many such numbers a range. Header: `by` (budget or step), `minimise`, `total` (configurations that
    match), `lines` (drawn ones), `rungs` (ascending; of each `from`, `to`, how many of the matching trials
    came to it: `reached`, what became of them: `promoted`, `stopped`, `running`, `left`, and `cut`, the
    sequence and value of the worst that went on), `verdicts` (of drawn trials that the assessor has stopped:
    `sequence`, `reason`, and in `better` the sequences of trials that beat it, as far as the assessor names
    any). Columns of the points: `rung`, `sequence`, `value`, `fate` and `next` (the point of the same
    configuration at its next rung; 4294967295: none).
    """
    return Response(await analysis.ask("rungs", filter=filter, lines=lines), media_type=COLUMNS)


@router.get("/stopped", response_model=models.StoppedTrials, responses=refusals(404, 422, 503))
async def stopped(
    analysis: Analysis,
    filter: Filter = "",
    by: Annotated[models.StoppedBy | None, Query(description="only those that it has stopped")] = None,
    offset: Annotated[int, Query(ge=0, lt=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Who was stopped before its end: by whom, at which step, with which value and why; newest first."""
    answer = await analysis.ask("stopped", filter=filter, by=by, offset=offset, limit=limit)
    return Response(answer, media_type=_JSON)
