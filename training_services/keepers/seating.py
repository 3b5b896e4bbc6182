"""Function that makes a seat: the object that combines a host of an experiment with its keeper."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from training_services.base import ExperimentContext, KnownKeeper, KnownKeepers
from training_services.code import archive_path
from training_services.keepers.host import KeeperHost
from training_services.keepers.hub import KeeperDesk, split_turn, token_digest
from training_services.keepers.jobs import Backlog
from training_services.keepers.link import KeeperLink, Received
from training_services.keepers.seat import KeeperSeat, Platform
from training_services.placement.needs import Wants
from trial_keeper.wire import WAIT_S

__all__ = ["make_seat"]


async def make_seat(
    host: KeeperHost,
    record: KnownKeeper | None,
    platform: Platform,
    *,
    known: KnownKeepers,
    backlog: Backlog,
    deliver: Callable[[KeeperDesk, Received], None],
) -> KeeperSeat:
    """Return a seat for the host. ``record``: the committed record of the host's keeper, or None.

    The token in ``manager.json`` is used again if it is the committed token. ``deliver`` receives
    the keeper's desk and the result of each request of the keeper.
    """
    context = platform.context
    manager = await host.read_manager()
    token = split_turn(str(manager.get("token", "")))[0] if manager is not None else ""
    enrolled = record is not None and token_digest(token) == record.token_sha256
    if not enrolled:
        token = host.new_token()
    link = KeeperLink(
        record
        or KnownKeeper(keeper_id=host.keeper_id, token_sha256="", instance=None, boot_id=None, last_cmd=0),
        db_id=known.db_id,
        m_epoch=known.m_epoch,
        backlog=backlog,
        reads_gpus=(host.wants or Wants.of(context)).uses_gpus,
        lease=context.lease,
        restored=known.restored,
        verdict=host.verdict,
        departure=host.departure,
        needed=partial(platform.needs_files, host.keeper_id),
    )
    desk = KeeperDesk(
        link=link,
        backlog=backlog,
        token_sha256=token_digest(token) if enrolled else None,
        deliver=deliver,
        archive=partial(archive_path, context.directory),
        copies=platform.copies,
        provide=platform.provide_copy,
        enrol=host.enrol,
        wait_s=_longest_call(context, host),
    )
    silent = record is not None and record.silent
    return KeeperSeat(host, desk, platform, token=token, enrolled=enrolled, silent=silent, known=known)


def _longest_call(context: ExperimentContext, host: KeeperHost) -> float:
    """Return the number of seconds for which a keeper's call may be held.

    A longer wait would make the keeper seem silent, or would let its lease expire.
    """
    lease, silent_after = context.lease, context.silent_after
    longest = WAIT_S if lease is None else min(WAIT_S, lease.total_seconds() / 3)
    margin = min(host.call_margin, silent_after / 2)
    return min(longest, (silent_after - margin).total_seconds())
