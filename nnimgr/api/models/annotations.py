"""Requests and answers about notes and tags of trials, and about saved views."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from nnimgr.api.models.base import First, Model, Request, sober
from nnimgr.api.models.trials import Order, TrialIds
from nnimgr.rules.facts import TrialStatus

MOST_TAGS = 20

_NOTE_CHARACTERS = r"^[^\x00]*$"
_TAG_CHARACTERS = r"^[^\s,\x00-\x1f\x7f]([^,\x00-\x1f\x7f]*[^\s,\x00-\x1f\x7f])?$"

TrialTag = Annotated[
    str,
    Field(
        max_length=40,
        pattern=_TAG_CHARACTERS,
        description="tag without commas, and without blanks at its ends",
    ),
    AfterValidator(sober),
]
Note = Annotated[str, Field(max_length=4000, pattern=_NOTE_CHARACTERS), AfterValidator(sober)]


class ChangeAnnotation(Request):
    """New note or tags of a trial. Omitted fields keep their values."""

    note: Note | None = Field(None, description="empty: no note")
    tags: Annotated[list[TrialTag], First] | None = Field(None, max_length=MOST_TAGS)


class Annotation(Model):
    user_note: str
    tags: list[str]


class ChangeTags(Request):
    """Tags to add to trials and to remove from them. If one of the trials cannot be changed, none of them is
    changed.
    """

    trial_ids: TrialIds = Field(min_length=1, max_length=10_000)
    add: Annotated[list[TrialTag], First] = Field([], max_length=MOST_TAGS)
    remove: Annotated[list[TrialTag], First] = Field([], max_length=1000)


class TaggedTrial(Model):
    id: str
    tags: list[str]


class TaggedTrials(Model):
    trials: list[TaggedTrial] = Field(description="the trials of the request, with their new tags")


class TagCount(Model):
    tag: str
    trials: int = Field(description="number of trials with this tag")


class Tags(Model):
    tags: list[TagCount] = Field(description="the most frequent tags first; at most 1000 tags")


Text = Annotated[str, AfterValidator(sober)]


class ViewContent(Request):
    """Content of a saved view: the columns, filter and order of the trials table.

    The fields have the same meaning as in the route that lists trials.
    """

    columns: Annotated[list[Annotated[Text, Field(max_length=500)]], First] = Field(
        [], max_length=1000, description="names of columns of the dashboard's table; empty: the usual columns"
    )
    filter: Text = Field("", max_length=4000)
    search: Text = Field("", max_length=200)
    statuses: Annotated[list[TrialStatus], First] = Field([], max_length=len(TrialStatus))
    without_result: bool = False
    sort: Text = Field("sequence", min_length=1, max_length=500)
    order: Order = Order.ASCENDING


ViewName = Annotated[
    str,
    AfterValidator(sober),
    Field(max_length=60, pattern=_TAG_CHARACTERS.replace(",", ""), description="unique in the experiment"),
]


class AddView(Request):
    name: ViewName
    content: ViewContent


class ChangeView(Request):
    """New name or content of a saved view. Omitted fields keep their values."""

    name: ViewName | None = None
    content: ViewContent | None = None


class SavedView(Model):
    id: int
    name: str
    content: ViewContent


class SavedViews(Model):
    views: list[SavedView] = Field(description="sorted by name")
