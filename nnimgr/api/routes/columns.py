"""All trials of an experiment as columns, for charts."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from fastapi.responses import Response

from nnimgr.api import models
from nnimgr.api.analysis import COLUMNS, Analysis, Filter
from nnimgr.api.dependencies import refusals, streams
from nnimgr.api.routing import Router

router = Router(prefix="/api/v1/experiments/{id}", tags=["analysis"])


@router.get("/columns", response_class=Response, responses=streams(COLUMNS) | refusals(404, 422, 503))
async def read_columns(
    analysis: Analysis,
    since: Annotated[
        int,
        Query(
            ge=0,
            lt=2**63,
            description="revision of an earlier answer: return only trials that may have changed since",
        ),
    ] = 0,
    names: Annotated[
        str,
        Query(
            max_length=20_000,
            description="column names, separated by commas, in quotes if they contain a comma; default: all",
        ),
    ] = "",
    filter: Filter = "",
    exact: Annotated[
        bool, Query(description="false: floats may be rounded to 32 bits, which halves the answer")
    ] = False,
) -> Response:
    """Return columns of the table of trials in binary form. The column `sequence` identifies the trials.

    Format: a u32 with the length of a JSON header, the header, zeros up to a multiple of 8, then the buffers
    with the columns' elements. All numbers are little-endian. The header has `revision`, `rows` and `total`
    (numbers of returned and of all trials), `originAt` (times are seconds since then) and `columns`. Each
    column has its `name`, `type` (f32, f64, u8, u16, u32), `offset` from the start of the buffers and
    `length` in elements. If its elements are codes, it has the `categories` that they stand for. NaN and the
    highest code mean that there is no value.
    """
    return Response(
        await analysis.ask("columns", since=since, names=names, filter=filter, exact=exact),
        media_type=COLUMNS,
    )


@router.get("/columns/schema", response_model=models.ColumnsSchema, responses=refusals(404, 503))
async def describe_columns(analysis: Analysis) -> Response:
    """Return the names of all columns that a filter can use, with their ranges and categories."""
    return Response(await analysis.ask("schema"), media_type="application/json")
