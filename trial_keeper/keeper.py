"""The keeper's body: one loop that tells ``KeeperCore`` what happened and carries out what it asks for."""

from __future__ import annotations

import collections
import contextlib
import os
import resource
import selectors
import signal
import sys
import time

from trial_keeper import (
    VERSION,
    claim,
    copies,
    ending,
    eviction,
    files,
    lease,
    machine,
    memory,
    procs,
    spawner,
)
from trial_keeper import effects as fx
from trial_keeper import journal as journals
from trial_keeper.code import CodeStore, default_folder
from trial_keeper.copies import Copies
from trial_keeper.core import KeeperCore
from trial_keeper.deadline import Deadline
from trial_keeper.effects import Channel, Effect
from trial_keeper.gpus import PAUSE_S, Reading, Survey
from trial_keeper.identity import Identity
from trial_keeper.interpreter import Interpreters
from trial_keeper.lean import TYPE_CHECKING, NamedTuple
from trial_keeper.reads import Reads
from trial_keeper.shim import NOT_CLAIMED
from trial_keeper.streams import Lines, Log
from trial_keeper.sync import Caller, Failed, Outcome
from trial_keeper.watch import LOST, Watcher, open_process

if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, NoReturn

SWITCH_INTERVAL_S = 0.0005  # a call must not wait 5 ms, the default, for the loop to let go
LOOK_S = 0.05  # without inotify
PROCESS_LOOK_S = 1.0  # without pidfd
SPARE_FILES = 32  # descriptors that are never used to watch attempts
RESTART_PAUSE_S = 1.0
OWN_FILES = ("instance", "journal", "lock")
MANAGER = "manager.json"  # relative to the keeper's folder, which may be moved
MARK = "NNIMGR_JOB_ID"
CROWDED = 1 << 15  # characters of wake-ups read at once: the pipe holds twice as many

_now = lease.now


class Pipes(NamedTuple):
    """Descriptors shared with the spawner: its requests, its failures, and the shims' wake-ups; its pid."""

    requests: int
    failures: int
    wake: int
    spawner: int


class Keeper:
    """One keeper at work in ``directory`` (``<experiment's directory>/keeper``)."""

    def __init__(self, directory: str, pipes: Pipes) -> None:
        self._directory = directory
        self._experiment = os.path.dirname(directory)
        self._pipes = pipes
        self._log = Log(f"{directory}/keeper.log")
        self._selector = selectors.DefaultSelector()
        self._told: collections.deque[Callable[[], list[Effect]]] = collections.deque()  # by the threads
        self._pulse, self._beat = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._watcher: Watcher | None = None
        self._manager_watch = -1
        self._watched: dict[int, str] = {}
        self._watches: dict[str, int] = {}
        self._processes: dict[str, int] = {}
        self._blind_at = 0.0
        self._blind: dict[str, None] = {}  # watched without inotify, or without a pidfd
        self._requests = b""
        self._wakes = Lines(pipes.wake)
        self._failures = Lines(pipes.failures)
        self._waiting: list[fx.Spawn] = []
        self._codeless: dict[str, fx.Spawn] = {}  # attempts whose code is not there yet
        self._slow: collections.deque[fx.Count] = collections.deque()
        self._interpreters = Interpreters(directory, lambda: self._tell(self._start_waiting))
        self._survey = Survey(
            self._gpus_read, mark=MARK, pause_s=float(os.environ.get("NNIMGR_GPU_PAUSE_S", PAUSE_S))
        )
        status = self._open_watcher()
        self._boot_id = _boot_id()
        found = journals.load(f"{directory}/journal")
        damage = found.damage
        if damage is None and not memory.is_whole(found.records) and os.path.exists(f"{directory}/instance"):
            damage = "the keeper's journal was removed or cut"
        instance, left = self._instance(damage=damage)
        identity = Identity(
            instance=instance,
            boot_id=self._boot_id,
            idle_s=float(os.environ.get("NNIMGR_KEEPER_IDLE_S", "600")),
            unreported_s=_seconds("NNIMGR_KEEPER_UNREPORTED_S"),
            orphan_s=_seconds("NNIMGR_KEEPER_ORPHAN_S"),
            status="; ".join(filter(None, (status, damage, left))) or None,
            jitter=lambda: os.urandom(1)[0] / 255,
            lease=lease.find(directory, self._boot_id),
            host=self._capacity,
            ending=ending.grace(directory),
        )
        self._core = KeeperCore(identity, [] if damage else found.records)
        self._most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._unseen = {job for job, each in self._core.attempts.items() if each.live and not each.claimed}
        self._open_journal()
        store = CodeStore(default_folder(), manager=MANAGER, boot_id=self._boot_id)
        self._copies = Copies(directory, store, self._code_told)
        self._reads = Reads(MANAGER, self._experiment)
        self._callers = {channel: Caller(channel.value, MANAGER, self._called) for channel in Channel}
        self._acts: dict[type, Callable[[Any], list[Effect]]] = {
            fx.Append: self._append, fx.Spawn: self._spawn, fx.Abort: self._abort, fx.Fence: self._fence,
            fx.Look: self._look, fx.Signal: self._signal, fx.Kill: self._kill, fx.Sweep: self._sweep,
            fx.Watch: self._watch, fx.Unwatch: self._unwatch, fx.Read: self._read, fx.Count: self._count,
            fx.Update: self._update, fx.Send: self._send, fx.Serve: self._serve, fx.Extend: self._extend,
            fx.Survey: self._switch_survey, fx.Say: self._say, fx.Leave: self._leave,
        }  # fmt: skip

    # -- opening

    def _capacity(self) -> dict[str, Any] | None:
        try:
            return {**machine.capacity(self._directory), "version": VERSION}
        except (OSError, ValueError) as error:
            self._log.write(f"what this machine has cannot be read: {error}")
            return None

    def _open_watcher(self) -> str | None:
        try:
            self._watcher = Watcher()
            self._manager_watch = self._watcher.watch_directory(self._directory)
        except OSError as error:
            self._watcher = None
            return (
                f"without inotify ({error.strerror}) the metrics are looked at every {LOOK_S * 1000:.0f} ms"
            )
        return None

    def _instance(self, *, damage: str | None) -> tuple[str, str | None]:
        """The name of this directory, and what is wrong with the host if something is.

        A directory made anew is a new instance: the server will take all attempts of earlier ones for lost,
        so before there is a name to sync under nothing of them may run. One whose journal is damaged counts
        as new: nobody knows any more what it has started, or up to where it has obeyed.
        """
        path = f"{self._directory}/instance"
        if damage is not None:
            self._log.write(damage)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        try:
            with open(path, encoding="ascii") as file:
                return file.read().strip(), None
        except FileNotFoundError:
            pass
        left = self._clear()
        name = os.urandom(16).hex()
        journals.replace(path, name.encode("ascii"))
        return name, left

    def _clear(self) -> str | None:
        """Kill what an earlier keeper has left; return one sentence about what could not be killed."""
        cleared = eviction.clear(self._directory, MARK, spawner=self._pipes.spawner)
        if cleared.killed:
            self._log.write(f"killed what an earlier keeper had left: {cleared.killed}")
        if not cleared.left:
            return None
        left = f"processes of an earlier keeper that could not be killed: {cleared.left}"
        self._log.write(left)
        return left

    def _open_journal(self) -> None:
        path = f"{self._directory}/journal"
        while True:  # nothing may happen before the new k_epoch is durable
            try:
                journals.rewrite(path, self._core.records())
                break
            except OSError as error:
                self._log.write(f"the journal cannot be written, tried again in a second: {error}")
                time.sleep(1.0)
        self._journal = journals.Journal(
            path,
            flushed=lambda number: self._tell(lambda: self._core.flushed(_now(), number)),
            failed=lambda sentence: self._tell(lambda: self._core.flush_failed(_now(), sentence)),
            fold=memory.fold,
        )

    # -- the loop

    def run(self) -> NoReturn:
        """Work until there is nothing left to do; exits the process."""
        self._log.write(f"keeper {os.getpid()} starts, epoch {self._core.k_epoch}")
        readers: list[tuple[int, Callable[[], None]]] = [
            (self._pulse, self._on_told),
            (self._pipes.wake, self._on_wake),
            (self._pipes.failures, self._on_failure),
        ]
        if self._watcher is not None:
            readers.append((self._watcher.fd, self._on_change))
        for fd, act in readers:
            self._selector.register(fd, selectors.EVENT_READ, act)
        self._on_wake()  # what shims have sent while there was no keeper
        self._copies.begin(job for job, attempt in self._core.attempts.items() if attempt.live)
        self._perform(self._core.begin(_now()))
        while True:
            for key, _ in self._selector.select(self._timeout()):
                key.data()
            if self._slow:
                order = self._slow.popleft()
                tally = files.count(self._files(order), order.offset)
                self._perform(self._core.counted(_now(), order.job, tally))
            now = _now()
            due = self._core.deadline(now)
            if due is not None and due <= now:
                self._perform(self._core.tick(now))

    def _timeout(self) -> float | None:
        if self._slow:
            return 0.0
        now = _now()
        due = self._core.deadline(now)
        wait = None if due is None else max(0.0, due - now)
        if self._watcher is None:
            self._look_for_end()
            wait = PROCESS_LOOK_S if wait is None else min(wait, PROCESS_LOOK_S)
        if self._blind:
            look = LOOK_S if self._watcher is None else PROCESS_LOOK_S
            if self._blind_at <= now:
                self._blind_at = now + look
                for job in list(self._blind):
                    self._perform(self._core.grown(now, job))
                    self._perform(self._core.notified(now, job))
            wait = look if wait is None else min(wait, look)
        return wait

    def _perform(self, effects: Iterable[Effect]) -> None:
        queue = collections.deque(effects)
        while queue:
            effect = queue.popleft()
            queue.extend(self._acts[type(effect)](effect))

    def _tell(self, input_: Callable[[], list[Effect]]) -> None:
        """From another thread: have the loop give this to the core."""
        self._told.append(input_)
        try:
            os.write(self._beat, b"\0")
        except BlockingIOError:  # it will wake up anyway
            return

    def _on_told(self) -> None:
        _drain(self._pulse)
        while self._told:
            self._perform(self._told.popleft()())

    def _on_wake(self) -> None:
        self._perform(self._notices())

    def _notices(self) -> list[Effect]:
        """Shims name the attempts whose claim files they have written to, and send what is in these.

        Where the pipe was full some shims could not: then every attempt is looked at.
        """
        effects = []
        lines = dict.fromkeys(self._wakes.lines())
        for line in lines:
            job, _, text = line.partition(" ")
            told = claim.parse(f"{text}\n".replace(claim.SEPARATOR, "\n").encode()) if text else None
            effects += self._core.notified(_now(), job, told)
        if sum(map(len, lines)) >= CROWDED:
            for job in list(self._core.attempts):
                effects += self._core.notified(_now(), job)
        return effects

    def _on_failure(self) -> None:
        self._on_wake()  # what a shim has sent before it ended
        lines = self._failures.lines()
        if self._failures.ended:
            self._start_over()
        for line in lines:
            job, _, status = line.partition(" ")
            self._perform(self._core.shim_failed(_now(), job, _wait_status(int(status))))

    def _on_change(self) -> None:
        assert self._watcher is not None
        for change in dict.fromkeys(self._watcher.changes()):
            if change.watch == LOST:
                self._look_everywhere()
            elif change.watch == self._manager_watch:
                if change.removed and change.name in OWN_FILES:
                    self._check_own(change.name)
                elif change.name == MANAGER:
                    self._perform(self._core.manager_changed(_now()))
                elif change.name == ending.ENDING:
                    self._look_for_end()
            elif change.watch in self._watched:
                if change.removed:
                    self._blind[self._watched[change.watch]] = None  # another file may have taken its place
                self._perform(self._core.grown(_now(), self._watched[change.watch]))

    def _check_own(self, name: str) -> None:
        """Exit if a file without which no later keeper would know the attempts was removed.

        The next keeper finds a new folder: it ends what this one has started before it speaks.
        """
        if not os.path.exists(f"{self._directory}/{name}"):
            self._log.write(f"keeper {os.getpid()} exits: its file {name} was removed")
            os._exit(1)

    def _look_everywhere(self) -> None:
        """There were more changes than the kernel could keep: any file may have changed."""
        self._perform(self._core.manager_changed(_now()))
        self._look_for_end()
        for job in list(self._watches):
            self._perform(self._core.grown(_now(), job))

    def _look_for_end(self) -> None:
        """The container that this keeper is in may have been told to end."""
        grace = ending.grace(self._directory)
        if grace is not None:
            self._perform(self._core.host_ends(_now(), grace))

    def _start_over(self) -> NoReturn:
        """The spawner is gone, and only a fresh process can fork a lean one. All state is in the files."""
        self._log.write("the spawner has ended: the keeper starts anew")
        time.sleep(RESTART_PAUSE_S)
        _reap_all()
        arguments = procs.strings(os.getpid(), "cmdline")
        if arguments[-3:-2] == ["wrap"]:  # it was forked in a container
            arguments = [*arguments[:-3], "--foreground", self._directory]
        os.execv(procs.program(arguments), arguments)

    # -- what the core asks for

    def _path(self, directory: str) -> str:
        return f"{self._experiment}/{directory}"

    def _prefix(self, job: str, directory: str) -> str:
        """The prefix of the keeper's own files of an attempt: relative, as the experiment may be moved."""
        attempt = self._core.attempts.get(job)
        if attempt is None or attempt.apart:
            return claim.prefix(".", job)
        return claim.old_prefix(self._path(directory))

    def _files(self, effect: fx.Read | fx.Count | fx.Watch) -> files.AttemptFiles:
        return files.AttemptFiles(self._path(effect.directory), self._prefix(effect.job, effect.directory))

    def _append(self, effect: fx.Append) -> list[Effect]:
        try:
            self._journal.append(effect.number, effect.record, flush=effect.flush)
        except OSError as error:
            sentence = f"the keeper's journal cannot be written: {error.strerror}"
            return self._core.write_failed(_now(), sentence)
        return self._core.written(_now())

    def _spawn(self, effect: fx.Spawn) -> list[Effect]:
        if not self._interpreters.ready(effect.start["command"]):
            self._waiting.append(effect)
            trouble = self._interpreters.trouble(effect.start["command"])
            return [] if trouble is None else self._core.delayed(_now(), effect.job, trouble)
        start = effect.start
        directory, cwd = self._path(start["directory"]), start["cwd"]
        environment = {
            **start["environment"],
            "NNI_SYS_DIR": directory,
            "NNI_OUTPUT_DIR": directory,
            MARK: effect.job,
        }
        if start.get("code") is not None:
            cwd = environment["NNI_CODE_DIR"] = f"{directory}/{copies.FOLDER}"
            if not self._copies.has(effect.job):
                self._codeless[effect.job] = effect
                self._copies.want(effect.job, directory, start["code"])
                return []
        added = self._interpreters.path_for(start["command"])
        if added is not None:
            present = environment.get("PYTHONPATH", os.environ.get("PYTHONPATH"))
            environment["PYTHONPATH"] = f"{present}:{added}" if present else added
        changes = [name if value is None else f"{name}={value}" for name, value in environment.items()]
        fields = [
            effect.job, self._boot_id, directory, start["command"], cwd, start["parameter"],
            str(start["log_cap"]), self._prefix(effect.job, start["directory"]),
            "" if effect.lease is None else lease.path(self._directory, effect.lease), *changes,
        ]  # fmt: skip
        with contextlib.suppress(OSError):
            os.kill(self._pipes.spawner, signal.SIGCONT)  # whoever has suspended it
        self._requests += spawner.pack(map(os.fsencode, fields))
        self._write_requests()
        return []

    def _code_told(self, job: str, sentence: str | None) -> None:
        """From the thread that brings attempts their code: what one waits for, or that it is there."""
        if sentence is None:
            self._tell(lambda: list(filter(None, [self._codeless.pop(job, None)])))
        else:
            self._tell(lambda: self._core.delayed(_now(), job, sentence))

    def _start_waiting(self) -> list[Effect]:
        waiting, self._waiting = self._waiting, []
        return list(waiting)

    def _write_requests(self) -> None:
        fd = self._pipes.requests
        try:
            while self._requests:
                self._requests = self._requests[os.write(fd, self._requests) :]
        except BlockingIOError:
            if fd not in self._selector.get_map():
                self._selector.register(fd, selectors.EVENT_WRITE, self._write_requests)
            return
        except BrokenPipeError:
            self._requests = b""  # the end of its other pipe says the rest
        if fd in self._selector.get_map():
            self._selector.unregister(fd)

    def _look(self, effect: fx.Look) -> list[Effect]:
        seen = self._seen(effect.job, effect.directory, effect.shim)
        if not seen.alive and (news := self._notices()):  # sent before its end, and what was seen is older
            return news + self._core.notified(_now(), effect.job)
        return self._core.looked(_now(), effect.job, seen)

    def _seen(self, job: str, directory: str, shim: fx.Shim | None) -> fx.Seen:
        """Look at the claim. The first look at an attempt that an earlier keeper may have begun is thorough.

        If that keeper was killed before it saw or could record the claim, and the claim is gone, the trial's
        metrics and processes are the only witnesses that it was started.
        """
        prefix = self._prefix(job, directory)
        seen = files.look(prefix, shim)
        if job in self._unseen or self._core.is_sought(job):
            self._unseen.discard(job)
            if seen.claim is None and (
                files.has_metrics(prefix) or procs.marked("NNI_SYS_DIR", self._path(directory))
            ):
                return seen._replace(claim=claim.damaged())
        return seen

    def _fence(self, effect: fx.Abort | fx.Fence) -> list[Effect]:
        try:
            files.abort(self._prefix(effect.job, effect.directory), self._boot_id)
        except OSError as error:
            self._log.write(f"{effect.job}: its claim could not be written: {error}")
        return []

    def _abort(self, effect: fx.Abort) -> list[Effect]:
        self._fence(effect)
        return self._core.looked(_now(), effect.job, self._seen(effect.job, effect.directory, None))

    def _signal(self, effect: fx.Signal) -> list[Effect]:
        try:
            files.stop(self._prefix(effect.job, effect.directory), effect.shim, effect.grace)
        except OSError as error:
            return self._core.signal_failed(_now(), effect, str(error.strerror))
        return []

    def _kill(self, effect: fx.Kill) -> list[Effect]:
        files.kill(effect.shim)
        return self._core.killed(_now(), effect)

    def _sweep(self, effect: fx.Sweep) -> list[Effect]:
        # By the directory: an experiment of the same name below another home may have the same job ids.
        pids = procs.marked("NNI_SYS_DIR", self._path(effect.directory))
        procs.signal_all(pids, signal.SIGKILL)
        return self._core.swept(_now(), effect.job, pids)

    def _watch(self, effect: fx.Watch) -> list[Effect]:
        job = effect.job
        if self._watcher is not None:
            try:
                watch = self._watcher.watch_file(files.stream(self._files(effect)))
                self._watches[job] = watch
                self._watched[watch] = job
                if files.is_parted(self._files(effect)):
                    self._blind[job] = None
            except OSError as error:
                self._log.write(f"{job}: its metrics file cannot be watched: {error.strerror}")
                self._blind[job] = None
        try:
            fd = open_process(effect.shim[0])
        except ProcessLookupError:
            return self._core.notified(_now(), job)
        except OSError as error:
            self._log.write(f"{job}: its shim cannot be watched: {error.strerror}")
            fd = None
        if fd is not None and fd >= self._most_files - SPARE_FILES:
            os.close(fd)  # what else the keeper does needs descriptors, too
            fd = None
        if fd is None or self._watcher is None:
            self._blind[job] = None
        if fd is not None:
            self._processes[job] = fd
            self._selector.register(fd, selectors.EVENT_READ, lambda: self._on_shim_gone(job))
        if procs.start_time(effect.shim[0]) != effect.shim[1]:
            return self._core.notified(_now(), job)
        return self._core.grown(_now(), job)

    def _on_shim_gone(self, job: str) -> None:
        self._forget_process(job)
        self._on_wake()  # what it has sent before it ended
        self._perform(self._core.notified(_now(), job))

    def _forget_process(self, job: str) -> None:
        fd = self._processes.pop(job, None)
        if fd is not None:
            self._selector.unregister(fd)
            os.close(fd)

    def _unwatch(self, effect: fx.Unwatch) -> list[Effect]:
        self._codeless.pop(effect.job, None)
        self._copies.end(effect.job)
        self._reads.ended()
        self._forget_process(effect.job)
        self._blind.pop(effect.job, None)
        watch = self._watches.pop(effect.job, None)
        if watch is not None and self._watcher is not None:
            del self._watched[watch]
            self._watcher.forget(watch)
        return []

    def _read(self, effect: fx.Read) -> list[Effect]:
        return self._core.frames_read(_now(), effect.job, files.read(self._files(effect), effect))

    def _count(self, effect: fx.Count) -> list[Effect]:
        tally = files.count(self._files(effect), effect.offset)
        if tally.more:  # a long file: the rest a piece per turn
            self._slow.append(fx.Count(effect.job, effect.directory, effect.offset))
            return []
        return self._core.counted(_now(), effect.job, tally)

    def _update(self, effect: fx.Update) -> list[Effect]:
        try:
            files.write_parameter(self._path(effect.directory), effect.number, effect.parameter)
        except OSError as error:
            return self._core.update_failed(_now(), effect, str(error.strerror))
        return []

    def _send(self, effect: fx.Send) -> list[Effect]:
        self._callers[effect.channel].call(effect)
        return []

    def _extend(self, effect: fx.Extend) -> list[Effect]:
        try:
            lease.write(self._directory, effect, self._boot_id)
        except OSError as error:
            return self._core.extended(
                _now(), effect, f"the end of the lease cannot be written: {error.strerror}"
            )
        return self._core.extended(_now(), effect)

    def _called(self, order: fx.Send, outcome: Outcome) -> None:
        if isinstance(outcome, Failed):
            self._tell(lambda: self._core.failed(_now(), order.channel, outcome.sentence, outcome.reason))
        else:
            self._tell(lambda: self._core.answered(_now(), order.channel, outcome))

    def _serve(self, effect: fx.Serve) -> list[Effect]:
        attempts = self._core.attempts.values()
        found = next((attempt for attempt in attempts if attempt.directory == effect.directory), None)
        self._reads.take(effect, lambda: found is not None and found.live)
        return []

    def _switch_survey(self, effect: fx.Survey) -> list[Effect]:
        self._survey.switch(effect.on)
        return []

    def _gpus_read(self, reading: Reading) -> None:
        self._tell(lambda: self._core.gpus_read(_now(), reading))

    def _say(self, effect: fx.Say) -> list[Effect]:
        self._log.write(effect.sentence)
        return []

    def _leave(self, effect: fx.Leave) -> list[Effect]:
        self._log.write(f"keeper {os.getpid()} leaves: {effect.reason}")
        if effect.clear:
            self._clear()
        self._survey.switch(False)
        self._copies.close()
        os._exit(0)


def run(directory: str, pipes: Pipes) -> NoReturn:
    """Be the keeper of this directory; ``pipes`` lead to its spawner."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))  # all state is in the files
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # a descriptor per attempt
    os.set_blocking(pipes.requests, False)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    Keeper(directory, pipes).run()


def _seconds(variable: str) -> float | None:
    text = os.environ.get(variable)
    return float(text) if text else None


def _drain(fd: int) -> bytes:
    try:
        return os.read(fd, 65536)
    except BlockingIOError:
        return b""


def _reap_all() -> None:
    """The spawner, and probes: what would stay a zombie of the process that comes."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return


def _wait_status(status: int) -> str:
    if status < 0:
        return f"its shim could not be forked: {os.strerror(-status)}"
    if os.WIFSIGNALED(status):
        return f"its shim was killed by signal {os.WTERMSIG(status)}"
    number = os.WEXITSTATUS(status)
    if number == Deadline.OVER:
        return "the lease is over, and no word has come from the server since"
    if number != NOT_CLAIMED:
        return f"{os.strerror(number)} (the keeper's log says where)"
    return "its shim gave up (the keeper's log says why)"


def _boot_id() -> str:
    path = os.environ.get("NNIMGR_BOOT_ID_FILE", "/proc/sys/kernel/random/boot_id")
    with open(path, encoding="ascii") as file:
        return file.read().strip()
