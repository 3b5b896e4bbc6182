"""Tests of the trial code: packed here, fetched by real keepers through a real door, copied per attempt."""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.disks import disk
from tests.training_services.hosting import serve
from tests.trial_keeper.harness import oldest_python, wait_for
from training_services.base import (
    EndReason,
    ExperimentContext,
    JobEnded,
    JobNoted,
    JobStarted,
    ServiceUnavailable,
    TrialJobSpec,
)
from training_services.code import CodeLimits, archive_path, code_folder, pack_code
from training_services.keepers.hub import KeeperHub
from training_services.keepers.jobs import StartOrder
from training_services.machines.local import LocalConfig, LocalKeeper
from training_services.machines.process import lock_holder
from training_services.machines.service import MachineService
from training_services.placement.ledger import HostLedger
from training_services.testing import CoreDouble
from training_services.tools import ServiceTools
from trial_keeper.calls.connection import CallFailed
from trial_keeper.code import unpacked
from trial_keeper.code.store import CodeStore
from trial_keeper.code.unpacked import Entry
from trial_keeper.machine.disk import remove


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names(archive: Path, folder: Path) -> list[str]:
    return [entry.name for entry in unpacked.unpack(str(archive), str(folder))]


# ---- packing ----------------------------------------------------------------------------------------------


def test_what_is_ignored_is_left_out(tmp_path: Path) -> None:
    code = tmp_path / "code"
    write(code, {"a.py": "a", "data/big": "x", "data/keep.py": "k", "logs/x.log": "l", "lib/b.py": "b"})
    write(code, {".nniignore": "# comment\ndata/\n*.log\n!keep.py\n"})
    archive = pack_code(code, tmp_path / "exp")
    assert names(archive.path, tmp_path / "out") == [".nniignore", "a.py", "lib", "lib/b.py", "logs"]
    assert archive.order == {"sha256": archive.sha256, "size": archive.path.stat().st_size}
    assert archive.path == archive_path(tmp_path / "exp", archive.sha256)


def test_the_hash_is_of_names_modes_and_contents(tmp_path: Path) -> None:
    code = tmp_path / "code"
    write(code, {"a.py": "a", "b/c.py": "c"})
    first = pack_code(code, tmp_path / "exp")
    os.utime(code / "a.py", (1, 1))
    assert pack_code(code, tmp_path / "other").sha256 == first.sha256
    (code / "a.py").chmod(0o755)
    second = pack_code(code, tmp_path / "exp")
    (code / "a.py").rename(code / "z.py")
    third = pack_code(code, tmp_path / "exp")
    write(code, {"z.py": "b"})
    fourth = pack_code(code, tmp_path / "exp")
    assert len({archive.sha256 for archive in (first, second, third, fourth)}) == 4


def test_links_and_modes_are_kept_and_odd_files_are_not(tmp_path: Path) -> None:
    code = tmp_path / "code"
    write(code, {"run.sh": "x", "deep/er/b.py": "b"})
    (code / "run.sh").chmod(0o750)
    (code / "link").symlink_to("deep/er")
    (code / "dangling").symlink_to("/no/such/file")
    os.mkfifo(code / "pipe")
    odd = os.fsdecode(b"n\xff\n" + b"x" * 120)
    write(code, {odd: "odd"})
    (code / "locked").mkdir(mode=0o555)
    archive = pack_code(code, tmp_path / "exp")
    entries = unpacked.unpack(str(archive.path), str(tmp_path / "tree"))
    unpacked.copy(str(tmp_path / "tree"), entries, str(tmp_path / "copy"))
    copy = tmp_path / "copy"
    assert sorted(os.listdir(copy)) == sorted({*os.listdir(code)} - {"pipe"})
    assert (copy / "run.sh").stat().st_mode & 0o777 == 0o750
    assert (copy / "locked").stat().st_mode & 0o777 == 0o555
    assert os.readlink(copy / "link") == "deep/er" and os.readlink(copy / "dangling") == "/no/such/file"
    assert (copy / "link" / "b.py").read_text() == "b" and (copy / odd).read_text() == "odd"
    unpacked.take_away(str(tmp_path), "copy", entries)
    assert not copy.exists()
    remove(str(tmp_path / "tree"))
    assert not (tmp_path / "tree").exists()


def test_experiments_within_the_code_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "a", "exps/one/big": "x", "exps/two/big": "x"})
    archive = pack_code(tmp_path, tmp_path / "exps" / "one")
    assert names(archive.path, tmp_path / "exps" / "out") == ["a.py"]


def test_code_that_is_too_large_is_refused_with_what_is_largest(tmp_path: Path) -> None:
    code = tmp_path / "code"
    write(code, {"a.py": "a", "data/x": "x" * 3000, "data/y": "y"})
    with pytest.raises(ServiceUnavailable, match=r"more than 2 files.*data \(2\).*\.nniignore"):
        pack_code(code, tmp_path / "exp", limits=CodeLimits(entries=2))
    with pytest.raises(ServiceUnavailable, match=r"larger than 0 MiB.*data .*\.nniignore"):
        pack_code(code, tmp_path / "exp", limits=CodeLimits(size=1000))
    with pytest.raises(ServiceUnavailable, match=r"could not be packed: .*missing"):
        pack_code(tmp_path / "missing", tmp_path / "exp")
    assert not list(code_folder(tmp_path / "exp").iterdir())


def test_a_few_older_archives_are_kept(tmp_path: Path) -> None:
    code = tmp_path / "code"
    made = []
    for number in range(8):
        write(code, {"a.py": str(number)})
        made.append(pack_code(code, tmp_path / "exp").path)
        os.utime(made[-1], (number, number))
    assert [path.exists() for path in made] == [False] * 3 + [True] * 5


# ---- taking away ------------------------------------------------------------------------------------------


def test_only_what_the_trial_left_as_it_was_is_taken_away(tmp_path: Path) -> None:
    code, outside = tmp_path / "code", tmp_path / "outside"
    write(
        code, {"a.py": "a", "b.py": "b", "same.py": "s", "lib/c.py": "c", "gone/d.py": "d", "moved/e.py": "e"}
    )
    entries = unpacked.unpack(str(pack_code(code, tmp_path / "exp").path), str(tmp_path / "tree"))
    attempt = tmp_path / "attempt"
    unpacked.copy(str(tmp_path / "tree"), entries, str(attempt / "code"))
    copy = attempt / "code"
    (copy / "b.py").write_text("B")  # the same size as before
    (copy / "same.py").chmod(0o700)
    write(copy, {"lib/out.txt": "o", "new.txt": "n"})
    (copy / "moved").rename(outside)  # the moved folder keeps its files; in its place is a link to outside
    (copy / "moved").symlink_to(outside)
    unpacked.take_away(str(attempt), "code", entries)
    left = sorted(str(path.relative_to(copy)) for path in copy.rglob("*") if "moved/" not in str(path))
    assert left == ["b.py", "lib", "lib/out.txt", "moved", "new.txt", "same.py"]
    assert (outside / "e.py").exists()
    unpacked.take_away(str(attempt), "code", entries)
    unpacked.take_away(str(tmp_path / "nowhere"), "code", entries)


def test_an_archive_with_a_way_out_is_not_unpacked(tmp_path: Path) -> None:
    import io
    import tarfile

    for number, (name, kind) in enumerate((("../x", b"0"), ("link/x", b"0"), ("pipe", b"6"))):
        path = tmp_path / f"{number}.tar.gz"
        with tarfile.open(path, "w:gz") as tar:
            link = tarfile.TarInfo("link")
            link.type, link.linkname = tarfile.SYMTYPE, "/tmp"
            tar.addfile(link)
            member = tarfile.TarInfo(name)
            member.type = kind
            tar.addfile(member, io.BytesIO(b""))
        with pytest.raises(unpacked.BadArchive, match="the trial code holds"):
            unpacked.unpack(str(path), str(tmp_path / f"out{number}"))


def test_a_tree_that_lost_a_part_is_not_whole(tmp_path: Path) -> None:
    write(tmp_path / "code", {"a.py": "aaa", "lib/c.py": "c"})
    tree = tmp_path / "tree"
    entries = unpacked.unpack(str(pack_code(tmp_path / "code", tmp_path / "exp").path), str(tree))
    unpacked.write_list(str(tmp_path / "list"), entries)
    assert unpacked.read_list(str(tmp_path / "list")) == entries
    assert unpacked.is_whole(str(tree), entries)
    (tree / "a.py").write_bytes(b"\0\0\0")
    assert not unpacked.is_whole(str(tree), entries)
    (tree / "a.py").unlink()
    assert not unpacked.is_whole(str(tree), [Entry("a.py", unpacked.FILE, 0o644, 3, 0)])


# ---- real keepers -----------------------------------------------------------------------------------------


class CodeKeeper(LocalKeeper):
    """Keeper of this machine that behaves as if the trial code were on another machine."""

    code: dict[str, Any]

    def start_order(self, job: TrialJobSpec, gpus: tuple[int, ...]) -> StartOrder:
        return {**super().start_order(job, gpus), "cwd": "", "code": self.code}


class Machine:
    """Host with its own home folder, where experiments have keepers."""

    def __init__(self, directory: Path, tools: ServiceTools) -> None:
        self.directory = directory
        self.tools = tools
        self.code = directory / "source"
        self.store = directory / "home" / ".nnimgr" / "code"
        self.environ = {**os.environ, "NNIMGR_HOME": str(directory / "home")}

    def make(self, experiment: str = "one", *, size: int | None = None) -> MachineService:
        directory = self.directory / experiment
        context = ExperimentContext(
            experiment_id=experiment,
            directory=directory,
            trial_command="bash ./run.sh",
            trial_code_directory=self.code,
            trial_gpu_number=None,
            python=oldest_python() or sys.executable,
            environ=self.environ,
        )
        archive = pack_code(self.code, directory)
        keeper = CodeKeeper(context, LocalConfig(), self.tools)
        keeper.code = {**archive.order, **({} if size is None else {"size": size})}
        return MachineService(context, self.tools, [keeper])

    def attempt(self, trial: str, experiment: str = "one") -> Path:
        return self.directory / experiment / "trials" / trial

    def kill_keeper(self, experiment: str = "one") -> None:
        keeper = lock_holder(self.directory / experiment / "keeper" / "lock")
        assert keeper is not None
        keeper.send(signal.SIGKILL)
        keeper.close()


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    hub = KeeperHub()
    async with serve(hub) as doors:
        yield Machine(tmp_path, ServiceTools(hub=hub, ledger=HostLedger(), doors=doors))


async def test_each_attempt_has_a_copy_of_its_own(machine: Machine) -> None:
    write(
        machine.code,
        {"run.sh": 'pwd; echo "$NNI_CODE_DIR"; cat lib/word; echo mine > lib/made', "lib/word": "w\n"},
    )
    core = CoreDouble()
    await core.open(machine.make())
    jobs = {trial: core.submit(trial) for trial in ("aaaa1", "bbbb2")}
    for trial, job_id in jobs.items():
        assert (await core.seen(JobEnded, job_id)).exit_code == 0, core.of(job_id)
        attempt = machine.attempt(trial)
        place = str(attempt / "code")
        assert (attempt / "stdout").read_text() == f"{place}\n{place}\nw\n"
        await taken_away(Path(place), ["lib", "lib/made"])
    assert [path.name[64:] for path in sorted(machine.store.iterdir())] == ["", ".lock"]
    await core.close(detach=False)


async def taken_away(copy: Path, left: list[str]) -> None:
    """Wait until the copy of an attempt contains only these paths."""

    def files() -> list[str] | None:
        try:
            return sorted(str(path.relative_to(copy)) for path in copy.rglob("*"))
        except FileNotFoundError:  # a folder was removed while it was listed
            return None

    await asyncio.to_thread(wait_for, lambda: files() == left, "the copy to be taken away")


async def noted(core: CoreDouble, job_id: str, words: str) -> str:
    """Wait for a note on the job that contains these words, and return the first."""

    def notes() -> list[str]:
        return [fact.note for fact in core.of(job_id) if isinstance(fact, JobNoted) and words in fact.note]

    await core.until(lambda: bool(notes()))
    return notes()[0]


async def test_a_copy_that_was_left_as_it_was_serves_again_and_no_other(machine: Machine) -> None:
    change = 't=$(stat -c %y word); echo e > word; touch -d "$t" word'
    command = f"stat -c %i word; cat word; [ $NNI_TRIAL_JOB_ID != bbbb2 ] || {{ {change}; }}"
    write(machine.code, {"run.sh": command, "word": "w\n"})
    core = CoreDouble()
    await core.open(machine.make())
    seen = []
    for trial in ("aaaa1", "bbbb2", "cccc3"):
        await core.seen(JobEnded, core.submit(trial))
        await taken_away(machine.attempt(trial) / "code", ["word"] if trial == "bbbb2" else [])
        seen.append((machine.attempt(trial) / "stdout").read_text().split())
    assert seen[0] == seen[1]
    assert seen[2][0] != seen[1][0] and seen[2][1] == "w"
    copies = machine.directory / "one" / "keeper" / "copies"
    assert [path.name for path in (copies / "spares").iterdir()] == ["contract-cccc3-1"]
    await core.close(detach=False)
    assert not (copies / "spares").exists()


async def test_two_keepers_fetch_once(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    write(machine.code, {"run.sh": "cat big | wc -c", "big": "x" * 3_000_000})
    opened: list[str] = []
    monkeypatch.setattr("training_services.keepers.seating.archive_path", counting(opened))
    cores = CoreDouble(), CoreDouble()
    for core, name in zip(cores, ("one", "two"), strict=True):
        await core.open(machine.make(name))
    jobs = [core.submit("aaaa1") for core in cores]
    for core, job_id, name in zip(cores, jobs, ("one", "two"), strict=True):
        await core.seen(JobEnded, job_id)
        assert (machine.attempt("aaaa1", name) / "stdout").read_text() == "3000000\n"
    assert len(opened) == 1
    for core in cores:
        await core.close(detach=False)


def counting(opened: list[str]) -> Callable[[Path, str], Path]:
    def find(directory: Path, sha256: str) -> Path:
        opened.append(sha256)
        return archive_path(directory, sha256)

    return find


async def test_what_is_in_the_way_of_the_code_is_told_and_tried_again(machine: Machine) -> None:
    write(machine.code, {"run.sh": "exit 7"})
    core = CoreDouble()
    service = machine.make()
    (archive,) = code_folder(machine.directory / "one").iterdir()
    archive.rename(archive.with_suffix(".away"))
    await core.open(service)
    job_id = core.submit("aaaa1")
    note = await noted(core, job_id, "this version of the trial code")
    assert note.startswith("the attempt waits for its code: the server answers 404")
    archive.write_bytes(b"x" * archive.with_suffix(".away").stat().st_size)
    await noted(core, job_id, "damaged")
    archive.with_suffix(".away").rename(archive)
    assert (await core.seen(JobEnded, job_id)).exit_code == 7
    await core.close(detach=False)


async def test_a_killed_keeper_goes_on_where_it_was(machine: Machine) -> None:
    write(machine.code, {"run.sh": "cat big | wc -c; sleep 1000", "big": "x" * 3_000_000})
    core = CoreDouble()
    service = machine.make()
    (archive,) = code_folder(machine.directory / "one").iterdir()
    content = archive.read_bytes()
    archive.unlink()
    machine.store.mkdir(parents=True)
    part = machine.store / f"{archive.name.partition('.')[0]}.part"
    part.write_bytes(content[:1000])
    leftover = machine.store / f"{archive.name.partition('.')[0]}.new"
    write(leftover, {"tree/half": "x"})
    await core.open(service)
    job_id = core.submit("aaaa1")
    await noted(core, job_id, "this version of the trial code")
    write(machine.attempt("aaaa1"), {"code.new/half": "x"})
    machine.kill_keeper()
    archive.write_bytes(b"?" * 1000 + content[1000:])  # the keeper must not request the part that it has
    await core.seen(JobStarted, job_id)
    stdout = machine.attempt("aaaa1") / "stdout"
    await asyncio.to_thread(wait_for, lambda: stdout.read_text() == "3000000\n", "the output")
    core.cancel(job_id)
    await core.seen(JobEnded, job_id)
    await taken_away(machine.attempt("aaaa1") / "code", [])
    await core.close(detach=False)


async def test_a_full_disk_is_told_and_what_came_is_kept(machine: Machine) -> None:
    write(machine.code, {"run.sh": "exit 7", "big": random.Random(1).randbytes(3_000_000).hex()})
    core = CoreDouble()
    with disk(machine.store, size="12m") as full:
        full.fill()
        await core.open(machine.make())
        job_id = core.submit("aaaa1")
        note = await noted(core, job_id, "No space left on device")
        assert note.startswith("the attempt waits for its code: ")
        full.free()
        assert (await core.seen(JobEnded, job_id)).exit_code == 7
        await core.close(detach=False)


async def test_a_stop_does_not_wait_for_the_code(machine: Machine) -> None:
    write(machine.code, {"run.sh": "exit 7"})
    core = CoreDouble()
    service = machine.make()
    (archive,) = code_folder(machine.directory / "one").iterdir()
    archive.rename(archive.with_suffix(".away"))
    await core.open(service)
    job_id = core.submit("aaaa1")
    await noted(core, job_id, "this version of the trial code")
    core.cancel(job_id)
    assert (await core.seen(JobEnded, job_id)).reason is EndReason.NEVER_STARTED
    await core.close(detach=False)


# ---- what a machine keeps ---------------------------------------------------------------------------------


def arrived(folder: Path, source: Path, text: str) -> tuple[str, int]:
    """Put an archive with this content into a machine's store, as if it had just been fetched."""
    write(source, {"a.py": text})
    archive = pack_code(source, folder / "exp")
    folder.mkdir(exist_ok=True)
    archive.path.rename(folder / f"{archive.sha256}.part")
    return archive.sha256, archive.size


def test_what_was_used_longest_ago_makes_room(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    store = CodeStore(str(folder), manager="none", boot_id="b", limit=2500)
    contents = [arrived(folder, tmp_path / "source", letter * 1000) for letter in "abc"]
    with store.held(*contents[0], print) as held:  # an archive in use is kept
        for sha256, size in contents[1:]:
            with store.held(sha256, size, print):
                os.utime(folder / f"{sha256}.lock", (1, 1))
        assert Path(held.path, "a.py").read_text() == "a" * 1000
    assert [(folder / sha256).is_dir() for sha256, _ in contents] == [True, False, True]


def test_a_keeper_that_waits_for_another_one_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    sha256, size = arrived(folder, tmp_path / "source", "text")
    said: list[str] = []
    with open(folder / f"{sha256}.lock", "wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)  # another keeper fetches this code

        def say(sentence: str) -> None:
            said.append(sentence)
            fcntl.flock(other, fcntl.LOCK_UN)

        with CodeStore(str(folder), manager="none", boot_id="b").held(sha256, size, say) as held:
            assert Path(held.path, "a.py").read_text() == "text"
    assert said == ["another keeper of this machine is fetching the trial code"]


def test_what_the_machine_lost_is_fetched_again(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    sha256, size = arrived(folder, tmp_path / "source", "text")
    content = (folder / f"{sha256}.part").read_bytes()
    for boot, damage in (("b1", b"text"), ("b2", b"\0\0\0\0")):
        with CodeStore(str(folder), manager="none", boot_id=boot).held(sha256, size, print) as held:
            assert Path(held.path, "a.py").read_bytes() == b"text"
        Path(held.path, "a.py").write_bytes(damage)
    (folder / f"{sha256}.part").write_bytes(content)
    with CodeStore(str(folder), manager="none", boot_id="b3").held(sha256, size, print) as held:
        assert Path(held.path, "a.py").read_bytes() == b"text"
    with (
        pytest.raises(CallFailed, match="not a hash"),
        CodeStore(str(folder), manager="none", boot_id="b").held("../x", 1, print),
    ):
        pass
