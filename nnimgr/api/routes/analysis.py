"""Routes for charts of an experiment's trials. The analysis process computes the charts' data from all
trials.

Answers of the type ``application/vnd.nnimgr.columns`` have the format that ``/columns`` describes.
"""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import Query
from fastapi.responses import Response
from pydantic import Field

from nnimgr.api import models
from nnimgr.api.analysis import COLUMNS, Analysis, Filter
from nnimgr.api.dependencies import ExperimentId, Parts, refusals, streams
from nnimgr.api.routing import Router

router = Router(prefix="/api/v1/experiments/{id}/analysis", tags=["analysis"])

_PACKED = streams(COLUMNS) | refusals(404, 422, 503)
_JSON = "application/json"

Metric = Annotated[str, Query(max_length=500, description="a column of numbers")]
Mode = Annotated[
    models.OptimizeMode | None,
    Query(description="direction of the metric; default: the tuner's optimize_mode"),
]
Number = Annotated[float | None, Query(allow_inf_nan=False)]
ColumnName = Annotated[str, Query(max_length=500, description="name of a column, as in `columns/schema`")]
Logarithmic = Annotated[bool | None, Query(description="logarithmic axis; default: as in the search space")]


@router.post("/parallel", response_class=Response, responses=_PACKED)
async def parallel_coordinates(analysis: Analysis, wanted: models.ParallelQuestion) -> Response:
    """Return the data of a chart with parallel coordinates: histograms on its axes and between neighbouring
    axes.

    Bins: an axis of numbers has `bins` equal bins from `low` to `high` (on a logarithmic scale if `log`). An
    axis of few integers, or of categories, has one bin per value. Each axis has one more bin, the last, for
    trials without a value.

    Header: `axes` (name, kind, log, bins, low, high, min, max, categories), `total` (trials that match the
    filter), `selected` (trials that also match all brushes and `top`), `metric` (min, max).

    Columns: for axis i, `axis.i.all` and `axis.i.selected` (number of trials in each bin). Between the axes i
    and i + 1, a cell is a pair of bins, numbered `left * (bins of the right axis + 1) + right`. `all.i.cells`
    has the cells with trials, `all.i.counts` the number of trials in each. `selected.i.cells` and
    `selected.i.counts` are the same for selected trials, and `selected.i.mean` is the mean of their metric.
    `sequences` has the sequence numbers of the selected trials, if there are at most `lines`.
    """
    question = wanted.model_dump(mode="json", by_alias=False)
    return Response(await analysis.ask("parallel", **question), media_type=COLUMNS)


@router.get("/curves", response_class=Response, responses=_PACKED)
async def curves(
    analysis: Analysis,
    key: Annotated[
        str,
        Query(
            max_length=500, description="key of metrics that are objects; `keys` in the answer lists all keys"
        ),
    ] = "default",
    filter: Filter = "",
    lines: Annotated[
        int, Query(ge=0, le=10_000, description="largest number of lines, evenly spread over the trials")
    ] = 1000,
    points: Annotated[
        int, Query(ge=4, le=10_000, description="largest number of points of a line and of the band")
    ] = 200,
    sequence: Annotated[
        list[Annotated[int, Field(ge=0, lt=2**32)]] | None,
        Query(
            max_length=1000, description="sequence of a trial whose line is always included; may be repeated"
        ),
    ] = None,
    index: Annotated[
        int | None, Query(ge=0, lt=2**53, description="only curves with a value at this step")
    ] = None,
    low: Annotated[Number, Query(alias="from", description="smallest value at that step")] = None,
    high: Annotated[Number, Query(alias="to", description="largest value at that step")] = None,
) -> Response:
    """Return the curves of intermediate metrics, with fewer points that keep their peaks, and a band of
    quantiles.

    Header: `total` (number of matching curves), `lines` (number of returned curves), `key`, `keys`.

    Columns: `line.sequence` (sequence number of each curve's trial) and `line.start` (index of the curve's
    first point; one more entry marks the end); `x` (NNI's sequence of the metric) and `y` of all points. The
    band of all matching curves has `band.x`, `band.count` (number of metrics), `band.p10`, `band.p50`,
    `band.p90`.
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
    y: Annotated[
        str | None, Query(max_length=500, description="name of a column; default: bins along x only")
    ] = None,
    bins: Annotated[int, Query(ge=2, le=512)] = 64,
    x_log: Annotated[Logarithmic, Query(alias="xLog")] = None,
    y_log: Annotated[Logarithmic, Query(alias="yLog")] = None,
    filter: Filter = "",
    metric: Metric = "value",
) -> Response:
    """Return a scatter plot as a grid of cells, for more trials than can be drawn as dots.

    Header: `axes` (as in parallel coordinates), `total` (matching trials), `shown` (trials with both values).

    Columns, with one row per cell that contains trials: `x`, `y` (numbers of the bins), `count` (number of
    trials), and `mean`, `min`, `max` of the metric.
    """
    answer = await analysis.ask(
        "density", x=x, y=y, bins=bins, x_log=x_log, y_log=y_log, filter=filter, metric=metric
    )
    return Response(answer, media_type=COLUMNS)


@router.get("/importance", response_model=models.Importance, responses=refusals(404, 422, 503))
async def importance(
    analysis: Analysis, filter: Filter = "", metric: Metric = "value", mode: Mode = None
) -> Response:
    """Return the importance of each parameter for being among the best tenth of the trials, by PED-ANOVA."""
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
    """Return the history of the best result: each trial that was better than all earlier trials, by sequence
    number.
    """
    answer = await analysis.ask("history", points=points, filter=filter, metric=metric, mode=mode)
    return Response(answer, media_type=_JSON)


@router.get("/pareto", response_model=models.ParetoSet, responses=refusals(404, 422, 503))
async def pareto(
    analysis: Analysis,
    filter: Filter = "",
    limit: Annotated[
        int, Query(ge=2, le=10_000, description="largest number of trials, evenly spread over the set")
    ] = 1000,
) -> Response:
    """Return the Pareto set of the experiment's objectives, the best trial in the main objective first."""
    return Response(await analysis.ask("pareto", filter=filter, limit=limit), media_type=_JSON)


@router.get("/timeline", response_class=Response, responses=_PACKED)
async def timeline(
    parts: Parts,
    experiment_id: ExperimentId,
    analysis: Analysis,
    begin: Annotated[
        Number, Query(alias="from", ge=0, description="seconds since the experiment's creation; default: 0")
    ] = None,
    end: Annotated[
        Number,
        Query(
            alias="to",
            ge=0,
            description="seconds since the experiment's creation; default: the end of the data",
        ),
    ] = None,
    pixels: Annotated[int, Query(ge=10, le=10_000, description="width of the chart")] = 1000,
    filter: Filter = "",
) -> Response:
    """Return which attempts ran when, on which machine and GPU. Attempts narrower than a pixel are merged.

    Header: `lanes` of the chart (`keeperId`; `gpu`, null without a GPU; `part`, if attempts share a GPU),
    `from` and `to` (of the chart), `begin` and `end` (of the data), `originAt`.

    Columns of the bars: `lane`, `start` and `end` (seconds since `originAt`), `sequence`, `attempt`, `count`
    (number of attempts; a bar with several has the sequence and attempt of the first), `busy` (share of the
    bar in which an attempt ran), `status` (LOST or RETRIED if another attempt has followed; in a merged bar,
    the most frequent status).

    Columns of the whole experiment, at the end of each pixel: `queue.at` (seconds since `originAt`),
    `queue.waiting` (number of trials without a place), `queue.running` (number of attempts).
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
        int,
        Query(
            ge=1,
            le=20_000,
            description="largest number of configurations; those that reached high rungs are preferred",
        ),
    ] = 2000,
) -> Response:
    """Return which trials reached each rung, which were promoted there, and which the assessor stopped there.

    A rung is a budget (`TRIAL_BUDGET`) if the tuner gives trials different budgets. A configuration is a
    parameter set without the budget; when it is promoted, it gets another trial with a larger budget.
    Otherwise, a rung is a number of reports after which the assessor has stopped trials, or a range of such
    numbers if there are very many.

    Header: `by` (budget or step), `minimise`, `total` (number of matching configurations), `lines` (number of
    returned configurations), `rungs` and `verdicts`. Each of `rungs` has `from`, `to`, `reached` (number of
    matching trials that reached it), the number of trials with each fate (`promoted`, `stopped`, `running`,
    `left`), and `cut` (sequence and value of the worst promoted trial). Each of `verdicts` is about a
    returned trial that the assessor has stopped: `sequence`, `reason`, and `better` (sequence numbers of the
    better trials that the assessor names).

    Columns, with one row per trial and rung: `rung`, `sequence`, `value`, `fate` and `next` (row of the same
    configuration at its next rung; 4294967295: none).
    """
    return Response(await analysis.ask("rungs", filter=filter, lines=lines), media_type=COLUMNS)


@router.get("/stopped", response_model=models.StoppedTrials, responses=refusals(404, 422, 503))
async def stopped(
    analysis: Analysis,
    filter: Filter = "",
    by: Annotated[
        models.StoppedBy | None, Query(description="return only trials that were stopped by this cause")
    ] = None,
    offset: Annotated[int, Query(ge=0, lt=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Return the stopped trials, the latest stop first: by whom, at which step and value, and why."""
    answer = await analysis.ask("stopped", filter=filter, by=by, offset=offset, limit=limit)
    return Response(answer, media_type=_JSON)
