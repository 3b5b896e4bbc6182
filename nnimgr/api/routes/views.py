"""Routes for saved views of an experiment's trials. A view has a name, columns, a filter and an order."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from fastapi.responses import Response

from nnimgr.api import models
from nnimgr.api.dependencies import ExperimentId, Parts, Reader, refusals, reply
from nnimgr.api.routing import Router
from nnimgr.store.views import SavedView, add_view, change_view, remove_view

router = Router(prefix="/api/v1/experiments/{id}/views", tags=["trials"])

ViewId = Annotated[int, Path(alias="viewId", ge=1, lt=2**31)]


@router.get("", response_model=models.SavedViews, responses=refusals(404))
async def list_views(reader: Reader) -> Response:
    """Return the saved views of the experiment's trials."""
    return await reply(lambda: models.SavedViews(views=[_view(saved) for saved in reader.views()]))


@router.post("", status_code=201, responses=refusals(404, 409, 422, 503))
async def save_view(parts: Parts, experiment_id: ExperimentId, wanted: models.AddView) -> models.SavedView:
    """Save a view of the experiment's trials under a new name."""
    content = wanted.content.model_dump(mode="json")
    return _view(
        await parts.manager.annotate(experiment_id, lambda folder: add_view(folder, wanted.name, content))
    )


@router.patch("/{viewId}", responses=refusals(404, 409, 422, 503))
async def update_view(
    parts: Parts, experiment_id: ExperimentId, view_id: ViewId, wanted: models.ChangeView
) -> models.SavedView:
    """Rename a saved view, or replace its content."""
    content = None if wanted.content is None else wanted.content.model_dump(mode="json")
    return _view(
        await parts.manager.annotate(
            experiment_id, lambda folder: change_view(folder, view_id, name=wanted.name, content=content)
        )
    )


@router.delete("/{viewId}", responses=refusals(404, 503))
async def delete_view(parts: Parts, experiment_id: ExperimentId, view_id: ViewId) -> models.Done:
    """Delete a saved view. The trials are not affected."""
    await parts.manager.annotate(experiment_id, lambda folder: remove_view(folder, view_id))
    return models.Done()


def _view(saved: SavedView) -> models.SavedView:
    return models.SavedView(
        id=saved.view_id, name=saved.name, content=models.ViewContent.model_validate(saved.content)
    )
