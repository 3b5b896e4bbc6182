"""Watches the metrics files and the shims of attempts, and the keeper's own directory."""

from __future__ import annotations

import os
import resource

from trial_keeper.actions import files
from trial_keeper.actions.loop import now
from trial_keeper.attempt import ending
from trial_keeper.lean import TYPE_CHECKING
from trial_keeper.machine import procs
from trial_keeper.machine.watch import LOST, Watcher, open_process

if TYPE_CHECKING:
    from trial_keeper.actions.loop import Loop
    from trial_keeper.actions.notices import Notices
    from trial_keeper.core import effects as fx
    from trial_keeper.core.core import KeeperCore
    from trial_keeper.core.effects import Effect
    from trial_keeper.streams import Log

LOOK_S = 0.05  # seconds between two looks at a file, on systems without inotify
PROCESS_LOOK_S = 1.0  # seconds between two looks at a process, on systems without pidfd
SPARE_FILES = 32  # descriptors that are kept for other work than watches
OWN_FILES = ("instance", "journal", "lock")
MANAGER = "manager.json"  # relative to the keeper's folder, because the folder may be moved


class OwnDirectory:
    """Watches the keeper's own directory. ``trouble``: why inotify is missing, None if it works."""

    def __init__(self, directory: str) -> None:
        self.watcher: Watcher | None = None
        self.watch = -1
        self.trouble: str | None = None
        try:
            self.watcher = Watcher()
            self.watch = self.watcher.watch_directory(directory)
        except OSError as error:
            self.watcher = None
            self.trouble = (
                f"without inotify ({error.strerror}) the metrics are checked every {LOOK_S * 1000:.0f} ms"
            )


class Watches:
    """Watches on files and processes, which report every change to the keeper's core.

    A file or process that cannot be watched is checked at intervals.
    """

    def __init__(
        self,
        directory: str,
        own: OwnDirectory,
        core: KeeperCore,
        loop: Loop,
        paths: files.Paths,
        notices: Notices,
        log: Log,
    ) -> None:
        self._directory = directory
        self._watcher = own.watcher
        self._own_watch = own.watch
        self._core = core
        self._loop = loop
        self._paths = paths
        self._notices = notices
        self._log = log
        self._most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._watched: dict[int, str] = {}
        self._watches: dict[str, int] = {}
        self._processes: dict[str, int] = {}
        self._blind_at = 0.0
        # Job ids of attempts whose metrics file or shim cannot be watched, and is checked at intervals
        self._blind: dict[str, None] = {}

    def begin(self) -> None:
        """Make the loop handle the changes that inotify reports."""
        if self._watcher is not None:
            self._loop.on_readable(self._watcher.fd, self._on_change)

    # -- attempts

    def watch(self, effect: fx.Watch) -> list[Effect]:
        """Watch an attempt's metrics file and shim, and report what has happened before the watch began."""
        job = effect.job
        if self._watcher is not None:
            self._watch_metrics(self._watcher, effect)
        try:
            fd = open_process(effect.shim[0])
        except ProcessLookupError:
            return self._core.notified(now(), job)
        except OSError as error:
            self._log.write(f"the shim of {job} cannot be watched: {error.strerror}")
            fd = None
        if fd is not None and fd >= self._most_files - SPARE_FILES:
            os.close(fd)  # other work of the keeper needs descriptors as well
            fd = None
        if fd is None or self._watcher is None:
            self._blind[job] = None
        if fd is not None:
            self._processes[job] = fd
            self._loop.on_readable(fd, lambda: self._on_shim_gone(job))
        if procs.start_time(effect.shim[0]) != effect.shim[1]:
            return self._core.notified(now(), job)
        return self._core.grown(now(), job)

    def _watch_metrics(self, watcher: Watcher, effect: fx.Watch) -> None:
        job, found = effect.job, self._paths.files(effect)
        try:
            watch = watcher.watch_file(files.stream(found))
            self._watches[job] = watch
            self._watched[watch] = job
            if files.is_parted(found):
                self._blind[job] = None
        except OSError as error:
            self._log.write(f"the metrics file of {job} cannot be watched: {error.strerror}")
            self._blind[job] = None

    def _on_shim_gone(self, job: str) -> None:
        self._forget_process(job)
        self._loop.perform(self._notices.read())  # read the notice that the shim has sent before its end
        self._loop.perform(self._core.notified(now(), job))

    def _forget_process(self, job: str) -> None:
        fd = self._processes.pop(job, None)
        if fd is not None:
            self._loop.forget(fd)
            os.close(fd)

    def end(self, job: str) -> None:
        """Stop watching an attempt."""
        self._forget_process(job)
        self._blind.pop(job, None)
        watch = self._watches.pop(job, None)
        if watch is not None and self._watcher is not None:
            del self._watched[watch]
            self._watcher.forget(watch)

    def look(self) -> float | None:
        """Check all files and processes that cannot be watched, if the interval for these checks has elapsed.

        Return the seconds until the next check; None if everything can be watched.
        """
        wait = None
        at = now()
        if self._watcher is None:
            self._look_for_end()
            wait = PROCESS_LOOK_S
        if self._blind:
            pause = LOOK_S if self._watcher is None else PROCESS_LOOK_S
            if self._blind_at <= at:
                self._blind_at = at + pause
                for job in list(self._blind):
                    self._loop.perform(self._core.grown(at, job))
                    self._loop.perform(self._core.notified(at, job))
            wait = pause
        return wait

    # -- changes

    def _on_change(self) -> None:
        assert self._watcher is not None
        for change in dict.fromkeys(self._watcher.changes()):
            if change.watch == LOST:
                self._look_everywhere()
            elif change.watch == self._own_watch:
                if change.removed and change.name in OWN_FILES:
                    self._check_own(change.name)
                elif change.name == MANAGER:
                    self._loop.perform(self._core.manager_changed(now()))
                elif change.name == ending.ENDING:
                    self._look_for_end()
            elif change.watch in self._watched:
                if change.removed:
                    self._blind[self._watched[change.watch]] = None  # another file may have replaced it
                self._loop.perform(self._core.grown(now(), self._watched[change.watch]))

    def _look_everywhere(self) -> None:
        """Check every watched file, because the kernel has dropped reports of changes."""
        self._loop.perform(self._core.manager_changed(now()))
        self._look_for_end()
        for job in list(self._watches):
            self._loop.perform(self._core.grown(now(), job))

    def _check_own(self, name: str) -> None:
        """Exit if the file ``name`` of the keeper's directory was removed, such as its journal.

        Without this file, a later keeper would not know the attempts. The next keeper treats the directory as
        new, and kills all processes of this keeper's attempts before it calls the server.
        """
        if not os.path.exists(f"{self._directory}/{name}"):
            self._log.write(f"keeper {os.getpid()} exits: its file {name} was removed")
            os._exit(1)

    def _look_for_end(self) -> None:
        """Stop all attempts if the file ``ending`` shows that the keeper's container was ordered to end."""
        order = ending.read(self._directory)
        if order is not None:
            self._loop.perform(self._core.host_ends(now(), order))
