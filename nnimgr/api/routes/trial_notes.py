"""Routes for the notes and tags that users add to trials, whether the experiment runs or not."""

from __future__ import annotations

from fastapi.responses import Response

from nnimgr.api import models
from nnimgr.api.dependencies import ExperimentId, Parts, Reader, TrialId, refusals, reply
from nnimgr.api.routing import Router
from nnimgr.core.running.requests import RequestRefused
from nnimgr.store.annotations import annotate, retag

router = Router(prefix="/api/v1/experiments/{id}", tags=["trials"])


@router.patch("/trials/{trialId}/annotation", responses=refusals(404, 409, 422, 503))
async def change_annotation(
    parts: Parts, experiment_id: ExperimentId, trial_id: TrialId, wanted: models.ChangeAnnotation
) -> models.Annotation:
    """Change the note and the tags of a trial, and return the stored values. The trial is not affected."""
    stored = await parts.manager.annotate(
        experiment_id, lambda folder: annotate(folder, trial_id, note=wanted.note, tags=wanted.tags)
    )
    return models.Annotation(user_note=stored.note, tags=list(stored.tags))


@router.get("/tags", response_model=models.Tags, responses=refusals(404))
async def list_tags(reader: Reader) -> Response:
    """Return the tags of the experiment's trials, each with the number of trials that have it."""
    return await reply(
        lambda: models.Tags(tags=[models.TagCount(tag=tag, trials=count) for tag, count in reader.tags()])
    )


@router.post("/tags", responses=refusals(404, 409, 422, 503))
async def change_tags(
    parts: Parts, experiment_id: ExperimentId, wanted: models.ChangeTags
) -> models.TaggedTrials:
    """Add tags to several trials, and remove other tags from them, in one step."""
    try:
        stored = await parts.manager.annotate(
            experiment_id,
            lambda folder: retag(
                folder, wanted.trial_ids, add=wanted.add, remove=wanted.remove, most=models.MOST_TAGS
            ),
        )
    except ValueError as error:
        raise RequestRefused(str(error)) from None
    return models.TaggedTrials(
        trials=[models.TaggedTrial(id=trial_id, tags=list(each.tags)) for trial_id, each in stored.items()]
    )
