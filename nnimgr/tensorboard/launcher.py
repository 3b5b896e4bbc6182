"""Program that runs TensorBoard on a Unix socket, which it inherits from the server.

Without it, TensorBoard would listen on a port, where every account of the machine could read the user's
files. The server runs this file with the Python that has TensorBoard. That Python may be older and may lack
nnimgr, so the file uses only the standard library and TensorBoard.
"""

from __future__ import annotations

import os
import signal
import socket
import socketserver
import sys
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PR_SET_PDEATHSIG = 1
_RELOAD_S = 5  # seconds between two looks at the event files


class _Handler(WSGIRequestHandler):
    """HTTP request handler that logs nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


class UnixServer(socketserver.ThreadingMixIn, WSGIServer):
    """WSGI server on a socket that listens already, with the methods that TensorBoard calls."""

    daemon_threads = True

    def __init__(self, descriptor: int, application: Any) -> None:
        super().__init__(("localhost", 0), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = socket.socket(fileno=descriptor)
        self.server_name, self.server_port = "localhost", 80
        self.setup_environ()
        self.set_app(application)

    def get_request(self) -> Any:
        connection, _ = self.socket.accept()
        return connection, ("localhost", 0)

    def get_url(self) -> str:
        return "http://localhost:80"

    def print_serving_message(self) -> None:
        pass


def die_with(parent: int) -> None:
    """Make the kernel kill this process when the process ``parent`` ends."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def main(parent: int, descriptor: int, logdir: str, prefix: str) -> int | None:
    """Run TensorBoard for the event files in ``logdir`` until this process is killed.

    ``prefix``: path before all addresses of TensorBoard.
    """
    die_with(parent)
    sys.path.pop(0)  # remove the folder of this file, whose modules could shadow others
    from tensorboard import program  # type: ignore[import-not-found, import-untyped, unused-ignore]

    board = program.TensorBoard(server_class=lambda application, flags: UnixServer(descriptor, application))
    # TensorBoard's fast loader would be another process, which listens on a port.
    options = ("--load_fast=false", f"--path_prefix={prefix}", f"--reload_interval={_RELOAD_S}")
    board.configure(argv=("", f"--logdir={logdir}", *options))
    result: int | None = board.main()
    return result


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]))
