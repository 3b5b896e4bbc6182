"""Types of the records in the keeper's journal. The field ``k`` names the type.

Journals that earlier versions wrote may lack fields.
"""

from __future__ import annotations

from trial_keeper.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Literal, TypedDict, Union

    from trial_keeper.wire import Final, Start, Started

    class _Common(TypedDict, total=False):
        seq: int  # number of the command that the record stores
        job: str

    class EpochRecord(_Common, total=False):
        """Record of a start of the keeper. It begins each rewritten journal.

        ``n``: number of records with which the journal was rewritten, including this record.
        """

        k: Literal["epoch"]
        k_epoch: int
        n: int

    class ServerRecord(_Common):
        """Record of the database and epoch of the last server whose answer the keeper has applied."""

        k: Literal["server"]
        db_id: str | None
        m_epoch: int

    class NopRecord(_Common):
        """Record of a command that changes nothing."""

        k: Literal["nop"]

    class _Start(_Common):
        k: Literal["start"]
        start: Start

    class StartRecord(_Start, total=False):
        """Record of a command to start an attempt.

        ``apart``: the attempt's claim file is in the keeper's folder, not in the trial's, as in old versions.
        """

        apart: bool

    class _Stop(_Common):
        k: Literal["stop"]
        grace: float | None
        doomed: bool

    class StopRecord(_Stop, total=False):
        """Record of an order to stop an attempt."""

        orphaned: bool
        evicted: bool
        save: float | None

    class SaveRecord(_Common):
        """Record of an order to ask a running trial to save its state. ``within``: seconds."""

        k: Literal["save"]
        within: float

    class AskedRecord(_Common):
        """Record that an order to save is complete: the trial has answered, or its silence is reported."""

        k: Literal["asked"]

    class UpdateRecord(_Common):
        """Record of a command that brings a further parameter set for an attempt."""

        k: Literal["update"]
        index: int
        parameter: str

    class ClaimedRecord(_Common):
        """Record that a shim has claimed an attempt: only this shim starts the attempt's command."""

        k: Literal["claimed"]
        shim: tuple[int, str] | None
        started: Started | None

    class BaselessRecord(_Common):
        """Record that an attempt never starts, because the checkpoint to continue from is missing."""

        k: Literal["baseless"]
        sentence: str | None

    class FinalRecord(_Common):
        """Record of the end of a sealed attempt."""

        k: Literal["final"]
        final: Final
        started: Started | None
        note: str | None

    class GoneRecord(_Common):
        """Record that the keeper has dropped an attempt, usually because the server has confirmed its end."""

        k: Literal["gone"]

    Record = Union[
        EpochRecord,
        ServerRecord,
        NopRecord,
        StartRecord,
        StopRecord,
        SaveRecord,
        AskedRecord,
        UpdateRecord,
        ClaimedRecord,
        BaselessRecord,
        FinalRecord,
        GoneRecord,
    ]
else:
    Record = dict
