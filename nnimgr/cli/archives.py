"""``nnictl experiment save`` and ``load``: an experiment as one zip file, in the layout of NNI's archives.

In the archive, ``experiment/`` is the experiment's folder, and ``nnictl/.experiment`` is its entry in the
index of experiments. ``code/`` is the trial code, and ``searchSpace/`` the search space. Secrets and the
files of keepers are not saved.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shlex
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from nnimgr.cli.selection import convert_folder, converted, entries_of, select
from nnimgr.cli.stored import named_or_brought
from nnimgr.cli.terminal import Terminal
from nnimgr.cli.written import written
from nnimgr.client.errors import ClientError
from nnimgr.client.waits import waiting
from nnimgr.home import Home
from nnimgr.index import Index, check_experiment_id
from nnimgr.rules.phrases import trial_count
from nnimgr.store.copies import copy_database
from nnimgr.store.errors import StoreError
from nnimgr.store.location import database_path, is_nnis_own
from nnimgr.store.overview import stored_experiment
from training_services.base import shown_bytes
from training_services.private import make_private_folder
from trial_keeper.machine.untrusted_files import raw_name, shown_name

__all__ = ["load", "save"]

_ENTRY = "nnictl/.experiment"
_SPACE = "searchSpace/search_space.json"
_LEFT_OUT = {"environ.json", "keeper", "keepers"}  # secrets, and files of this machine's keepers
_ESCAPED = b"escaped"  # marks a file whose name is not UTF-8
_PIECE = 1 << 20


def save(args: argparse.Namespace, terminal: Terminal) -> int:
    """Save an experiment to one zip file. The experiment may be running."""
    home = Home.find()
    entry = converted(home, select(home, args.id))
    target = Path(args.path or ".").expanduser().absolute()
    if target.is_dir() or (target.suffix != ".zip" and not target.exists()):  # a folder, as in NNI
        target /= f"nni_experiment_{entry.id}.zip"
    if target.exists():
        raise ClientError(f"{target} exists already.", mend="Choose another file: {command} --path FILE")
    try:
        stored = stored_experiment(entry.directory)
    except (FileNotFoundError, StoreError) as error:
        raise ClientError(f"Experiment {entry.id} cannot be saved: {error}.") from error
    if stored is None:
        raise ClientError(f"No experiment was created in {entry.directory}.")
    code = Path(str(stored.config.get("trialCodeDirectory") or ".")) if args.saveCodeDir else None
    if code is not None and not code.is_dir():
        raise ClientError(
            f"The trial code {code} is not on this machine.",
            mend="Save without the code: leave --saveCodeDir out.",
        )
    left = {entry.directory / name for name in (*_LEFT_OUT, "db")}
    with (
        _written(target) as archive,
        waiting(lambda: f"saving experiment {entry.id}: {len(archive.filelist)} files so far"),
    ):
        _add_folder(archive, entry.directory, "experiment", skip=lambda path: path in left)
        _add_database(archive, entry.directory, target=target)
        archive.writestr(_ENTRY, json.dumps({entry.id: _raw(home, entry.id)}, indent=4))
        archive.writestr(_SPACE, json.dumps(stored.search_space))
        if code is not None:
            _add_folder(archive, code.resolve(), "code", skip=_not_code(home, target.resolve()))
    size = target.stat().st_size
    terminal.info(f"Experiment {entry.id} was saved to {target} ({shown_bytes(size)}).")
    shown = target.name if target.parent == Path.cwd() else str(target)
    terminal.info(f"Load it: nnictl experiment load --path {shlex.quote(shown)}")
    if terminal.as_json:
        terminal.json({"id": entry.id, "file": str(target), "bytes": size})
    return 0


def load(args: argparse.Namespace, terminal: Terminal) -> int:
    """Add an experiment to this machine from a file that ``nnictl experiment save`` has written."""
    home = Home.find()
    file = Path(args.path).expanduser().absolute()
    try:
        archive = zipfile.ZipFile(file)
    except (OSError, zipfile.BadZipFile) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ClientError(
            f"{file} cannot be read: {why}.", mend="Save an experiment to a file: nnictl experiment save ID"
        ) from error
    with archive:
        experiment_id = _id_of(archive, file)
        parent = Path(args.logDir).expanduser().absolute() if args.logDir else home.path
        directory = parent / experiment_id
        _refuse_known(home, experiment_id, directory)
        has_code = any(name.startswith("code/") for name in archive.namelist())
        code = _code_directory(args, has_code=has_code)
        written: list[Path] = []
        folders = "experiment/" if code is None else ("experiment/", "code/")
        total = sum(name.startswith(folders) for name in archive.namelist())
        try:
            with (
                waiting(lambda: f"loading experiment {experiment_id}: {len(written)} of {total} files"),
                _staged(directory) as staged,
                _staged(code) if code is not None and has_code else contextlib.nullcontext() as staged_code,
            ):
                _extract(archive, "experiment/", staged, written)
                if staged_code is not None:
                    _extract(archive, "code/", staged_code, written)
                _check(staged, file)
                if args.searchSpacePath and _SPACE in archive.namelist():
                    Path(args.searchSpacePath).expanduser().write_bytes(archive.read(_SPACE))
        except (OSError, zipfile.BadZipFile, zlib.error) as error:
            raise ClientError(f"{file} cannot be loaded: {_said(error)}. Nothing was changed.") from error
    try:
        convert_folder(directory)
        with waiting(f"setting the loaded experiment {experiment_id} to STOPPED"):
            stranded = _settle(directory, code)
    except ClientError:
        for folder in (directory, *([code] if code is not None and has_code else [])):
            shutil.rmtree(folder, ignore_errors=True)
        raise
    named_or_brought(home, experiment_id, str(directory))
    terminal.info(f"Experiment {experiment_id} was loaded into {directory}.")
    terminal.info(f"Show it: nnictl view {experiment_id}; continue it: nnictl resume {experiment_id}")
    if stranded:
        terminal.warn(
            f"{trial_count(stranded)} will start from the beginning: the checkpoints are on other machines, "
            "and are not in the file."
        )
    if has_code and code is None:
        terminal.warn("The trial code in the file was not written. Write it: --codeDir DIR")
    if terminal.as_json:
        terminal.json({"id": experiment_id, "directory": str(directory)})
    return 0


def _refuse_known(home: Home, experiment_id: str, directory: Path) -> None:
    """Raise ClientError if there is an experiment with this id, or a folder in its place."""
    if Index(home).get(experiment_id) is not None:
        raise ClientError(
            f"There is an experiment {experiment_id} already.",
            mend="To delete it with all its trials, and load the file instead: "
            f"nnictl stop {experiment_id} && nnictl experiment delete {experiment_id} && {{command}}",
        )
    if directory.exists():
        raise ClientError(
            f"There is a folder {directory} already, of which nnictl knows no experiment.",
            mend=f"Open it: nnictl view --experiment_dir {shlex.quote(str(directory))}\n"
            f"  Or remove it: rm -r {shlex.quote(str(directory))}",
        )


@contextlib.contextmanager
def _staged(target: Path) -> Iterator[Path]:
    """Yield a folder beside ``target`` that gets its name at the end, or is removed if the block fails.

    Raise OSError.
    """
    work = target.with_name(f".{target.name}.loading")
    try:
        if work.exists():  # of a load that was killed
            shutil.rmtree(work)
        make_private_folder(work)
        yield work
        work.rename(target)  # replaces an empty folder, and no other
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _check(staged: Path, file: Path) -> None:
    """Raise ClientError if the loaded folder has no database that this version can open."""
    if is_nnis_own(staged):
        return
    name = f"experiment/db/{database_path(staged).name}"
    try:
        if stored_experiment(staged) is not None:
            return
        why = f"no experiment was created in its {name}"
    except FileNotFoundError:
        why = f"it has no {name}"
    except StoreError as error:
        why = str(error).replace(str(database_path(staged)), name)
    raise ClientError(f"{file} cannot be loaded: {why}. Nothing was changed.")


def _said(error: Exception) -> str:
    """Return what is wrong with a file or with an archive."""
    if not isinstance(error, OSError):
        return f"the file is damaged ({error})"
    if error.strerror is None:
        return str(error)
    return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"


def _code_directory(args: argparse.Namespace, *, has_code: bool) -> Path | None:
    """Return the directory for the archive's trial code, or None if no directory is given.

    Raise ClientError if files in the directory would be overwritten. Raise it also if the archive has no
    trial code and the directory does not exist.
    """
    if not args.codeDir:
        return None
    code = Path(args.codeDir).expanduser().absolute()
    if has_code and code.exists() and (not code.is_dir() or any(code.iterdir())):
        raise ClientError(
            f"{code} is not an empty directory.", mend="Choose another directory: {command} --codeDir DIR"
        )
    if not has_code and not code.is_dir():
        raise ClientError(
            f"The file has no trial code, and there is no directory {code}.",
            mend="Save the experiment with its code: nnictl experiment save ID --saveCodeDir",
        )
    return code


def _settle(directory: Path, code: Path | None) -> int:
    """Stop the loaded copy. Return the number of paused trials that have lost their checkpoints."""
    from nnimgr.core.managing.copied_folder import settle_copy

    try:
        return asyncio.run(settle_copy(directory, code=code))
    except (StoreError, OSError) as error:
        raise ClientError(f"{error}.") from error


def _raw(home: Home, experiment_id: str) -> dict[str, Any]:
    return next(raw for raw in Index(home).raw() if raw.get("id") == experiment_id)


@contextlib.contextmanager
def _written(target: Path) -> Iterator[zipfile.ZipFile]:
    """Yield a new archive to write to. The file ``target`` is created only when the archive is complete.

    Raise ClientError if the file cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with (
            written(target) as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive,
        ):
            yield archive
    except (OSError, StoreError) as error:
        raise ClientError(
            f"{target} cannot be written: {error}.", mend="Write to another file: {command} --path FILE"
        ) from error


def _not_code(home: Home, target: Path) -> Callable[[Path], bool]:
    """Return a function that says whether a path in the folder of the trial code is something else.

    This is a folder with secrets (the home or an experiment), or what exists until the archive ``target`` is
    complete.
    """
    others = {each.resolve() for each in (home.path, home.private_path)}
    others |= {each.directory.resolve() for each in entries_of(home).values()}
    draft = f".{target.name}."
    return lambda path: path in others or (path.parent == target.parent and path.name.startswith(draft))


def _add_folder(archive: zipfile.ZipFile, folder: Path, name: str, *, skip: Callable[[Path], bool]) -> None:
    """Add the plain files of a folder to the archive, except links and what ``skip`` accepts."""
    for current, folders, files in os.walk(folder):
        here = Path(current)
        folders[:] = [each for each in folders if not skip(here / each)]
        for each in files:
            path = here / each
            if skip(path) or path.is_symlink() or not path.is_file():
                continue
            inside = f"{name}/{path.relative_to(folder).as_posix()}"
            shown = shown_name(inside)
            with contextlib.suppress(FileNotFoundError):
                archive.write(path, shown)
                archive.getinfo(shown).comment = b"" if shown == inside else _ESCAPED


def _add_database(archive: zipfile.ZipFile, folder: Path, *, target: Path) -> None:
    """Add a consistent copy of the experiment's database to the archive. ``target``: the archive's file."""
    path = database_path(folder)
    # not in the experiment's folder, whose disk may be full
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as work:
        copy = Path(work) / path.name
        copy_database(path, copy)
        archive.write(copy, f"experiment/db/{path.name}")


def _id_of(archive: zipfile.ZipFile, file: Path) -> str:
    """Return the id of the experiment in an archive. Raise ClientError if the archive has no valid id."""
    try:
        held: Any = json.loads(archive.read(_ENTRY))
        return check_experiment_id(str(held["id"] if "id" in held else next(iter(held))))
    except (KeyError, ValueError, TypeError, StopIteration, zipfile.BadZipFile) as error:
        raise ClientError(
            f"{file} contains no experiment: {_ENTRY} is missing or damaged.",
            mend="Save an experiment to a file: nnictl experiment save ID",
        ) from error


def _extract(archive: zipfile.ZipFile, prefix: str, target: Path, written: list[Path]) -> None:
    """Write the archive's files below ``prefix`` to a folder, and no file outside of it. Raise OSError.

    ``written``: list to which this function appends the path of each written file.
    """
    make_private_folder(target)
    for info in archive.infolist():
        path = PurePosixPath(raw_name(info.filename) if info.comment == _ESCAPED else info.filename)
        if not info.filename.startswith(prefix) or info.is_dir():
            continue
        if path.is_absolute() or ".." in path.parts:
            raise OSError(f"the name {info.filename!r} is outside of the folder")
        place = target.joinpath(*path.relative_to(prefix.rstrip("/")).parts)
        make_private_folder(place.parent)
        with archive.open(info) as source, place.open("xb") as file:
            shutil.copyfileobj(source, file, _PIECE)
        place.chmod((info.external_attr >> 16) & 0o700 | 0o600)
        written.append(place)
