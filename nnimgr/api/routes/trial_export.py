"""Route that exports trials as a file: CSV with a column for each parameter and metric, JSON, or Arrow."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from enum import StrEnum
from typing import Annotated, Any

from fastapi import Query
from fastapi.responses import StreamingResponse

from nnimgr.analysis.errors import BadQuestion
from nnimgr.api.analysis import Analysis, Filter
from nnimgr.api.dependencies import ExperimentId, refusals, streams
from nnimgr.api.models import Order
from nnimgr.api.routes.trials import Search, Sort, Statuses, WithoutResult
from nnimgr.api.routing import Router
from nnimgr.api.streams import PartedResponse
from nnimgr.libraries import fault_of

router = Router(prefix="/api/v1/experiments/{id}", tags=["trials"])


class ExportFormat(StrEnum):
    CSV = "csv"
    JSON = "json"
    ARROW = "arrow"


ARROW = "application/vnd.apache.arrow.stream"
_MEDIA_TYPES = {
    ExportFormat.CSV: "text/csv; charset=utf-8",
    ExportFormat.JSON: "application/json",
    ExportFormat.ARROW: ARROW,
}
_PAGE, _ARROW_PAGE = 1000, 10_000
_ARROW_END = b"\xff\xff\xff\xff\0\0\0\0"


@router.get(
    "/trials/export",
    response_class=StreamingResponse,
    responses=streams("text/csv", "application/json", ARROW) | refusals(404, 422, 503),
)
async def export_trials(
    experiment_id: ExperimentId,
    analysis: Analysis,
    format: ExportFormat = ExportFormat.CSV,
    filter: Filter = "",
    sort: Sort = "sequence",
    order: Order = Order.ASCENDING,
    status: Statuses = None,
    without_result: WithoutResult = False,
    search: Search = "",
    trial_ids: Annotated[
        str,
        Query(
            alias="trialIds",
            max_length=100_000,
            description="ids of the trials to export, separated by commas; default: all",
        ),
    ] = "",
    columns: Annotated[
        str,
        Query(
            max_length=20_000,
            description="names separated by commas: id, reason, note, userNote, tags or any of "
            "`columns/schema`; default: all",
        ),
    ] = "",
) -> StreamingResponse:
    """Return all matching trials: lines of CSV, `{"total", "trials"}` with one object per trial, or an Arrow
    IPC stream.

    Arrow has the columns of `columns/schema` and `id`, with times as timestamps. It needs the package pyarrow
    on the server. An interrupted answer is incomplete: CSV then lacks the remaining trials, and JSON and
    Arrow are not valid.
    """
    is_arrow = format is ExportFormat.ARROW
    if is_arrow and (lacks := fault_of(("pyarrow",))) is not None:
        raise BadQuestion("format", f"on the server, arrow {lacks}")
    found = await analysis.ask_json(
        "arrow" if is_arrow else "export",
        filter=filter,
        search=search,
        statuses=status or [],
        without_result=without_result,
        trial_ids=[trial_id.strip() for trial_id in trial_ids.split(",")] if trial_ids else None,
        sort=sort,
        descending=order is Order.DESCENDING,
        columns=columns,
    )
    if is_arrow:
        content: AsyncGenerator[bytes | str, None] = _messages(analysis, found["sequences"], found["fields"])
    else:
        how = {"columns": found["columns"], "format": format.value}
        content = _text(analysis, found["sequences"], how)
    headers = {"content-disposition": f'attachment; filename="{experiment_id}-trials.{format.value}"'}
    return PartedResponse(content, media_type=_MEDIA_TYPES[format], headers=headers)


async def _text(
    analysis: Analysis, sequences: list[int], how: dict[str, Any]
) -> AsyncGenerator[bytes | str, None]:
    """Yield the text of the export. Each page of the text is a separate question to the analysis process."""
    as_json = how["format"] == ExportFormat.JSON.value
    if as_json:
        yield f'{{"total":{len(sequences)},"trials":['
    else:
        yield await analysis.ask_in_stream("export_page", sequences=[], **how)
    for begin in range(0, len(sequences), _PAGE):
        shown = sequences[begin : begin + _PAGE]
        page = await analysis.ask_in_stream("export_page", sequences=shown, **how)
        yield b"," + page if as_json and begin else page
    if as_json:
        yield "]}"


async def _messages(
    analysis: Analysis, sequences: list[int], fields: list[Any]
) -> AsyncGenerator[bytes | str, None]:
    """Yield the messages of an Arrow IPC stream. Each one is a separate question to the analysis process."""
    yield await analysis.ask_in_stream("arrow_page", sequences=[], fields=fields)
    for begin in range(0, len(sequences), _ARROW_PAGE):
        shown = sequences[begin : begin + _ARROW_PAGE]
        yield await analysis.ask_in_stream("arrow_page", sequences=shown, fields=fields)
    yield _ARROW_END
