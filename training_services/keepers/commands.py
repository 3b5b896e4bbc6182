"""Commands for one keeper: to start, update or stop jobs.

Each directory (instance) of the keeper has its own numbers. A command is repeated until it has arrived.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from training_services.keepers.job import Job
from training_services.keepers.orders import Command, Orders

__all__ = ["MAX_COMMANDS", "Commands"]

MAX_COMMANDS = 500  # most commands in one answer; the keeper calls again at once for more


class Commands:
    """Commands for one keeper, in the order of their numbers.

    ``acked`` is the number of the last command that the keeper has carried out and recorded; ``seen`` is the
    last that it has received. ``restored``: the experiment's database was once replaced by an older copy.
    """

    def __init__(self, instance: str | None, *, last: int, restored: bool) -> None:
        self.acked = 0
        self.seen = 0
        self._sent = 0
        self._instance = instance
        self._restored = restored
        # commands for the keeper's current directory (instance)
        self._orders = Orders(last=last, committed=last, stored=last)
        # directory (instance) of the keeper -> commands for jobs that an earlier server had placed there
        self._elsewhere: dict[str, Orders] = {}

    @property
    def last(self) -> int:
        """Highest number that a command to this keeper has."""
        return self._orders.last

    @property
    def committed(self) -> int:
        """Number of the last command that may be sent to the keeper."""
        return self._orders.committed

    def of(self, job: Job) -> Orders:
        """Return the commands for the keeper's directory (instance) in which the job was placed."""
        if self.is_here(job):
            return self._orders
        return self._elsewhere.setdefault(job.place.instance, Orders())

    def is_here(self, job: Job) -> bool:
        """Return True if the job was placed in the current directory (instance) of the keeper."""
        return job.place.instance == self._instance

    def is_under_way(self, job: Job) -> bool:
        """Return True if the keeper has not acknowledged all commands for the job yet."""
        return self.is_here(job) and job.last_cmd > self.acked

    def put(self, job: Job, seq: int, kind: str, body: Mapping[str, Any], *, committed: bool = False) -> None:
        """Add a command for the job, with the number ``seq``.

        ``kind``: "start", "update", "save" or "stop".
        """
        self.of(job).put(seq, Command(kind=kind, job_id=job.id, body=body, committed=committed))
        job.last_cmd = max(job.last_cmd, seq)
        job.commands.append(seq)

    def rebind(self, instance: str) -> None:
        """Switch to the commands for another directory (instance) of the keeper."""
        known, self._orders = self._orders, self._elsewhere.pop(instance, Orders())
        if self._instance is None:
            self._orders.reach(known.last)
        else:
            self.acked = 0
        self._instance = instance

    def restart(self) -> None:
        """Treat all commands as not sent, because the keeper was restarted and reports everything again."""
        self.seen = self._sent = 0

    def is_ahead(self, seen: int) -> bool:
        """Return True if the keeper may have carried out commands that the experiment's database does not
        contain.

        ``seen``: number of the last command that the keeper has received. If the database was restored from a
        copy, the result is always True, because numbers may have been used twice.
        """
        return self._restored or seen > self._orders.stored

    def take(self, *, seen: int) -> None:
        """Record the number of the last command that the keeper has received."""
        self._orders.reach(seen)
        self.seen = max(self.seen, min(seen, self._orders.last))

    def acknowledge(self, acked: int) -> Iterator[tuple[int, Command | None]]:
        """Record that the keeper has carried out all commands up to the number ``acked``.

        Yield the number and the command for each command that was not acknowledged before.
        """
        for seq in range(self.acked + 1, min(acked, self._orders.last) + 1):
            self.acked = seq
            yield seq, self._orders.find(seq)

    def renumber(self, job: Job, seen: int) -> None:
        """Replace the numbers up to ``seen`` of the job's stops and updates by new numbers.

        The keeper has already received these numbers with other commands, and would ignore them.
        """
        self._orders.reach(seen)
        for seq in [each for each in job.commands if each <= seen]:
            command = self._orders.find(seq)
            if command is not None and command.kind != "start":
                job.last_cmd = self._orders.renumber(seq)
                job.commands.append(job.last_cmd)

    def repeat_start(self, job: Job) -> bool:
        """Send the start of the job again under a new number, so that the keeper reports the job's state.

        Return False if the start was already sent again once, or does not exist.
        """
        start = self._orders.find(job.start_cmd)
        if job.sought or start is None:
            return False
        job.sought = True
        job.start_cmd = self._orders.last + 1
        self.put(job, job.start_cmd, "start", {**start.body, "sought": True})
        self._orders.commit(job.start_cmd)
        return True

    def waiting(self, *, arrived: bool) -> bool:
        """Return True if a committed command was not sent yet.

        With ``arrived``: return True if a committed command has not arrived at the keeper yet.
        """
        return self._orders.committed > (self.seen if arrived else max(self.seen, self._sent))

    def outgoing(self, jobs: Mapping[str, Job]) -> list[Sequence[Any]]:
        """Return the committed commands that the keeper has not received, in order.

        A command without effect, such as the start of a lost job, is sent as "nop". But if the keeper has
        carried out this start and then lost its own record of it, the start is sent again as "sought", so
        that the keeper knows which attempt to stop, and starts nothing.
        """
        commands: list[Sequence[Any]] = []
        for seq in range(self.seen + 1, min(self._orders.committed, self.seen + MAX_COMMANDS) + 1):
            command = self._orders.find(seq)
            job = None if command is None else jobs.get(command.job_id)
            if command is None or job is None or self._is_void(seq, command, job):
                commands.append((seq, "nop", command.job_id if command else "", {}))
            else:
                commands.append((seq, command.kind, command.job_id, self._body(command, job)))
            self._sent = max(self._sent, seq)
        return commands

    def _body(self, command: Command, job: Job) -> Mapping[str, Any]:
        """Return the body of the command. The start of a lost job starts nothing."""
        if command.kind == "start" and job.lost:
            return {**command.body, "sought": True}
        return command.body

    def _is_void(self, seq: int, command: Command, job: Job) -> bool:
        """Return True if the command no longer has an effect, so that it is sent as "nop".

        Once this is True for a command, it stays True.
        """
        if not job.lost or command.kind == "stop" or job.started:
            return False
        command.withdrawn = command.withdrawn or seq > self.acked
        return command.withdrawn
