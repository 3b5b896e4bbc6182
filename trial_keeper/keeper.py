"""The keeper's main loop: passes events to ``KeeperCore``, and carries out the effects that the core returns.

An effect is an order, such as "start this attempt".
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time

from trial_keeper import VERSION
from trial_keeper.actions.files import Paths
from trial_keeper.actions.loop import Loop, now
from trial_keeper.actions.notices import Notices
from trial_keeper.actions.opening import MARK, Directory
from trial_keeper.actions.performer import Performer
from trial_keeper.actions.request_pipe import RequestPipe
from trial_keeper.actions.starts import Starts
from trial_keeper.actions.usage_log import PAUSE_S as USAGE_PAUSE_S
from trial_keeper.actions.usage_log import UsageLog
from trial_keeper.actions.watches import MANAGER, OwnDirectory, Watches
from trial_keeper.attempt import ending
from trial_keeper.attempt.deadline import Deadline
from trial_keeper.code.store import CodeStore, default_folder
from trial_keeper.core.core import KeeperCore
from trial_keeper.lean import TYPE_CHECKING, NamedTuple
from trial_keeper.log import STARTS
from trial_keeper.machine import capacity, procs
from trial_keeper.machine.gpus import PAUSE_S, Survey, granted
from trial_keeper.shim import NOT_CLAIMED
from trial_keeper.streams import Lines, Log

if TYPE_CHECKING:
    from typing import NoReturn

    from trial_keeper.actions.preloading import Preloading
    from trial_keeper.machine.interpreter import Interpreters
    from trial_keeper.wire import GpuReading, HostCapacity

SWITCH_INTERVAL_S = 0.0005  # the default of 5 ms would delay calls behind the loop
RESTART_PAUSE_S = 1.0


class Pipes(NamedTuple):
    """Pipes between the keeper and its spawner, the process that forks the shims, and the spawner's pid.

    ``requests``: orders to fork shims. ``failures``: the spawner's reports of failed shims. ``wake``: the
    shims' notices.
    """

    requests: int
    failures: int
    wake: int
    spawner: int


class Keeper:
    """Keeper that works in ``directory`` (``<experiment's directory>/keeper``)."""

    def __init__(self, directory: str, pipes: Pipes, interpreters: Interpreters) -> None:
        self._directory = directory
        self._pipes = pipes
        self._log = Log(f"{directory}/keeper.log")
        self._loop = loop = Loop()
        interpreters.changed = lambda: loop.tell(lambda: self._starts.release())
        own = OwnDirectory(directory)
        place = Directory(directory, pipes.spawner, self._log)
        self._core = core = KeeperCore(*place.open(own.trouble, self._capacity))
        journal = place.open_journal(
            core.records(),
            flushed=lambda number: loop.tell(lambda: core.flushed(now(), number)),
            failed=lambda sentence: loop.tell(lambda: core.flush_failed(now(), sentence)),
        )
        self._failures = Lines(pipes.failures)
        self._notices = Notices(pipes.wake, core)
        paths = Paths(os.path.dirname(directory), core.attempts)
        store = CodeStore(default_folder(), manager=MANAGER, boot_id=place.boot_id)
        requests = RequestPipe(pipes.requests, pipes.spawner, loop)
        self._starts = Starts(
            place, core, loop, paths, interpreters, store, requests, self._make_preloading
        )  # fmt: skip
        self._watches = Watches(directory, own, core, loop, paths, self._notices, self._log)
        survey = Survey(
            self._gpus_read, mark=MARK, pause_s=float(os.environ.get("NNIMGR_GPU_PAUSE_S", PAUSE_S))
        )
        self._usage = UsageLog(
            directory, core.attempts, paths, lambda: survey.loads,
            pause_s=float(os.environ.get("NNIMGR_USAGE_PAUSE_S", USAGE_PAUSE_S)),
        )  # fmt: skip
        self._performer = Performer(
            place, core, loop, paths, journal, self._notices, self._starts, self._watches, survey, self._log,
            MANAGER,
        )  # fmt: skip

    def _capacity(self) -> HostCapacity | None:
        try:
            return {**capacity.capacity(self._directory), "version": VERSION}
        except (OSError, ValueError) as error:
            self._log.write(f"this machine's resources cannot be read: {error}")
            return None

    def _gpus_read(self, reading: GpuReading) -> None:
        self._loop.tell(lambda: self._core.gpus_read(now(), granted(reading)))

    def run(self) -> NoReturn:
        """Run the loop until the core orders the exit, which ends the process."""
        self._log.write(f"keeper {os.getpid()} {STARTS} {self._core.k_epoch}")
        self._loop.on_readable(self._pipes.wake, self._on_wake)
        self._loop.on_readable(self._pipes.failures, self._on_failure)
        self._watches.begin()
        self._on_wake()  # shims may have sent notices while no keeper ran
        self._starts.begin(job for job, attempt in self._core.attempts.items() if attempt.live)
        self._loop.perform(self._core.begin(now()))
        while True:
            self._loop.wait(self._timeout())
            self._performer.go_on()
            at = now()
            due = self._core.deadline(at)
            if due is not None and due <= at:
                self._loop.perform(self._core.tick(at))
            usage_at = self._usage.due_at()
            if usage_at is not None and usage_at <= at:
                self._usage.measure(at)

    def _timeout(self) -> float | None:
        if self._performer.busy:
            return 0.0
        at = now()
        due = self._core.deadline(at)
        times = (due, self._usage.due_at())
        waits = (*(None if each is None else max(0.0, each - at) for each in times), self._watches.look())
        return min((wait for wait in waits if wait is not None), default=None)

    def _on_wake(self) -> None:
        self._loop.perform(self._notices.read())

    def _on_failure(self) -> None:
        lines = self._failures.lines()
        if self._failures.ended:
            self._start_over()
        for line in lines:
            self._report_failure(line)

    def _report_failure(self, line: str) -> None:
        self._on_wake()  # first the notices that the shim sent before it ended
        job, _, status = line.partition(" ")
        self._loop.perform(self._core.shim_failed(now(), job, _wait_status(int(status))))

    def _make_preloading(self) -> Preloading:
        from trial_keeper.actions.preloading import Preloading  # most keepers never need it

        return Preloading(
            self._directory,
            self._loop,
            self._pipes.wake,
            changed=lambda: self._loop.perform(self._starts.release()),
            failed=self._report_failure,
            ended=self._start_over,
        )

    def _start_over(self) -> NoReturn:
        """Replace this process by a fresh keeper, because the spawner has ended.

        The spawner must be forked before most imports, so this process cannot fork a new one.
        """
        self._log.write("the spawner has ended: the keeper restarts")
        time.sleep(RESTART_PAUSE_S)
        _reap_all()
        arguments = procs.strings(os.getpid(), "cmdline")
        if arguments[-3:-2] in (["wrap"], ["guard"]):  # the keeper was forked by process 1 of a container
            arguments = [*arguments[:-3], "--foreground", self._directory]
        os.execv(procs.program(arguments), arguments)


def run(directory: str, pipes: Pipes, interpreters: Interpreters) -> NoReturn:
    """Run the keeper of this directory; ``pipes`` lead to its spawner."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: _terminated(directory))
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # each attempt needs a descriptor
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    Keeper(directory, pipes, interpreters).run()


def _terminated(directory: str) -> None:
    """Exit, which is safe, because all state is in files.

    In a container or a job of a batch system, SIGTERM may go to all processes there. Then stay, to report how
    the attempts end.
    """
    if not ending.order(directory):
        os._exit(0)


def _reap_all() -> None:
    """Reap ended child processes, which would remain zombies after the keeper has restarted itself."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return


def _wait_status(status: int) -> str:
    if status < 0:
        return f"the shim could not be forked: {os.strerror(-status)}"
    if os.WIFSIGNALED(status):
        return f"the shim was killed by signal {os.WTERMSIG(status)}"
    number = os.WEXITSTATUS(status)
    if number == Deadline.OVER:
        return "the lease has elapsed, and the server has not answered since"
    if number != NOT_CLAIMED:
        return f"{os.strerror(number)} (see the keeper's log)"
    return "the shim ended without starting the attempt (see the keeper's log)"
