"""The home and the server of the command line's tests, which use the same client."""

from tests.cli.conftest import home, server, told

__all__ = ["home", "server", "told"]
