"""Record types of the keeper's journal. ``k`` is the kind. Earlier versions wrote fewer fields."""

from __future__ import annotations

from trial_keeper.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Literal, TypedDict, Union

    from trial_keeper.wire import Final, Start, Started

    class _Common(TypedDict, total=False):
        seq: int  # number of the command that the record stores
        job: str

    class EpochRecord(_Common, total=False):
        """Start of the keeper: first record of a rewritten journal, which begins with ``n`` records."""

        k: Literal["epoch"]
        k_epoch: int
        n: int

    class ServerRecord(_Common):
        """Database and epoch of the last server whose answer the keeper has applied."""

        k: Literal["server"]
        db_id: str | None
        m_epoch: int

    class NopRecord(_Common):
        """Command that changes nothing."""

        k: Literal["nop"]

    class _Start(_Common):
        k: Literal["start"]
        start: Start

    class StartRecord(_Start, total=False):
        """Order to start an attempt. ``apart``: its claim is in the keeper's folder."""

        apart: bool

    class _Stop(_Common):
        k: Literal["stop"]
        grace: float | None
        doomed: bool

    class StopRecord(_Stop, total=False):
        """Order to stop an attempt."""

        orphaned: bool
        evicted: bool

    class UpdateRecord(_Common):
        """Further parameter set for an attempt."""

        k: Literal["update"]
        index: int
        parameter: str

    class ClaimedRecord(_Common):
        """Claim of a shim on an attempt."""

        k: Literal["claimed"]
        shim: tuple[int, str] | None
        started: Started | None

    class FinalRecord(_Common):
        """End of a sealed attempt."""

        k: Literal["final"]
        final: Final
        started: Started | None
        note: str | None

    class GoneRecord(_Common):
        """Removal of an attempt from the keeper's state."""

        k: Literal["gone"]

    Record = Union[
        EpochRecord,
        ServerRecord,
        NopRecord,
        StartRecord,
        StopRecord,
        UpdateRecord,
        ClaimedRecord,
        FinalRecord,
        GoneRecord,
    ]
else:
    Record = dict
