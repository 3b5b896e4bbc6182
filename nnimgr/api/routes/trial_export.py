"""Trials as a file: CSV with a column for each parameter and metric, or JSON."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from nnimgr.api.analysis import Analysis, Filter
from nnimgr.api.dependencies import ExperimentId, Parts, Reader, refusals, streams
from nnimgr.api.export import as_csv, as_json
from nnimgr.api.routes.trials import Order, Search, Sort, Statuses

router = APIRouter(prefix="/api/v1/experiments/{id}", tags=["trials"])


class ExportFormat(StrEnum):
    CSV = "csv"
    JSON = "json"


@router.get(
    "/trials/export",
    response_class=StreamingResponse,
    responses=streams("text/csv", "application/json") | refusals(404, 422, 503),
)
async def export_trials(
    parts: Parts,
    experiment_id: ExperimentId,
    reader: Reader,
    analysis: Analysis,
    format: ExportFormat = ExportFormat.CSV,
    filter: Filter = "",
    sort: Sort = "sequence",
    order: Order = Order.ASCENDING,
    status: Statuses = None,
    search: Search = "",
    trial_ids: Annotated[
        str, Query(alias="trialIds", max_length=100_000, description="only these, separated by commas")
    ] = "",
    columns: Annotated[
        str,
        Query(
            max_length=20_000,
            description="separated by commas: id, reason, note or any of `columns/schema`; all if none is "
            "named",
        ),
    ] = "",
) -> StreamingResponse:
    """The trials that match, all of them. JSON has whole trials, unless columns are named."""
    found = await analysis.ask_json(
        "export",
        filter=filter,
        search=search,
        statuses=status or [],
        trial_ids=[trial_id.strip() for trial_id in trial_ids.split(",")] if trial_ids else None,
        sort=sort,
        descending=order is Order.DESCENDING,
        columns=columns,
    )
    if format is ExportFormat.CSV:
        text = as_csv(reader, found["sequences"], found["columns"])
    else:
        names = found["columns"] if columns else None
        text = as_json(reader, found["sequences"], names, places=parts.places(experiment_id))
    name = f"{experiment_id}-trials.{format.value}"
    media_type = "application/json" if format is ExportFormat.JSON else "text/csv; charset=utf-8"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(text, media_type=media_type, headers=headers)
