"""The keeper's side of the protocol, pure: inputs in, effects out; no I/O, no clock, no threads.

``now`` is a clock that does not jump and counts on while the machine sleeps, in seconds. Every input returns
the effects to carry out, in order. Recovery has no path of its own: the journal's records rebuild the
attempts, ``begin`` has every unfinished one looked at, and the looks decide as they always do.
"""

from __future__ import annotations

from trial_keeper import effects as fx
from trial_keeper import wire
from trial_keeper.attempt import Attempt
from trial_keeper.claim import Claim
from trial_keeper.commands import Commands, Decision
from trial_keeper.effects import Channel, Effect
from trial_keeper.identity import Identity
from trial_keeper.lean import TYPE_CHECKING
from trial_keeper.lease import Lease
from trial_keeper.ledger import Act, Ledger, nothing
from trial_keeper.line import Line
from trial_keeper.memory import Memory, claimed_record, final_record, start_record, stop_record
from trial_keeper.reports import Flight, Reports

if TYPE_CHECKING:
    from typing import Any, Iterable, Iterator

STARTED_WAIT_S = 0.02  # "started" alone waits for company
RESPAWN_PAUSE_S = 0.5
LAST_RESPAWN_PAUSE_S = 30.0
SWEEP_PAUSE_S = 0.05
SWEEPS = 200
RETRY_S = 1.0
REMIND_S = 5.0
KILL_GRACE_S = 10.0
OBEY_S = 12.0  # after the grace: what SIGKILL ends has ended, and the shim has given up on the rest
KILLS = 5  # of a shim, one a second
LAST_WORDS_S = 5.0  # on a host that is about to end: so long the server may take to hear of the ends
_CUT_OFF = "the host was restarted while the command ran"
_UNKNOWN = "it had been started before, and its claim is gone"
_UNBEGUN = "the host was restarted before the command was started"
REPLACED = "instance"  # why the server refuses a keeper in whose place it has another one


class KeeperCore:
    """The state of one keeper and every decision it takes."""

    def __init__(self, identity: Identity, records: Iterable[fx.Record]) -> None:
        self._identity = identity
        self._memory = Memory(records)
        self._memory.k_epoch += 1
        self.attempts = self._memory.attempts
        self._out: list[Effect] = []
        self._ledger = Ledger(self._out, self._memory.applied)
        self._commands = Commands(self._ledger, self._memory, self._decide)
        self._line = Line(identity.jitter)
        self._lease = Lease(*identity.lease)
        self._later: list[tuple[float, Effect]] = []
        self._kills: dict[str, tuple[float, fx.Kill]] = {}  # when a shim must have obeyed its stop
        self._reports = Reports(self.attempts)
        self._flights: dict[Channel, Flight] = {}
        self._sync_no = 0
        self._inventory = True
        self._collecting = False
        self._breather = False  # nothing came of a whole round of reading: the next one waits for a tick
        self._wait_at = 0.0
        self._replaced = False
        self._unprepared: str | None = None  # why the latest attempt could not be prepared
        self._heard_at: float | None = None
        self._remind_at: float | None = None
        self._leaving = False
        self._ending = identity.ending
        self._leave_at: float | None = None
        self._surveys = False

    @property
    def k_epoch(self) -> int:
        """The number of this start of the keeper."""
        return self._memory.k_epoch

    def records(self) -> list[fx.Record]:
        """The journal as it must be, durably, before ``begin``."""
        return self._memory.records()

    def begin(self, now: float) -> list[Effect]:
        """The first input: everything unfinished is looked at."""
        self._heard_at = now
        if self._ending is not None:
            self._evict(now)
        for attempt in self.attempts.values():
            if attempt.live:
                if self._here(attempt):
                    for index, parameter in attempt.updates.items():
                        self._out.append(fx.Update(attempt.job, attempt.directory, index, parameter))
                self._look(attempt)
        return self._pump(now)

    # -- commands

    def _decide(self, now: float, seq: int, kind: str, job: str, body: Any) -> Decision:
        """What a command is to the journal, and what it does once it is written."""
        attempt = self.attempts.get(job)
        if kind == "start" and attempt is None:
            return start_record(job, seq, body, apart=True), self._starter(job, seq, body)
        if attempt is not None and attempt.live and kind == "stop":
            if attempt.stop is None:  # signal first, then journal, then acknowledge
                self._stop(now, attempt, float(body["grace"]))
            return {**stop_record(attempt), "seq": seq}, nothing
        if attempt is not None and attempt.live and kind == "update":
            act = self._updater(attempt, body["index"], body["parameter"])
            return {"k": "update", "seq": seq, "job": job, **body}, act
        return {"k": "nop", "seq": seq}, nothing

    def _starter(self, job: str, seq: int, start: dict[str, Any]) -> Act:
        def begin(now: float) -> None:
            attempt = self.attempts[job] = Attempt(job, seq, start)
            if self._ending is not None:
                self._evict(now)
            elif self._here(attempt) and not self.is_sought(job):
                self._out.append(self._spawning(job, start))
            else:  # it was meant for a boot that is over, or has had its only start
                self._look(attempt)

        return begin

    def _spawning(self, job: str, start: dict[str, Any]) -> fx.Spawn:
        return fx.Spawn(job, start, self._lease.number if start.get("lease") else None)

    def _updater(self, attempt: Attempt, index: int, parameter: str) -> Act:
        def write(now: float) -> None:
            attempt.updates[index] = parameter
            self._out.append(fx.Update(attempt.job, attempt.directory, index, parameter))

        return write

    def _stop(self, now: float, attempt: Attempt, grace: float) -> None:
        if attempt.stop is None:
            attempt.stop = grace
        if attempt.sealing or not self._here(attempt):
            return
        if attempt.shim is not None:
            self._signal(now, attempt, attempt.shim, attempt.stop)
        else:
            self._out.append(fx.Abort(attempt.job, attempt.directory))

    def _signal(self, now: float, attempt: Attempt, shim: fx.Shim, grace: float) -> None:
        """Have the shim stop the command; kill the shim if it has not done so long after the grace."""
        self._out.append(fx.Signal(attempt.job, attempt.directory, shim, grace))
        self._kills[attempt.job] = now + grace + OBEY_S, fx.Kill(attempt.job, attempt.directory, shim)

    def killed(self, now: float, order: fx.Kill) -> list[Effect]:
        """The shim was sent SIGKILL; that it has ended is seen as always, or it hangs in the kernel."""
        attempt = self.attempts.get(order.job)
        if attempt is not None and attempt.live and not attempt.sealing:
            attempt.kills += 1
            if attempt.kills > KILLS:
                attempt.sealing = True
                attempt.cause = f"its shim (pid {order.shim[0]}) did not end although it was killed"
                self._out.append(fx.Sweep(attempt.job, attempt.directory))
            else:
                self._kills[order.job] = now + RETRY_S, order
                self._look(attempt)
        return self._pump(now)

    def _kill(self, now: float, job: str) -> None:
        """The server does not know the attempt."""
        attempt = self.attempts.get(job)
        if attempt is None:
            return
        if not attempt.live:
            self._forget(attempt)
        elif not attempt.doomed:
            attempt.doomed = True
            self._stop(now, attempt, KILL_GRACE_S)
            self._ledger.append(stop_record(attempt))

    # -- journal

    def written(self, now: float) -> list[Effect]:
        """The oldest record asked for is in the page cache: it survives the keeper's death."""
        self._ledger.written(now)
        return self._pump(now)

    def write_failed(self, now: float, sentence: str) -> list[Effect]:
        """The oldest record asked for could not be written (disk full): nothing follows from it."""
        self._ledger.write_failed(now)
        self._journal_said(sentence)
        return self._pump(now)

    def flushed(self, now: float, number: int) -> list[Effect]:
        """All records up to this number survive power loss: their commands are acknowledged."""
        self._ledger.flushed(number)
        if self._reports.owed_ack is not None and self._ledger.acked_cmd >= self._reports.owed_ack:
            self._reports.owed_ack = None
            self._reports.urgent = True
        self._journal_said(None)
        return self._pump(now)

    def flush_failed(self, now: float, sentence: str) -> list[Effect]:
        """Flushing does not work; it is tried again until ``flushed``."""
        self._journal_said(sentence)
        return self._pump(now)

    def _journal_said(self, sentence: str | None) -> None:
        if self._ledger.say(sentence):
            self._reports.urgent = True

    # -- attempts

    def notified(self, now: float, job: str, told: Claim | None = None) -> list[Effect]:
        """Something happened to the attempt's claim or to its shim.

        ``told``: the claim as the shim itself has sent it; what became of its file does not matter.
        """
        attempt = self.attempts.get(job)
        if attempt is not None and attempt.live and not attempt.sealing:
            if told is not None and self._here(attempt) and attempt.agrees(told):
                self._judge(now, attempt, fx.Seen(told, told.exit is None, now))
            else:
                self._look(attempt)
        return self._pump(now)

    def shim_failed(self, now: float, job: str, sentence: str) -> list[Effect]:
        """A shim of the attempt ended in failure, perhaps before it could claim."""
        attempt = self.attempts.get(job)
        if attempt is not None and attempt.live and not attempt.sealing:
            if not attempt.claimed:
                pause = min(LAST_RESPAWN_PAUSE_S, RESPAWN_PAUSE_S * 2.0**attempt.respawns)
                attempt.respawns += 1
                attempt.respawn_at = now + pause
                attempt.note = f"the attempt could not be prepared on its host and is tried again: {sentence}"
                self._reports.tell(attempt)
                self._prepared(f"no trial can be prepared here at present: {sentence}")
            self._look(attempt)
        return self._pump(now)

    def _prepared(self, trouble: str | None) -> None:
        """The latest attempt could be prepared, or why not; the server is told when that changes."""
        if trouble != self._unprepared:
            self._unprepared = trouble
            self._reports.urgent = True

    def delayed(self, now: float, job: str, sentence: str) -> list[Effect]:
        """The shim of the attempt is not forked yet; ``sentence`` says what that waits for."""
        attempt = self.attempts.get(job)
        if attempt is not None and attempt.live and attempt.note != sentence:
            attempt.note = sentence
            self._reports.tell(attempt)
        return self._pump(now)

    def looked(self, now: float, job: str, seen: fx.Seen) -> list[Effect]:
        """The claim as it is now."""
        attempt = self.attempts.get(job)
        if attempt is not None and attempt.live and not attempt.sealing:
            self._judge(now, attempt, seen)
        return self._pump(now)

    def _judge(self, now: float, attempt: Attempt, seen: fx.Seen) -> None:
        claim = seen.claim
        here = self._here(attempt)
        if not attempt.agrees(claim) and (attempt.claimed or claim is not None):
            if here:
                self._judge_unread(now, attempt, alive=seen.alive)
            else:
                self._seal(attempt, wire.HOST_LOST, _CUT_OFF)
            return
        if claim is None:
            self._judge_unclaimed(now, attempt)
            return
        if attempt.take(claim) and claim.exit is None and here:
            self._ledger.append(claimed_record(attempt), flush=False)
            self._prepared(None)
        if attempt.started is not None and not attempt.started_sent:
            self._reports.tell_soon(attempt, now + STARTED_WAIT_S)
        if claim.pid is None and attempt.stop is None and not here:
            self._seal(attempt, wire.HOST_LOST, _UNBEGUN)  # with its power it lost why this was stopped
        elif claim.pid is None:
            self._seal(attempt, "never_started", "it was stopped before its command was started")
        elif claim.failed is not None:
            self._seal(attempt, "never_started", f"the command could not be started: {claim.failed[1]}")
        elif claim.exit is not None:
            self._seal(attempt)
        elif claim.boot_id != self._identity.boot_id or not here:
            self._seal(attempt, wire.HOST_LOST, _CUT_OFF)
        elif not seen.alive:
            attempt.sealing = True
            attempt.cause = f"its shim (pid {claim.pid}) was killed, so its exit code is not known"
            self._out.append(fx.Sweep(attempt.job, attempt.directory))
        elif not attempt.watched:
            self._watch(now, attempt, (claim.pid, claim.start_time))

    def is_sought(self, job: str) -> bool:
        """Return whether the server asks what became of an attempt that it had started before."""
        attempt = self.attempts.get(job)
        return attempt is not None and attempt.start is not None and bool(attempt.start.get("sought"))

    def _judge_unclaimed(self, now: float, attempt: Attempt) -> None:
        """No shim has claimed the attempt yet: start one, wait for it, or have none start any more."""
        if not self._here(attempt):
            self._seal(attempt, wire.HOST_LOST, _UNBEGUN)
        elif self.is_sought(attempt.job):
            self._seal(attempt, wire.HOST_LOST, _UNKNOWN)
        elif attempt.stop is not None:
            self._later.append((now + RETRY_S, fx.Abort(attempt.job, attempt.directory)))
        elif now < attempt.respawn_at:
            self._later.append((attempt.respawn_at, fx.Look(attempt.job, attempt.directory)))
        elif attempt.start is not None:
            self._out.append(self._spawning(attempt.job, attempt.start))

    def _judge_unread(self, now: float, attempt: Attempt, *, alive: bool) -> None:
        """The claim file was removed or spoiled. What was known of the attempt decides, and its processes."""
        if alive and attempt.shim is not None:
            if not attempt.watched:
                self._watch(now, attempt, attempt.shim)
            return
        shim = "its shim" if attempt.shim is None else f"its shim (pid {attempt.shim[0]})"
        attempt.sealing = True
        attempt.cause = f"its claim file was removed or overwritten, and {shim} has left no other word of it"
        self._out.append(fx.Fence(attempt.job, attempt.directory))
        self._out.append(fx.Sweep(attempt.job, attempt.directory))

    def _watch(self, now: float, attempt: Attempt, shim: fx.Shim) -> None:
        attempt.watched = True
        self._out.append(fx.Watch(attempt.job, attempt.directory, shim))
        self._reports.grown(attempt.job)
        if attempt.stop is not None:
            self._signal(now, attempt, shim, attempt.stop)

    def _seal(self, attempt: Attempt, verdict: str | None = None, cause: str | None = None) -> None:
        attempt.sealing = True
        attempt.verdict = verdict
        attempt.cause = cause
        attempt.tally_position, attempt.tally_offset = attempt.position, attempt.offset
        self._out.append(fx.Count(attempt.job, attempt.directory, attempt.tally_offset))

    def swept(self, now: float, job: str, pids: list[int]) -> list[Effect]:
        """What is left of an attempt whose shim was killed: these had its mark, and were signalled."""
        attempt = self.attempts.get(job)
        if attempt is not None and attempt.live:
            attempt.sweeps += 1
            attempt.empty_sweeps = 0 if pids else attempt.empty_sweeps + 1
            if attempt.empty_sweeps >= 2 or attempt.sweeps >= SWEEPS:
                cause = attempt.cause
                if pids:
                    cause = f"{cause}; processes that could not be killed: {', '.join(map(str, pids))}"
                self._seal(attempt, None, cause)
            else:
                self._later.append((now + (SWEEP_PAUSE_S if pids else 0.0), fx.Sweep(job, attempt.directory)))
        return self._pump(now)

    def counted(self, now: float, job: str, tally: fx.Tally) -> list[Effect]:
        """A piece more of the metrics file is counted; with its end the attempt is sealed."""
        attempt = self.attempts.get(job)
        if attempt is not None and attempt.live:
            attempt.tally_position += tally.frames
            attempt.tally_offset = tally.end
            if tally.more:
                self._out.append(fx.Count(job, attempt.directory, tally.end))
            else:
                self._sealed(now, attempt, tally)
        return self._pump(now)

    def _sealed(self, now: float, attempt: Attempt, tally: fx.Tally) -> None:
        here = self._here(attempt)
        at = attempt.instant(now, tally.at, here=here)
        attempt.final = attempt.seal(size=tally.size, at=at, here=here)
        attempt.start = None
        attempt.updates.clear()
        self._kills.pop(attempt.job, None)
        if tally.bad:
            attempt.note = _bad_header(tally.end)
        elif tally.end < tally.size:
            attempt.note = f"the metrics file ends in an incomplete frame of {tally.size - tally.end} bytes"
        elif tally.end > tally.size:
            attempt.note = "its metrics file was deleted or cut while it ran: what it reported then is lost"
        self._out.append(fx.Unwatch(attempt.job))
        self._ledger.append(final_record(attempt), flush=False)  # lost, it is derived again from the files
        if attempt.doomed:
            self._forget(attempt)
        else:
            self._reports.tell(attempt)
            self._reports.grown(attempt.job)

    def _forget(self, attempt: Attempt) -> None:
        """Its files stay; the record only shortens the next recovery."""
        self._ledger.append({"k": "gone", "job": attempt.job}, flush=False)
        del self.attempts[attempt.job]
        self._reports.forget(attempt.job)

    def update_failed(self, now: float, update: fx.Update, sentence: str) -> list[Effect]:
        """The file of a further parameter set could not be written; it is tried again."""
        attempt = self.attempts.get(update.job)
        if attempt is not None and attempt.live:
            attempt.note = f"parameter set {update.number} could not be written yet: {sentence}"
            self._reports.tell(attempt)
            self._later.append((now + RETRY_S, update))
        return self._pump(now)

    def signal_failed(self, now: float, signal: fx.Signal, sentence: str) -> list[Effect]:
        """The stop was not handed over, or not with its grace; that is tried again until the end comes."""
        attempt = self.attempts.get(signal.job)
        if attempt is not None and attempt.live and not attempt.sealing:
            note = f"its stop, or the grace for it, could not be handed over at first: {sentence}"
            if attempt.note != note:
                attempt.note = note
                self._reports.tell(attempt)
                self._out.append(fx.Say(f"{attempt.job}: {note}"))
            self._later.append((now + RETRY_S, signal))
        return self._pump(now)

    def grown(self, now: float, job: str) -> list[Effect]:
        """The metrics file has grown."""
        if job in self.attempts:
            self._reports.grown(job)
        return self._pump(now)

    def frames_read(self, now: float, job: str, chunk: fx.Chunk) -> list[Effect]:
        """Frames for the report that is being put together."""
        attempt = self.attempts.get(job)
        if attempt is None:  # it was killed before it was claimed, in the same breath as the order to read
            self._collect(now)
            return self._pump(now)
        self._reports.add(attempt, chunk)
        if chunk.bad and attempt.note is None:
            attempt.note = _bad_header(chunk.end)
            self._reports.tell(attempt)
        final = attempt.final
        if (
            final is not None
            and not chunk.more
            and attempt.position < final["n"]
            and attempt.acked < final["n"]
        ):
            attempt.final = {
                **final, "reason": wire.HOST_LOST, "n": attempt.position,
                "message": f"{final['n'] - attempt.position} metrics were lost on disk after the end",
            }  # fmt: skip
        self._collect(now)
        return self._pump(now)

    def _here(self, attempt: Attempt) -> bool:
        """It is of the present boot."""
        return attempt.boot_id == self._identity.boot_id

    def _look(self, attempt: Attempt) -> None:
        self._out.append(fx.Look(attempt.job, attempt.directory, attempt.shim))

    # -- the calls

    def answered(self, now: float, channel: Channel, answer: dict[str, Any]) -> list[Effect]:
        """The server's answer to the call in flight on this channel."""
        trouble = "this keeper has been replaced" if self._replaced else self._disobeyed(answer)
        flight = self._flights[channel]
        lease_s = answer["lease_s"]
        if lease_s is not None and self._lease.refuses(now, sent_at=flight.sent_at, whole=flight.whole):
            trouble = trouble or "the answer came after the end of the lease: all that is held is named first"
            self._inventory = True
        if trouble is not None:
            return self.failed(now, channel, trouble)
        del self._flights[channel]
        if channel is Channel.WAIT and self._ledger.retry_at > now:
            self._wait_at = now + RETRY_S  # commands that cannot be written would be answered at once
        self._heard_at = now
        self._line.answered()
        server = {"db_id": answer["db_id"], "m_epoch": answer["m_epoch"]}
        another = server != {"db_id": self._memory.db_id, "m_epoch": self._memory.m_epoch}
        if another:
            self._memory.db_id, self._memory.m_epoch = server["db_id"], server["m_epoch"]
            self._ledger.append({"k": "server", **server})
        if another or answer["all"]:
            self._inventory = True
            self._reports.start_over()
        if flight.whole:
            self._inventory = False
        self._reports.delivered(flight)
        self._survey(on=bool(answer["gpu"]))
        if flight.finals:
            self._remind_at = now + REMIND_S
        self._reports.acknowledged(answer["acks"], answer["rewind"])
        for job in answer["done"]:
            attempt = self.attempts.get(job)
            if attempt is not None and not attempt.live:
                self._forget(attempt)
        for job in answer["kill"]:
            self._kill(now, job)
        self._commands.take(now, answer["cmds"])
        self._out += [fx.Serve(*read) for read in answer["reads"]]
        if lease_s is not None:  # after what is to be killed
            self._extend_lease(now, sent_at=flight.sent_at, seconds=lease_s)
        if answer["leave"] and not self.attempts:
            self._leave("no job is left and none will come", clear=True)
        return self._pump(now)

    def _extend_lease(self, now: float, *, sent_at: float, seconds: float) -> None:
        number = self._lease.number
        order = self._lease.extend(now, sent_at=sent_at, seconds=seconds)
        if order is not None:
            self._out.append(order)
        if self._lease.number > number:  # what could not begin before may begin now
            for attempt in self.attempts.values():
                if attempt.live and not attempt.claimed and attempt.respawns:
                    attempt.respawn_at = now
                    self._look(attempt)

    def extended(self, now: float, order: fx.Extend, trouble: str | None = None) -> list[Effect]:
        """The end of the lease is written, or why it could not be."""
        if self._lease.written(order, trouble):
            self._reports.urgent = True
            if trouble is not None:
                self._out.append(fx.Say(trouble))
        return self._pump(now)

    def failed(self, now: float, channel: Channel, sentence: str, reason: str | None = None) -> list[Effect]:
        """The call came to nothing; what it carried goes again, unless this keeper is replaced."""
        flight = self._flights.pop(channel)
        self._reports.lost(flight)
        self._line.failed(now, call=flight.no, last=self._sync_no)
        if self._line.is_news(sentence):
            self._out.append(fx.Say(f"sync failed: {sentence}"))
        if reason == REPLACED and not self._replaced:
            self._end_all(now)
        return self._pump(now)

    def _end_all(self, now: float) -> None:
        """Another keeper has this one's place, and its attempts count as lost: none of them may go on."""
        self._replaced = True
        self._out.append(
            fx.Say("the server has another keeper in this one's place: all attempts are stopped")
        )
        self._commands.drop()
        self._remind_at = None
        for job in list(self.attempts):
            self._kill(now, job)

    def _survey(self, *, on: bool) -> None:
        if on != self._surveys:
            self._surveys = on
            self._reports.gpus_read(None)
            self._out.append(fx.Survey(on))

    def gpus_read(self, now: float, reading: dict[str, Any]) -> list[Effect]:
        """The GPUs have changed, or were read for the first time (the ``gpu`` of ``trial_keeper.wire``)."""
        if self._surveys:
            self._reports.gpus_read(reading)
        return self._pump(now)

    def manager_changed(self, now: float) -> list[Effect]:
        """The file that names the server was rewritten: a wait for it ends."""
        self._line.hurry()
        return self._pump(now)

    def _disobeyed(self, answer: dict[str, Any]) -> str | None:
        """Why this answer does not count, if so."""
        if answer["instance"] != self._identity.instance:
            return "the answer is for another instance of this keeper"
        known = self._memory
        if known.db_id is not None and answer["db_id"] != known.db_id:
            return f"the server has another database ({answer['db_id']}) than this keeper's ({known.db_id})"
        if answer["m_epoch"] < known.m_epoch:
            return f"an older server (epoch {answer['m_epoch']}, {known.m_epoch} is known) is not obeyed"
        return None

    def _pump(self, now: float) -> list[Effect]:
        """Start the calls that should be in flight; return what has come together."""
        if self._replaced and not self.attempts:
            self._leave("another keeper has its place, and nothing that it started runs any more")
        if self._ending is not None:
            self._wind_up(now)
        # While a record is being written a call would not yet say that its command is seen.
        quiet = self._leaving or self._replaced or self._commands.writing
        if now >= self._line.retry_at and not quiet:
            if self._inventory:
                if Channel.REPORT not in self._flights and not self._collecting:
                    self._send(now, Channel.REPORT, self._reports.inventory())
            else:
                free = Channel.REPORT not in self._flights and not self._collecting and not self._breather
                if free and self._reports.due(now):
                    self._collecting = True
                    self._reports.open()
                    self._collect(now)
                if Channel.WAIT not in self._flights and now >= self._wait_at:
                    self._send(now, Channel.WAIT, Flight())
        out = self._out[:]
        self._out.clear()
        return out

    def _collect(self, now: float) -> None:
        read = self._reports.next_read()
        if read is not None:
            self._out.append(read)
            return
        self._collecting = False
        flight = self._reports.close(now)
        self._breather = flight is None and self._reports.unread
        if flight is not None:
            if any(self.attempts[job].seq > self._ledger.acked_cmd for job in flight.finals):
                self._reports.owed_ack = max(self.attempts[job].seq for job in flight.finals)
            self._send(now, Channel.REPORT, flight)

    def _send(self, now: float, channel: Channel, flight: Flight) -> None:
        self._sync_no += 1
        flight.no = self._sync_no
        flight.sent_at = now
        self._flights[channel] = flight
        header = {
            "instance": self._identity.instance, "k_epoch": self._memory.k_epoch, "sync_no": self._sync_no,
            "boot_id": self._identity.boot_id, "db_id_seen": self._memory.db_id,
            "m_epoch_seen": self._memory.m_epoch, "acked_cmd": self._ledger.acked_cmd,
            "seen_cmd": self._memory.applied, "all": flight.whole,
            "wait": channel is Channel.WAIT, "status": self.status, "attempts": flight.entries,
        }  # fmt: skip
        if flight.gpu is not None:
            header["gpu"] = flight.gpu
        host = self._identity.host() if flight.whole else None
        if host is not None:
            header["host"] = host
        self._out.append(fx.Send(channel, header, flight.payloads))

    @property
    def status(self) -> str | None:
        """What is wrong with the keeper itself."""
        troubles = self._identity.status, self._ledger.trouble, self._lease.trouble, self._unprepared
        return "; ".join(filter(None, troubles)) or None

    # -- time

    def tick(self, now: float) -> list[Effect]:
        """The deadline has come."""
        due = [effect for at, effect in self._later if at <= now]
        self._later = [(at, effect) for at, effect in self._later if at > now]
        self._breather = False
        self._out += [effect for effect in due if self._wanted(effect)]
        for job, (at, kill) in list(self._kills.items()):
            if at <= now:
                del self._kills[job]
                self._out.append(kill)
        if self._remind_at is not None and now >= self._remind_at:
            self._remind_at = None
            self._reports.remind()
        self._commands.go_on(now)
        orphaned_at = self._orphaned_at()
        if orphaned_at is not None and now >= orphaned_at:
            self._stop_orphans(now)
        idle_at = self._idle_at()
        if idle_at is not None and now >= idle_at:
            self._leave("no attempt is live and no server could be reached")
        return self._pump(now)

    def _wanted(self, effect: Effect) -> bool:
        """What was put off still has something to act on."""
        attempt = self.attempts.get(str(effect[0]))  # their first field is the job
        return attempt is not None and not (isinstance(effect, fx.Signal) and attempt.sealing)

    def deadline(self, now: float) -> float | None:
        """When ``tick`` is due, perhaps in the past; None: nothing waits for time."""
        if self._leaving:
            return None
        times = [at for at, _ in (*self._later, *self._kills.values())]
        if Channel.REPORT not in self._flights and not self._replaced:
            soon = now if self._inventory else self._reports.due_at(now)
            if soon is not None:
                times.append(max(self._line.retry_at, soon))
        if Channel.WAIT not in self._flights and not self._inventory and not self._replaced:
            times.append(max(self._line.retry_at, self._wait_at))
        if self._commands:
            times.append(self._ledger.retry_at)
        times += [
            at
            for at in (self._remind_at, self._idle_at(), self._orphaned_at(), self._leave_at)
            if at is not None
        ]
        return min(times) if times else None

    def _idle_at(self) -> float | None:
        if self._heard_at is None or any(attempt.live for attempt in self.attempts.values()):
            return None
        kept = self._identity.unreported_s if self.attempts else None
        return self._heard_at + (self._identity.idle_s if kept is None else kept)

    def _orphaned_at(self) -> float | None:
        """When attempts that the server has not asked to stop are to be stopped all the same."""
        limit = self._identity.orphan_s
        if limit is None or self._heard_at is None or not any(self._orphans()):
            return None
        return self._heard_at + limit

    def _orphans(self) -> Iterator[Attempt]:
        return (attempt for attempt in self.attempts.values() if attempt.live and attempt.stop is None)

    def _stop_orphans(self, now: float) -> None:
        self._out.append(fx.Say(f"no word from the server for {self._identity.orphan_s:g} s: all is stopped"))
        for attempt in list(self._orphans()):
            attempt.orphaned = True
            self._stop(now, attempt, KILL_GRACE_S)
            self._ledger.append(stop_record(attempt))

    def host_ends(self, now: float, grace: float) -> list[Effect]:
        """The host was told to end: what runs is stopped with this grace in seconds, and counts as lost."""
        if self._ending is None:
            self._ending = grace
            self._evict(now)
        return self._pump(now)

    def _evict(self, now: float) -> None:
        assert self._ending is not None
        for attempt in list(self._orphans()):
            self._out.append(fx.Say(f"{attempt.job}: it is stopped because its host is about to end"))
            attempt.evicted = True
            self._stop(now, attempt, self._ending)
            self._ledger.append(stop_record(attempt))

    def _wind_up(self, now: float) -> None:
        """On a host that is about to end: leave as soon as the server has heard everything, or in time."""
        if not self.attempts:
            self._leave("its host is about to end")
        elif self._leave_at is None and not any(attempt.live for attempt in self.attempts.values()):
            self._leave_at = now + LAST_WORDS_S
        elif self._leave_at is not None and now >= self._leave_at:
            self._leave("its host is about to end, though the server has not heard of all that ended here")

    def _leave(self, reason: str, *, clear: bool = False) -> None:
        if not self._leaving:
            self._leaving = True
            self._out.append(fx.Leave(reason, clear))


def _bad_header(offset: int) -> str:
    return f"the metrics file holds no frame header at byte {offset}; nothing from there on is read"
