"""Carries out the effects that the keeper's core orders, such as starting a shim or calling the server."""

from __future__ import annotations

import collections
import contextlib
import os
import signal

from trial_keeper.actions import files, lease_file
from trial_keeper.actions.loop import now
from trial_keeper.actions.prunes import Prunes
from trial_keeper.attempt import claim
from trial_keeper.calls.reads import Reads
from trial_keeper.calls.sync import Caller, Failed
from trial_keeper.core import effects as fx
from trial_keeper.core.effects import Channel
from trial_keeper.lean import TYPE_CHECKING
from trial_keeper.machine import procs

if TYPE_CHECKING:
    from trial_keeper.actions.journal import Journal
    from trial_keeper.actions.loop import Loop
    from trial_keeper.actions.notices import Notices
    from trial_keeper.actions.opening import Directory
    from trial_keeper.actions.starts import Starts
    from trial_keeper.actions.watches import Watches
    from trial_keeper.calls.sync import Outcome
    from trial_keeper.core.core import KeeperCore
    from trial_keeper.core.effects import Effect
    from trial_keeper.machine.gpus import Survey
    from trial_keeper.streams import Log


class Performer:
    """Performer of effects, with one method for each type of effect.

    Each method returns the further effects that the core orders in response. ``manager``: path of
    manager.json, the file with the server's address.
    """

    def __init__(
        self,
        directory: Directory,
        core: KeeperCore,
        loop: Loop,
        paths: files.Paths,
        journal: Journal,
        notices: Notices,
        starts: Starts,
        watches: Watches,
        survey: Survey,
        log: Log,
        manager: str,
    ) -> None:
        self._directory = directory
        self._core = core
        self._loop = loop
        self._paths = paths
        self._journal = journal
        self._notices = notices
        self._starts = starts
        self._watches = watches
        self._survey = survey
        self._log = log
        self._unseen = {job for job, each in core.attempts.items() if each.live and not each.claimed}
        self._slow: collections.deque[fx.Count] = collections.deque()
        self._prunes = Prunes(paths, self._pruned)
        self._reads = Reads(manager, os.path.dirname(directory.path))
        self._callers = {channel: Caller(channel.value, manager, self._called) for channel in Channel}
        loop.acts = {
            fx.Append: self._append, fx.Spawn: starts.spawn, fx.Abort: self._abort, fx.Fence: self._fence,
            fx.Look: self._look, fx.Signal: self._signal, fx.AskSave: self._ask_save, fx.Kill: self._kill,
            fx.Sweep: self._sweep,
            fx.Watch: watches.watch, fx.Unwatch: self._unwatch, fx.Read: self._read, fx.Count: self._count,
            fx.Update: self._update, fx.Send: self._send, fx.Serve: self._serve, fx.Prune: self._prunes.take,
            fx.Extend: self._extend,
            fx.Survey: self._switch_survey, fx.Say: self._say, fx.Leave: self._leave,
        }  # fmt: skip

    @property
    def busy(self) -> bool:
        """Return whether ``go_on`` has work to do, which is to count the rest of a long metrics file."""
        return bool(self._slow)

    def go_on(self) -> None:
        """Count one more piece of a long metrics file. Do nothing if no such file is being counted."""
        if self._slow:
            order = self._slow.popleft()
            tally = files.count(self._paths.files(order), order.offset)
            self._loop.perform(self._core.counted(now(), order.job, tally))

    # -- the journal

    def _append(self, effect: fx.Append) -> list[Effect]:
        try:
            self._journal.append(effect.number, effect.record, flush=effect.flush)
        except OSError as error:
            sentence = f"the keeper's journal cannot be written: {error.strerror}"
            return self._core.write_failed(now(), sentence)
        return self._core.written(now())

    # -- attempts

    def _look(self, effect: fx.Look) -> list[Effect]:
        seen = self._seen(effect.job, effect.directory, effect.shim)
        # A shim sends a notice before it ends. Such a notice is newer than what was read from the claim file.
        if not seen.alive and (news := self._notices.read()):
            return news + self._core.notified(now(), effect.job)
        return self._core.looked(now(), effect.job, seen)

    def _seen(self, job: str, directory: str, shim: fx.Shim | None) -> fx.Seen:
        """Read an attempt's claim file and check whether its shim runs. The first such check is thorough.

        An earlier keeper may have been killed before it recorded that a shim had claimed the attempt. If the
        claim file is gone too, only the trial's metrics and processes show that the attempt was started.
        """
        prefix = self._paths.prefix(job, directory)
        seen = files.look(prefix, shim)
        if job in self._unseen or self._core.is_sought(job):
            self._unseen.discard(job)
            if seen.claim is None and (
                files.has_metrics(prefix) or procs.marked("NNI_SYS_DIR", self._paths.folder(directory))
            ):
                return seen._replace(claim=claim.damaged())
        return seen

    def _fence(self, effect: fx.Abort | fx.Fence) -> list[Effect]:
        try:
            files.abort(self._paths.prefix(effect.job, effect.directory), self._directory.boot_id)
        except OSError as error:
            self._log.write(f"the claim file of {effect.job} could not be written: {error}")
        return []

    def _abort(self, effect: fx.Abort) -> list[Effect]:
        self._fence(effect)
        return self._core.looked(now(), effect.job, self._seen(effect.job, effect.directory, None))

    def _signal(self, effect: fx.Signal) -> list[Effect]:
        try:
            files.stop(self._paths.prefix(effect.job, effect.directory), effect.shim, effect.grace)
        except OSError as error:
            return self._core.signal_failed(now(), effect, str(error.strerror))
        return []

    def _ask_save(self, effect: fx.AskSave) -> list[Effect]:
        directory = self._paths.folder(effect.directory)
        if effect.first:
            waits = files.ask_save(directory, stays=effect.stays)
        else:
            waits = files.save_waits(directory)
        asks = files.looks_for_saves(directory)
        return self._core.save_seen(now(), effect.job, waits=waits, asks=asks)

    def _kill(self, effect: fx.Kill) -> list[Effect]:
        files.kill(self._paths.prefix(effect.job, effect.directory), effect.shim)
        return self._core.killed(now(), effect)

    def _sweep(self, effect: fx.Sweep) -> list[Effect]:
        # Find the processes by their directory, because an experiment of another home may have equal job ids.
        pids = procs.marked("NNI_SYS_DIR", self._paths.folder(effect.directory))
        procs.signal_all(pids, signal.SIGKILL)
        return self._core.swept(now(), effect.job, pids)

    def _unwatch(self, effect: fx.Unwatch) -> list[Effect]:
        self._starts.end(effect.job)
        self._reads.ended()
        self._watches.end(effect.job)
        self._prunes.tidy(effect.directory)
        return []

    def _read(self, effect: fx.Read) -> list[Effect]:
        return self._core.frames_read(now(), effect.job, files.read(self._paths.files(effect), effect))

    def _count(self, effect: fx.Count) -> list[Effect]:
        tally = files.count(self._paths.files(effect), effect.offset)
        if tally.more:  # the rest of a long file is counted in pieces, one piece per turn of the loop
            self._slow.append(fx.Count(effect.job, effect.directory, effect.offset))
            return []
        return self._core.counted(now(), effect.job, tally)

    def _update(self, effect: fx.Update) -> list[Effect]:
        try:
            files.write_parameter(self._paths.folder(effect.directory), effect.number, effect.parameter)
        except OSError as error:
            return self._core.update_failed(now(), effect, str(error.strerror))
        return []

    def _pruned(self, number: int) -> None:
        """Pass the number of a deletion to the keeper's loop. This runs in the thread that has deleted."""
        self._loop.tell(lambda: self._core.pruned(now(), number))

    # -- the server

    def _send(self, effect: fx.Send) -> list[Effect]:
        self._callers[effect.channel].call(effect)
        return []

    def _called(self, order: fx.Send, outcome: Outcome) -> None:
        """Pass the outcome of a call to the keeper's loop. This runs in the thread that has made the call."""
        if isinstance(outcome, Failed):
            failed = outcome
            self._loop.tell(lambda: self._core.failed(now(), order.channel, failed.sentence, failed.reason))
        else:
            answer = outcome
            self._loop.tell(lambda: self._core.answered(now(), order.channel, answer))

    def _serve(self, effect: fx.Serve) -> list[Effect]:
        attempts = self._core.attempts.values()
        found = next((attempt for attempt in attempts if attempt.directory == effect.directory), None)
        self._reads.take(effect, lambda: found is not None and found.live)
        return []

    def _extend(self, effect: fx.Extend) -> list[Effect]:
        trouble = None
        try:
            lease_file.write(self._directory.path, effect, self._directory.boot_id)
        except OSError as error:
            trouble = f"the end of the lease cannot be written: {error.strerror}"
        return self._core.extended(now(), effect, trouble)

    # -- the keeper itself

    def _switch_survey(self, effect: fx.Survey) -> list[Effect]:
        self._survey.switch(effect.on)
        return []

    def _say(self, effect: fx.Say) -> list[Effect]:
        self._log.write(effect.sentence)
        return []

    def _leave(self, effect: fx.Leave) -> list[Effect]:
        self._log.write(f"keeper {os.getpid()} leaves: {effect.reason}")
        if effect.clear:
            self._directory.clear()
        self._survey.switch(False)
        self._starts.close()
        self._prunes.finish()
        if told := os.environ.get("NNIMGR_POD_REASON"):
            with contextlib.suppress(OSError), open(told, "w", encoding="utf-8") as file:
                file.write(effect.reason)
        os._exit(0)
