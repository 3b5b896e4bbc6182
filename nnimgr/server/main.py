"""``nnimgr serve``: the command line of the server process.

The server opens its port before it imports large modules. So another process can connect as soon as it finds
the port's lock taken. It is answered when the server is ready.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import logging
import os
import resource
import socket
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from nnimgr import __version__
from nnimgr.home import HOME_VARIABLE, Home, HomeError, check_prefix
from nnimgr.server.addresses import Address, check_url
from nnimgr.server.local_socket import bind_private
from nnimgr.server.options import CannotServe, KeeperOptions, ServeOptions
from nnimgr.server.token import ServerToken
from trial_keeper.machine.encoding import use_utf8

__all__ = ["main"]

LEVEL_VARIABLE = "NNIMGR_LOG_LEVEL"
_KEEPERS = "NNIMGR_KEEPERS_"
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_BACKLOG = 1024
_LEAST_FILES = 256
_OPEN_FILES = 16_384

logger = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``nnimgr serve`` and return the exit code."""
    if arguments is None:
        use_utf8()
    parsed = _parser().parse_args(arguments)
    try:
        _serve(parsed)
    except (CannotServe, HomeError) as error:
        sys.stderr.write(f"nnimgr: {error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nnimgr", description="The server of nnimgr.")
    parser.add_argument("--version", action="version", version=__version__)
    serve = parser.add_subparsers(dest="command", required=True).add_parser(
        "serve", help="run the server of one port until it is stopped"
    )
    serve.add_argument("--port", type=_port, default=8080, help="port of the server (default: 8080)")
    serve.add_argument("--host", default="127.0.0.1", help="the address to bind (default: %(default)s)")
    serve.add_argument(
        "--allowed-host", action="append", default=[], metavar="NAME", help="another host name of this server"
    )
    serve.add_argument(
        "--url-prefix",
        type=_prefix,
        help="put this path before NNI's REST API: for a/b, it is at /a/b/api/v1/nni",
    )
    tokens = serve.add_mutually_exclusive_group()
    tokens.add_argument(
        "--no-token",
        action="store_true",
        help="give all users of this machine full access, for clients without support for tokens",
    )
    tokens.add_argument(
        "--require-token",
        action="store_true",
        help="require the token from your own programs on this machine, too, which need none otherwise",
    )
    serve.add_argument("--until-idle", action="store_true", help="exit when no active experiment is left")
    keepers = serve.add_argument_group("keepers on other machines without a tunnel")
    keepers.add_argument(
        "--keepers-listen",
        metavar="ADDRESS:PORT",
        help="listen at this address for keepers, for example behind a Kubernetes service or ingress "
        f"(or ${_KEEPERS}LISTEN)",
    )
    keepers.add_argument(
        "--keepers-url",
        metavar="URL",
        help="URL at which keepers reach the --keepers-listen address, for experiments without nniManagerIp, "
        f"as https://host[:port][/prefix] (or ${_KEEPERS}URL)",
    )
    keepers.add_argument(
        "--keepers-ca",
        metavar="FILE",
        help="PEM file of the authorities that sign the certificate of a proxy at --keepers-url; default: "
        f"those known on the keepers' machines (or ${_KEEPERS}CA)",
    )
    serve.add_argument("--ready-fd", type=int, metavar="N", help="write a byte to this descriptor when ready")
    serve.add_argument("--log-file", type=Path, help="log to this file (rotated) instead of standard error")
    serve.add_argument("--log-level", choices=("debug", "info", "warning", "error"))
    return parser


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 65_536):
        raise argparse.ArgumentTypeError(f"a port is a number from 1 to 65535, not {text!r}")
    return int(text)


def _prefix(text: str) -> str:
    try:
        return check_prefix(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _serve(parsed: argparse.Namespace) -> None:
    if not sys.platform.startswith("linux"):
        raise CannotServe(f"nnimgr runs on Linux only, not on {sys.platform}.")
    options = ServeOptions(
        port=parsed.port,
        host=parsed.host,
        until_idle=parsed.until_idle,
        ready_fd=parsed.ready_fd,
        allowed_hosts=tuple(parsed.allowed_host),
        url_prefix=parsed.url_prefix or "",
        no_token=parsed.no_token,
        require_token=parsed.require_token,
        keepers=_keeper_options(parsed),
    )
    if options.no_token and options.host not in _LOOPBACK:
        raise CannotServe(
            f"--no-token is only allowed with --host {' or '.join(_LOOPBACK)}: otherwise other people could "
            f"run commands here through {options.host}."
        )
    _allow_open_files()
    if options.ready_fd is not None:
        _own(options.ready_fd)
    home = Home.find()
    with (
        _bind(options) as listener,
        home.claim_server(options.port) as claim,
        _bind_local(home, options.port) as local,
    ):
        token = ServerToken(home)
        _start_log(parsed, secrets=token.seen)
        if options.host not in _LOOPBACK:
            logger.warning("other machines can reach %s, whose traffic is not encrypted", options.url)
        if options.no_token:
            logger.warning(
                "the server was started with --no-token: anyone on this machine can control its experiments "
                "and run commands as this user"
            )
        gc.disable()  # saves a sixth of the import time
        from nnimgr.server.process import Listeners, run  # large, so imported after the port is bound

        gc.freeze()
        gc.enable()
        run(options, home=home, claim=claim, listeners=Listeners(listener, local), token=token)


def _keeper_options(parsed: argparse.Namespace) -> KeeperOptions:
    listen, name = _said(parsed.keepers_listen, "listen")
    if listen is not None:
        try:
            address = Address.parse(listen)
        except ValueError as error:
            raise CannotServe(f"{name} {error}.") from error
        if address.port is None:
            raise CannotServe(f"{name} {listen!r} needs a port, as in 0.0.0.0:8081.")
    url, name = _said(parsed.keepers_url, "url")
    if url is not None:
        try:
            url = check_url(url)
        except ValueError as error:
            raise CannotServe(f"{name} {error}.") from error
    path, name = _said(parsed.keepers_ca, "ca")
    authorities = None if path is None else _read_authorities(path, name)
    return KeeperOptions(listen=listen, url=url, authorities=authorities)


def _said(given: str | None, what: str) -> tuple[str | None, str]:
    """Return the value of an option, or else of its environment variable, and the name of the one used."""
    variable = f"{_KEEPERS}{what.upper()}"
    if given is not None:
        return given, f"--keepers-{what}"
    return os.environ.get(variable) or None, variable


def _read_authorities(path: str, name: str) -> str:
    import ssl

    try:
        text = Path(path).read_text(encoding="ascii")
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise CannotServe(f"{name} {path} contains no certificates in PEM.") from error
    except OSError as error:
        raise CannotServe(f"{name} {path} cannot be read: {error.strerror}.") from error
    return text


def _own(descriptor: int) -> None:
    """Keep child processes from inheriting the pipe ``--ready-fd``, so that it closes with this process."""
    try:
        os.set_inheritable(descriptor, False)
    except OSError as error:
        raise CannotServe(f"--ready-fd {descriptor} is not open: {error.strerror}.") from error


def _bind(options: ServeOptions) -> socket.socket:
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise CannotServe(f"Cannot find the address {options.host}: {error.strerror}.") from error
    listener = socket.socket(family, kind)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise CannotServe(f"Port {options.port} is not idle") from error
        raise CannotServe(f"Cannot bind {options.host}:{options.port}: {error.strerror}.") from error
    return listener


def _bind_local(home: Home, port: int) -> socket.socket:
    """Listen at the Unix socket for ``nnictl``. The port's lock keeps other servers from this socket."""
    path = home.server_socket_path(port)
    try:
        listener = bind_private(path)
        listener.listen(_BACKLOG)
    except OSError as error:
        raise CannotServe(
            f"The socket {path} cannot be created ({error.strerror}); set {HOME_VARIABLE} to a directory on "
            "a "
            "file system that supports Unix sockets."
        ) from error
    return listener


def _start_log(parsed: argparse.Namespace, *, secrets: Collection[str]) -> None:
    from nnimgr.server.log import LEVELS, start_log

    level = parsed.log_level or os.environ.get(LEVEL_VARIABLE, "").lower() or "info"
    if level not in LEVELS:
        raise CannotServe(f"{LEVEL_VARIABLE} is {level!r}; it must be one of: {', '.join(LEVELS)}.")
    try:
        start_log(level, file=parsed.log_file, secrets=secrets)
    except OSError as error:
        raise CannotServe(f"Cannot write the log {parsed.log_file}: {error.strerror}.") from error


def _allow_open_files() -> None:
    """Raise the soft limit of open files, because every connection, database and pipe needs a file.

    Raise CannotServe if the hard limit is too low.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < _LEAST_FILES:
        raise CannotServe(
            f"Only {hard} files can be open here (ulimit -n), but a server needs {_LEAST_FILES} to start "
            "and stop trials safely. Raise the limit, for example with: ulimit -n 4096."
        )
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


if __name__ == "__main__":
    sys.exit(main())
