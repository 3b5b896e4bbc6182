"""Home directory with all data of one user: ``$NNIMGR_HOME``, else ``~/nni-experiments``.

It contains the index of experiments (``nnimgr.index``) and the folder ``.nnimgr/`` (mode 0700). In this
folder are the token (mode 0600) and three files per server: ``server-<port>.json``, the lock that the server
holds while it runs, and the Unix socket for commands. Only the lock shows whether a server runs, because a
killed process loses its lock.

Standard library only and quick to import, because every ``nnictl`` command starts here.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import shlex
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from training_services.private import make_private_folder, open_private

__all__ = ["Home", "HomeError", "ServerAlreadyRunning", "ServerClaim", "ServerInfo", "check_prefix"]

HOME_VARIABLE = "NNIMGR_HOME"
START_LIMIT_S = 90.0  # longest wait for another command that starts a server
_LOOK_S = 0.02
_PREFIX = re.compile(r"[\w.-]+(/[\w.-]+)*", re.ASCII)


class HomeError(Exception):
    """Error: the home directory cannot be used. The message is one sentence for the user."""


class ServerAlreadyRunning(HomeError):
    """Error: another server of this home directory holds the lock of this port."""


def check_prefix(text: str) -> str:
    """Return ``text`` if it can be a prefix of URL paths, otherwise raise ValueError."""
    if not _PREFIX.fullmatch(text):
        raise ValueError(
            f"{text!r} cannot be a URL prefix: it takes letters, digits, '_', '-' and '.', "
            "with slashes between them."
        )
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """Running server. ``pid`` is None if nothing but its lock is known."""

    port: int
    url: str
    pid: int | None = None
    version: str = ""


@dataclass(frozen=True, slots=True)
class Home:
    """Home directory of one user: the paths in it, and the files in its private folder."""

    path: Path

    @classmethod
    def find(cls, environ: Mapping[str, str] = os.environ) -> Home:
        """Return the home directory that the environment variables name. No file is read or created."""
        named = environ.get(HOME_VARIABLE)
        return cls(Path(os.path.abspath(os.path.expanduser(named or "~/nni-experiments"))))

    @property
    def index_path(self) -> Path:
        return self.path / ".experiment"

    @property
    def private_path(self) -> Path:
        return self.path / ".nnimgr"

    @property
    def token_path(self) -> Path:
        return self.private_path / "token"

    def server_path(self, port: int) -> Path:
        return self.private_path / f"server-{port}.json"

    def server_lock_path(self, port: int) -> Path:
        return self.private_path / f"server-{port}.lock"

    def server_socket_path(self, port: int) -> Path:
        """Return the path of the Unix socket for commands to the server of a port.

        The file remains after the server has ended.
        """
        return self.private_path / f"server-{port}.sock"

    def server_log_path(self, port: int) -> Path:
        return self.private_path / f"server-{port}.log"

    def prepare(self) -> None:
        """Create the home directory and its private folder.

        Raise HomeError if they cannot be written, or are those of another user.
        """
        self._refuse_other_user()
        with self._writing():
            make_private_folder(self.path)
            self.private_path.mkdir(mode=0o700, exist_ok=True)
            if self.private_path.stat().st_mode & 0o077:
                self.private_path.chmod(0o700)
            if not os.access(self.path, os.W_OK | os.X_OK):
                raise PermissionError(13, "Permission denied")

    def token(self) -> str:
        """Return the secret token of this home directory. It is created at the first use.

        If two processes create it at the same time, both get the same token. Raise HomeError.
        """
        self._refuse_other_user()
        with contextlib.suppress(FileNotFoundError):
            return self._read_token()
        self.prepare()
        fresh = self.private_path / f"token.{os.getpid()}.{os.urandom(4).hex()}"
        with self._writing():
            try:
                descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with open(descriptor, "w", encoding="ascii") as file:
                    file.write(os.urandom(24).hex() + "\n")
                    file.flush()
                    os.fsync(file.fileno())
                with contextlib.suppress(FileExistsError):
                    os.link(fresh, self.token_path)
            finally:
                fresh.unlink(missing_ok=True)
        return self._read_token()

    def claim_server(self, port: int) -> ServerClaim:
        """Take the lock of a port, which shows that its server runs.

        The lock is held until the result is closed or the process ends. Raise ServerAlreadyRunning or
        HomeError.
        """
        self.prepare()
        with self._writing():
            descriptor = os.open(self.server_lock_path(port), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            while not _try_lock(descriptor, fcntl.LOCK_EX):
                # The other process may hold only a shared lock, for a short check in ``server_running``: try
                # again.
                if not _try_lock(descriptor, fcntl.LOCK_SH):
                    raise ServerAlreadyRunning(f"A server of {self.path} already runs on port {port}.")
            self.server_path(port).unlink(missing_ok=True)
        except BaseException:
            os.close(descriptor)
            raise
        return ServerClaim(home=self, port=port, descriptor=descriptor)

    def server_running(self, port: int) -> ServerInfo | None:
        """Return the server that holds the lock of this port, or None if no server runs. Never waits."""
        try:
            descriptor = os.open(self.server_lock_path(port), os.O_RDONLY)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise HomeError(self._sentence("read", error)) from error
        try:
            if _try_lock(descriptor, fcntl.LOCK_SH):
                return None
        finally:
            os.close(descriptor)
        return self._server(port)

    def servers(self) -> list[ServerInfo]:
        """Return all running servers of this home directory, in the order of their ports."""
        ports = []
        for path in self.private_path.glob("server-*.lock"):
            number = path.stem.removeprefix("server-")
            if number.isdigit():
                ports.append(int(number))
        return [server for port in sorted(ports) if (server := self.server_running(port)) is not None]

    @contextlib.contextmanager
    def starting_server(self, port: int) -> Iterator[None]:
        """Keep other processes from starting a server on this port while the block runs.

        If another process is starting one now, wait for it. Raise HomeError after START_LIMIT_S seconds.
        """
        self.prepare()
        with self._writing():
            descriptor = os.open(self.private_path / f"start-{port}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            deadline = time.monotonic() + START_LIMIT_S
            while not _try_lock(descriptor, fcntl.LOCK_EX):
                if time.monotonic() > deadline:
                    raise HomeError(
                        f"another nnictl has been starting a server on port {port} for more than "
                        f"{START_LIMIT_S:.0f} s; end that command, then repeat this one"
                    )
                time.sleep(_LOOK_S)
            yield
        finally:
            os.close(descriptor)

    def _server(self, port: int) -> ServerInfo:
        fallback = ServerInfo(port=port, url=f"http://127.0.0.1:{port}")
        try:
            said = json.loads(self.server_path(port).read_text(encoding="utf-8"))
            return ServerInfo(port=port, url=said["url"], pid=said["pid"], version=said["version"])
        except (OSError, ValueError, KeyError, TypeError):
            return fallback

    def _refuse_other_user(self) -> None:
        """Raise HomeError if the private folder is that of another user.

        root can write there, but its files and its server would lock the user out.
        """
        try:
            owner = self.private_path.stat().st_uid
        except OSError:
            return  # there is none, or the next access says why it cannot be used
        if owner != os.geteuid():
            name = shlex.quote(_user_name(owner))
            raise HomeError(
                f"{self.path} belongs to user {name}. Run the command as this user: "
                f"sudo -u {name} {HOME_VARIABLE}={shlex.quote(str(self.path))} nnictl ..."
            )

    def _read_token(self) -> str:
        try:
            if self.token_path.stat().st_mode & 0o077:
                self.token_path.chmod(0o600)
            token = self.token_path.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            raise
        except (OSError, UnicodeDecodeError) as error:
            raise HomeError(f"The token {self.token_path} cannot be read: {error}.") from error
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise HomeError(
                f"The token {self.token_path} is not one word of ASCII; delete it to get a new one."
            )
        return token

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise HomeError(self._sentence("write to", error)) from error

    def _sentence(self, what: str, error: OSError) -> str:
        reason = error.strerror or type(error).__name__
        mend = f"set {HOME_VARIABLE} to a directory in which you may write"
        if error.errno == errno.ENOSPC:
            mend = "free space on its disk"
        return f"Cannot {what} {error.filename or self.path} ({reason}); {mend}."


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerClaim:
    """Lock of one port, which this process holds while it is the port's server."""

    home: Home
    port: int
    descriptor: int

    def publish(self, *, url: str, version: str) -> ServerInfo:
        """Write the address of this server to a file, where other processes find it. Raise HomeError."""
        server = ServerInfo(port=self.port, url=url, pid=os.getpid(), version=version)
        path = self.home.server_path(self.port)
        fresh = path.with_suffix(f".{os.getpid()}.new")
        with self.home._writing():
            with open(fresh, "w", encoding="utf-8", opener=open_private) as file:
                json.dump({"pid": server.pid, "url": url, "version": version}, file)
            fresh.replace(path)
        return server

    def close(self) -> None:
        """Release the lock of the port. Call this method only once."""
        self.home.server_path(self.port).unlink(missing_ok=True)
        os.close(self.descriptor)

    def __enter__(self) -> ServerClaim:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _user_name(number: int) -> str:
    """Return the name of a user, or "#" with the number if the user has no name. sudo understands both."""
    import pwd  # only for an error: every command imports this module

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"#{number}"


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
