"""Opens a keeper's directory: reads its files, and ends processes that an earlier keeper has left."""

from __future__ import annotations

import contextlib
import os
import time

from trial_keeper.actions import journal as journals
from trial_keeper.actions import lease_file
from trial_keeper.attempt import ending, eviction
from trial_keeper.core import recovery
from trial_keeper.core.identity import Identity
from trial_keeper.lean import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Callable

    from trial_keeper.core.records import Record
    from trial_keeper.streams import Log
    from trial_keeper.wire import HostCapacity

MARK = "NNIMGR_JOB_ID"


class Opened(NamedTuple):
    """What the keeper's core needs at its start: the keeper's identity, and the records of its journal."""

    identity: Identity
    records: list[Record]


class Directory:
    """Directory of a keeper. ``spawner``: pid of its spawner."""

    def __init__(self, path: str, spawner: int, log: Log) -> None:
        self.path = path
        self.boot_id = _boot_id()
        self._spawner = spawner
        self._log = log

    def open(self, status: str | None, host: Callable[[], HostCapacity | None]) -> Opened:
        """Read the files of earlier keepers.

        ``status``: errors of the keeper itself at its start, or None. ``host`` returns the resources of the
        machine, or None if they are unknown.
        """
        found = journals.load(f"{self.path}/journal")
        damage = found.damage
        known = os.path.exists(f"{self.path}/instance")
        if damage is None and known and not recovery.is_whole(found.records):
            damage = "the keeper's journal was removed or cut"
        instance, left = self._instance(damage=damage)
        identity = Identity(
            instance=instance,
            boot_id=self.boot_id,
            idle_s=float(os.environ.get("NNIMGR_KEEPER_IDLE_S", "600")),
            unreported_s=_seconds("NNIMGR_KEEPER_UNREPORTED_S"),
            orphan_s=_seconds("NNIMGR_KEEPER_ORPHAN_S"),
            status="; ".join(filter(None, (status, damage, left))) or None,
            jitter=lambda: os.urandom(1)[0] / 255,
            lease=lease_file.find(self.path, self.boot_id),
            host=host,
            ending=ending.read(self.path),
            may_end=ending.is_prepared(self.path),
        )
        return Opened(identity, [] if damage else found.records)

    def _instance(self, *, damage: str | None) -> tuple[str, str | None]:
        """Return the name of the directory's instance, and a sentence about processes that cannot be killed.

        The instance is one life of the directory. A new directory is a new instance, and the server then
        counts all attempts of earlier instances as lost. Therefore all processes of those attempts are killed
        before the new name is used. A directory with a damaged journal also counts as new, because it is
        unknown which attempts were started and which commands were obeyed. The sentence is None if no process
        is left.
        """
        path = f"{self.path}/instance"
        if damage is not None:
            self._log.write(damage)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        try:
            with open(path, encoding="ascii") as file:
                return file.read().strip(), None
        except FileNotFoundError:
            pass
        left = self.clear()
        pod = os.environ.get("NNIMGR_POD_UID")
        name = os.urandom(16).hex() if not pod else f"{pod}.{os.urandom(12).hex()}"
        journals.replace(path, name.encode("ascii"))
        return name, left

    def clear(self) -> str | None:
        """Kill the processes of earlier keepers.

        Return a sentence about processes that could not be killed, or None.
        """
        cleared = eviction.clear(self.path, MARK, spawner=self._spawner)
        if cleared.killed:
            self._log.write(f"killed processes that an earlier keeper had left: {cleared.killed}")
        if not cleared.left:
            return None
        left = f"processes of an earlier keeper that could not be killed: {cleared.left}"
        self._log.write(left)
        return left

    def open_journal(
        self, records: list[Record], *, flushed: Callable[[int], None], failed: Callable[[str], None]
    ) -> journals.Journal:
        """Replace the journal by these records, and return the open journal.

        This method returns only when the records are on disk, because the keeper must not do anything before
        that.
        """
        path = f"{self.path}/journal"
        while True:
            try:
                journals.rewrite(path, records)
                break
            except OSError as error:
                self._log.write(f"the journal cannot be written; retrying in 1 s: {error}")
                time.sleep(1.0)
        return journals.Journal(path, flushed=flushed, failed=failed, fold=recovery.fold)


def _seconds(variable: str) -> float | None:
    text = os.environ.get(variable)
    return float(text) if text else None


def _boot_id() -> str:
    path = os.environ.get("NNIMGR_BOOT_ID_FILE", "/proc/sys/kernel/random/boot_id")
    with open(path, encoding="ascii") as file:
        return file.read().strip()
