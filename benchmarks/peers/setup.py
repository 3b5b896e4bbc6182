"""Program that creates the peers' virtual environments.

    python -m benchmarks.peers.setup [nni] [ray] [optuna] [syne]

The environments are in ``$NNIMGR_BENCHMARKS``, or ``~/.cache/nnimgr-benchmarks``. A peer that needs another
Python gets the first suitable one in PATH, or the one that ``$NNIMGR_BENCHMARKS_PYTHON_<PEER>`` names.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.e2e import sdks


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer. ``requirements`` are installed together. ``pythons``: its Python versions, best first.

    ``trials``: number of no-op trials, so that a measurement takes at most half a minute.
    """

    title: str
    requirements: tuple[str, ...]
    pythons: tuple[str, ...]
    trials: int


PEERS = {
    "nni": Peer(
        "NNI 3.0",
        (
            "nni==3.0",
            "setuptools<81",
            "numpy<2",
            "pandas<2",
            "scikit-learn<1.4",
            "websockets<12",
            "typeguard<4.1.3",
        ),
        sdks.PYTHONS,
        trials=24,
    ),
    "ray": Peer("Ray Tune 2.60.0", ("ray[tune]==2.60.0",), ("3.11", "3.12", "3.13", "3.10"), trials=100),
    "optuna": Peer("Optuna 5.0.0", ("optuna==5.0.0",), ("3.11", "3.12", "3.13"), trials=200),
    "syne": Peer("Syne Tune 0.16.0", ("syne-tune==0.16.0",), ("3.11", "3.12", "3.10"), trials=24),
}


def home() -> Path:
    """Return the folder of the environments."""
    given = os.environ.get("NNIMGR_BENCHMARKS")
    return Path(given) if given else Path.home() / ".cache" / "nnimgr-benchmarks"


def interpreter(name: str) -> Path | None:
    """Return the Python of a peer's finished environment, or None if the peer is not installed."""
    place = home() / name
    python = place / "bin" / "python3"
    return python if (place / "installed").exists() and python.exists() else None


def base_python(name: str) -> str:
    """Return the interpreter for creating a peer's environment. Raise LookupError."""
    wanted = PEERS[name].pythons
    given = os.environ.get(f"NNIMGR_BENCHMARKS_PYTHON_{name.upper()}")
    candidates = [given] if given else [sys.executable, *(f"python{version}" for version in wanted)]
    found: dict[str, str] = {}
    for candidate in candidates:
        path = shutil.which(candidate)
        if path is not None and (version := sdks.python_version(path)) is not None:
            found.setdefault(version, path)
    for version in wanted:
        if version in found:
            return found[version]
    raise LookupError(
        f"{PEERS[name].title} needs one of Python {', '.join(wanted)}; have it in PATH as python3.x, "
        f"or name it in NNIMGR_BENCHMARKS_PYTHON_{name.upper()}"
    )


def install(name: str) -> Path:
    """Create the environment if it is missing. Return its Python. Raise LookupError, CalledProcessError."""
    made = interpreter(name)
    if made is not None:
        return made
    place = home() / name
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([base_python(name), "-m", "venv", str(place)], check=True)
    python = place / "bin" / "python3"
    subprocess.run(
        [str(python), "-m", "pip", "install", "--quiet", *PEERS[name].requirements],
        check=True,
    )
    (place / "installed").write_text("\n".join(PEERS[name].requirements), encoding="utf-8")
    return python


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="peer", help=", ".join(PEERS))
    options = parser.parse_args()
    failed = False
    for name in options.names or PEERS:
        if name not in PEERS:
            parser.error(f"{name} is none of {', '.join(PEERS)}")
        try:
            print(f"{PEERS[name].title}: {install(name)}", flush=True)
        except (LookupError, subprocess.CalledProcessError) as error:
            print(f"{PEERS[name].title}: not installed: {error}", flush=True)
            failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()
