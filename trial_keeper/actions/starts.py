"""Starts attempts: waits until interpreter, code, checkpoint and preloaded modules are ready, then requests
a shim from the spawner.
"""

from __future__ import annotations

import os

from trial_keeper.actions import lease_file, line_keys
from trial_keeper.actions.files import CHECKPOINTS
from trial_keeper.actions.loop import now
from trial_keeper.actions.opening import MARK
from trial_keeper.actions.watches import MANAGER
from trial_keeper.code import copies
from trial_keeper.code.copies import Copies
from trial_keeper.spawner import CREW
from trial_keeper.wire import needs_crew

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterable

    from trial_keeper.actions.fetches import Fetches
    from trial_keeper.actions.files import Paths
    from trial_keeper.actions.loop import Loop
    from trial_keeper.actions.opening import Directory
    from trial_keeper.actions.preloading import Preloading
    from trial_keeper.actions.request_pipe import RequestPipe
    from trial_keeper.code.store import CodeStore
    from trial_keeper.core import effects as fx
    from trial_keeper.core.core import KeeperCore
    from trial_keeper.core.effects import Effect
    from trial_keeper.machine.interpreter import Interpreters
    from trial_keeper.wire import Gang, Origin, Start


# Shell code that runs before a trial's command. The keeper does not check the shared storage itself, because
# a network file system may hang.
_NEEDS_STORAGE = """\
if ! [ -d "$NNIMGR_SHARED_STORAGE" ]; then
  echo "the shared storage $NNIMGR_SHARED_STORAGE is not mounted on this machine" >&2
  exit 74
fi
mkdir -p "$NNI_OUTPUT_DIR" || exit 74
"""


class Starts:
    """Starter of attempts. ``requests``: pipe to the spawner, which forks the shims.

    ``preloading``: returns the warm spawners when the first attempt needs one.
    """

    def __init__(
        self,
        directory: Directory,
        core: KeeperCore,
        loop: Loop,
        paths: Paths,
        interpreters: Interpreters,
        store: CodeStore,
        requests: RequestPipe,
        preloading: Callable[[], Preloading],
    ) -> None:
        self._directory = directory
        self._core = core
        self._loop = loop
        self._paths = paths
        self._interpreters = interpreters
        self._copies = Copies(directory.path, store, self._told)
        self._requests = requests
        self._make_preloading = preloading
        self._preloading: Preloading | None = None  # None: no attempt has preloaded modules
        self._waiting: list[fx.Spawn] = []
        # Attempts whose code has not been copied yet, or whose checkpoint has not been fetched yet.
        self._unready: dict[str, fx.Spawn] = {}
        self._fetched: Fetches | None = None  # None: no checkpoint was ever fetched here

    def begin(self, live: Iterable[str]) -> None:
        """Remove the code copies, keys and fetched checkpoints of attempts that have ended."""
        jobs = list(live)
        self._copies.begin(jobs)
        line_keys.keep_only(self._directory.path, jobs)
        if os.path.isdir(f"{self._directory.path}/origins"):
            self._fetches().begin(jobs)

    def spawn(self, effect: fx.Spawn) -> list[Effect]:
        """Fork a shim for the attempt as soon as its interpreter, its code and its checkpoint are ready."""
        start = effect.start
        if not self._interpreters.ready(start["command"]):
            self._waiting.append(effect)
            trouble = self._interpreters.trouble(start["command"])
            return [] if trouble is None else self._core.delayed(now(), effect.job, trouble)
        directory, cwd = self._paths.folder(start["directory"]), start["cwd"]
        environment = {
            "NNI_OUTPUT_DIR": directory,
            **start["environment"],
            "NNI_SYS_DIR": directory,
            MARK: effect.job,
        }
        environment["NNI_CHECKPOINT_DIR"] = f"{directory}/{CHECKPOINTS}"
        origin = start.get("origin")
        if origin is not None:
            try:
                resume = self._resume_folder(effect, origin)
            except FileNotFoundError as error:
                return self._core.origin_missing(now(), effect.job, str(error))
            if resume is None:
                return []
            environment["NNI_RESUME_DIR"] = resume
        code = start.get("code")
        if code is not None:
            cwd = environment["NNI_CODE_DIR"] = f"{directory}/{copies.FOLDER}"
            if not self._copies.has(effect.job):
                self._unready[effect.job] = effect
                self._copies.want(effect.job, directory, code)
                return []
        added = self._interpreters.path_for(start["command"])
        if added is not None:
            present = environment.get("PYTHONPATH", os.environ.get("PYTHONPATH"))
            environment["PYTHONPATH"] = f"{present}:{added}" if present else added
        requests, command = self._requests, start["command"]
        if start.get("preload") is not None:
            warm = self._warm(effect, environment)
            if warm is None:
                return self._core.delayed(now(), effect.job, _imports(start))
            requests, command = warm
        if start.get("gang") is not None:
            try:
                if needs_crew(start["gang"]):
                    command = self._crew(effect.job, start["gang"], command)
                else:
                    environment.update(_alone(directory))
            except OSError as error:
                sentence = f"the files of the trial's gang cannot be written: {error.strerror}"
                return self._core.shim_failed(now(), effect.job, sentence)
        self._ask(effect, directory, cwd, environment, requests, command)
        return []

    def _crew(self, job: str, gang: Gang, command: str) -> str:
        """Return the request that runs a command as several processes, or as a member of a gang.

        The members' key is in a file, because others can see command lines. Raises OSError.
        """
        words = [gang.get("processes", ""), command]
        if "member" in gang:
            path = line_keys.write(self._directory.path, job, gang.get("key", ""))
            words += [gang["job"], str(gang["member"]), ",".join(gang["hosts"]), path]
        return CREW + "\0".join(words)

    def _warm(self, effect: fx.Spawn, environment: dict[str, str | None]) -> tuple[RequestPipe, str] | None:
        """Return where to request a shim for an attempt with preloaded modules, and the request's command.

        Return None if the modules are not imported yet. If they cannot be imported, the command is one that
        says so and fails.
        """
        start = effect.start
        if self._preloading is None:
            self._preloading = self._make_preloading()
        interpreter = self._interpreters.interpreter(start["command"])
        if interpreter is None:
            return self._requests, start["command"]  # which fails, because there is no such program
        spawner = self._preloading.spawner(interpreter, start, environment)
        if spawner.trouble is not None:
            return self._requests, spawner.refusal()
        if spawner.ready:
            return spawner.requests, start["preload"]["target"]
        self._waiting.append(effect)
        return None

    def _resume_folder(self, effect: fx.Spawn, origin: Origin) -> str | None:
        """Return the folder of the checkpoint from which the attempt continues; None if it must be fetched.

        Raises FileNotFoundError with a sentence.
        """
        folder = f"{self._paths.folder(origin['directory'])}/{CHECKPOINTS}/{origin['number']}"
        trouble = _damage(folder, origin)
        if trouble is None:
            return folder
        kept = origin.get("kept")
        if kept is None:
            raise FileNotFoundError(f"checkpoint {origin['number']} in {folder} is {trouble}")
        if kept["path"] is not None:
            from trial_keeper.actions.fetches import beside_server  # most keepers never need it

            return beside_server(kept["path"], kept)
        fetches = self._fetches()
        ready = fetches.ready(effect.job, kept)
        if ready is None:
            self._unready[effect.job] = effect
            fetches.want(effect.job, kept)
        return ready

    def _fetches(self) -> Fetches:
        if self._fetched is None:
            from trial_keeper.actions.fetches import Fetches  # most keepers never need it

            self._fetched = Fetches(
                self._directory.path,
                manager=MANAGER,
                boot_id=self._directory.boot_id,
                told=self._told,
                missing=self._origin_missing,
            )
        return self._fetched

    def _origin_missing(self, job: str, sentence: str) -> None:
        """Report to the loop that a checkpoint cannot be fetched. This runs in the thread that fetches."""
        self._loop.tell(lambda: self._core.origin_missing(now(), job, sentence))

    def _ask(
        self,
        effect: fx.Spawn,
        directory: str,
        cwd: str,
        environment: dict[str, str | None],
        requests: RequestPipe,
        command: str,
    ) -> None:
        start, lease = effect.start, effect.lease
        if environment.get("NNIMGR_SHARED_STORAGE") is not None:
            command = f"{_NEEDS_STORAGE}{command}"
        changes = [name if value is None else f"{name}={value}" for name, value in environment.items()]
        fields = [
            effect.job, self._directory.boot_id, directory, command, cwd, start["parameter"],
            str(start["log_cap"]), self._paths.prefix(effect.job, start["directory"]),
            "" if lease is None else lease_file.path(self._directory.path, lease), *changes,
        ]  # fmt: skip
        requests.send(fields)

    def _told(self, job: str, sentence: str | None) -> None:
        """Report to the loop why an attempt waits for its code or its checkpoint; None: it is ready.

        This runs in the thread that copies code, or in one that fetches checkpoints.
        """
        if sentence is None:
            self._loop.tell(lambda: list(filter(None, [self._unready.pop(job, None)])))
        else:
            self._loop.tell(lambda: self._core.delayed(now(), job, sentence))

    def release(self) -> list[Effect]:
        """Return the starts that waited for an interpreter, so that the loop can retry them."""
        waiting, self._waiting = self._waiting, []
        return list(waiting)

    def end(self, job: str) -> None:
        """Forget an attempt that has ended: remove its copy of the code, its key, and what was fetched only
        for it.
        """
        self._unready.pop(job, None)
        self._copies.end(job)
        line_keys.remove(self._directory.path, job)
        if self._fetched is not None:
            self._fetched.end(job)

    def close(self) -> None:
        """Release all resources, because the keeper exits."""
        self._copies.close()


def _alone(directory: str) -> dict[str, str]:
    """Return the variables of the only process of an attempt in this folder. Raises OSError."""
    from trial_keeper import crew  # most keepers never need it

    return crew.alone(directory)


def _imports(start: Start) -> str:
    modules = start["preload"]["modules"]
    return f"the start had to wait because the interpreter imports {', '.join(modules)} first"


def _damage(folder: str, origin: Origin) -> str | None:
    """Return what is wrong with a checkpoint's folder on this host, as the end of a sentence, or None."""
    if not os.path.isdir(folder):
        return "missing"
    size = origin.get("size")
    if size is not None:
        from trial_keeper.checkpoints.contents import check_whole  # most keepers never need it

        try:
            check_whole(folder, size)
        except OSError as error:
            return f"damaged: {error}"
    return None
