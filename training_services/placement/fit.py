"""Pure functions that decide whether a job fits on a host, which GPUs it gets, and why it must wait."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from training_services.base import JobRejected
from training_services.placement.needs import (
    Capacity,
    Gpu,
    GpuReading,
    Holding,
    Host,
    Need,
    TooLarge,
    Waits,
    all_of,
    cpus_text,
    gpus_text,
    memory_text,
    trial_text,
)

__all__ = ["ACTIVE_MIB", "behind_others", "keep", "place"]

ACTIVE_MIB = 1024  # MiB; if no visible process accounts for this much memory, a hidden program uses the GPU
MOST_NAMED = 16  # GPUs named in one sentence
MOST_HOLDERS = 4  # trials named in one sentence about CPUs or memory
_ROUNDING = 0.001  # tolerance, so that three thirds of a GPU add up to one


class _Slot(NamedTuple):
    """State of a GPU: the share in use, the jobs that hold it, and other programs that use it."""

    gpu: Gpu
    taken: float
    holders: list[Holding]
    others: list[str]


def place(
    need: Need,
    host: Host,
    reading: GpuReading | None,
    held: Sequence[Holding],
    *,
    capacity: Capacity | None = None,
    over: Collection[str] = (),
    left: Collection[int] = (),
    gone: Collection[int] = (),
) -> tuple[int, ...] | Waits:
    """Choose GPUs of the host for the job, the least used first, or return why the job must wait.

    ``held``: resources that jobs hold there. ``reading`` or ``capacity`` is None if it is not known yet.
    ``over``: jobs that have ended, although the GPU reading may still show them; ``left``: GPUs that were
    held by jobs that have ended. ``gone``: GPUs that have vanished. Raises JobRejected if the host is too
    small for the job.
    """
    if need.nothing:
        return ()
    _refuse(need, host, capacity)
    if (lacking := _lacking(need, host, held, capacity)) is not None:
        return Waits(lacking, behind_others(need, host))
    if need.whole_gpus == 0:
        return ()
    chosen = _choose(need, host, reading, held, over=over, left=left, gone=gone)
    return Waits(chosen, behind_others(need, host)) if isinstance(chosen, str) else chosen


def _refuse(need: Need, host: Host, capacity: Capacity | None) -> None:
    wanted = need.whole_gpus
    if host.gpu_indices is not None and wanted > len(host.gpu_indices):
        allowed = f"gpuIndices allows {len(host.gpu_indices)} of {host.name}"
        raise JobRejected(f"The trial asks for {gpus_text(wanted)}, but {allowed}.")
    if capacity is None:
        return
    if need.cpus > capacity.cpus:
        raise TooLarge(cpus_text(need.cpus), host, f"{capacity.cpus:g}", size=capacity.cpus)
    if need.memory > capacity.memory:
        wanted_memory = f"{memory_text(need.memory)} of memory"
        raise TooLarge(wanted_memory, host, memory_text(capacity.memory), size=capacity.memory)


def _lacking(need: Need, host: Host, held: Sequence[Holding], capacity: Capacity | None) -> str | None:
    """Return a sentence that says how much CPU or memory is missing for the job, or None if there is
    enough.
    """
    if not (need.cpus or need.memory):
        return None
    if capacity is None:
        return f"waits for {need} until {host.name} has reported its resources"
    told = [
        _scarce(wanted, host, total, held, amount=amount, text=text)
        for wanted, total, amount, text in (
            (need.cpus, capacity.cpus, _cpus, cpus_text),
            (need.memory, capacity.memory, _memory, lambda mib: f"{memory_text(mib)} of memory"),
        )
        if wanted and sum(map(amount, held)) + wanted > total + _ROUNDING
    ]
    return "; ".join(told) or None


def _cpus(holding: Holding) -> float:
    return holding.cpus


def _memory(holding: Holding) -> float:
    return holding.memory


def _scarce(
    wanted: float,
    host: Host,
    total: float,
    held: Sequence[Holding],
    *,
    amount: Callable[[Holding], float],
    text: Callable[[float], str],
) -> str:
    """Return a sentence that says how much of a resource is free, and which jobs hold most of it."""
    parts: dict[tuple[bool, str], float] = {}  # a gang may hold several parts here
    for each in filter(amount, held):
        holder = each.kept, trial_text(each.job_id)
        parts[holder] = parts.get(holder, 0) + amount(each)
    holders = sorted(parts.items(), key=lambda item: (item[0][0], -item[1]))
    free = max(0.0, total - sum(parts.values()))

    def are(part: float) -> str:
        return f"{text(part)} {'is' if part == 1 else 'are'}"

    told = [f"{are(free)} free"] if free >= _ROUNDING or not holders else []
    told += [
        f"{are(part)} kept for {trial}, whose turn it is" if kept else f"{are(part)} used by {trial}"
        for (kept, trial), part in holders[:MOST_HOLDERS]
    ]
    if (more := len(holders) - MOST_HOLDERS) > 0:
        told.append(f"{more} more trials have the rest")
    return f"waits for {text(wanted)} on {host.name}, which has {text(total)}: {', '.join(told)}"


def _choose(
    need: Need,
    host: Host,
    reading: GpuReading | None,
    held: Sequence[Holding],
    *,
    over: Collection[str],
    left: Collection[int],
    gone: Collection[int],
) -> tuple[int, ...] | str:
    """Return the GPUs for the job, or a sentence that says why there are not enough."""
    wanted, text = need.whole_gpus, need.gpus_text
    if reading is None:
        return f"waits for {text} until the GPUs of {host.name} have been read"
    if reading.trouble is not None:
        return f"waits for {text} on {host.name}, whose GPUs cannot be read: {reading.trouble}"
    slots = _slots(host, reading, held, over=over, left=left)
    share = need.share(host)
    free = [
        slot
        for slot in slots
        if (host.use_active_gpu or not slot.others) and slot.taken + share <= 1 + _ROUNDING
    ]
    if len(free) >= wanted:
        return _least_used(free, wanted)
    indices = {gpu.index for gpu in reading.gpus}
    missing = [f"GPU {index} has vanished" for index in sorted(set(gone) - indices)]
    missing += [
        f"there is no GPU {index}, which is in gpuIndices"
        for index in host.gpu_indices or ()
        if index not in indices and index not in gone
    ]
    return f"waits for {text} on {host.name}{_why(wanted, slots, free, missing, host)}"


def keep(
    need: Need,
    host: Host,
    reading: GpuReading | None,
    held: Sequence[Holding],
    *,
    capacity: Capacity | None,
    over: Collection[str],
    left: Collection[int],
) -> Holding | None:
    """Return the resources to reserve for a waiting job, with the GPUs that will probably become free first.

    Return None if the job waits for something other than the end of trials, because this may take any time.
    """
    gpus: tuple[int, ...] = ()
    if (need.cpus or need.memory) and capacity is None:
        return None
    if need.whole_gpus:
        if reading is None:
            return None
        slots = _slots(host, reading, held, over=over, left=left)
        hopeful = [slot for slot in slots if host.use_active_gpu or not slot.others]
        if len(hopeful) < need.whole_gpus:
            return None
        gpus = _least_used(hopeful, need.whole_gpus)
    return need.on(host, gpus, kept=True)


def _least_used(slots: list[_Slot], wanted: int) -> tuple[int, ...]:
    slots = sorted(slots, key=lambda slot: (slot.taken, len(slot.others), slot.gpu.memory, slot.gpu.index))
    return tuple(sorted(slot.gpu.index for slot in slots[:wanted]))


def _slots(
    host: Host,
    reading: GpuReading,
    held: Sequence[Holding],
    *,
    over: Collection[str],
    left: Collection[int],
) -> list[_Slot]:
    """Return the states of the host's GPUs that the experiment may use."""
    return [
        _slot(gpu, held, over, left)
        for gpu in reading.gpus
        if host.gpu_indices is None or gpu.index in host.gpu_indices
    ]


def _slot(gpu: Gpu, held: Sequence[Holding], over: Collection[str], left: Collection[int]) -> _Slot:
    claims = [holding for holding in held if gpu.index in holding.gpus]
    holders = [holding for holding in claims if not holding.kept]
    holding_jobs = {holding.job_id for holding in holders}
    others = dict.fromkeys(
        f"process {process.pid}" if process.job_id is None else trial_text(process.job_id)
        for process in gpu.processes
        if process.job_id is None or (process.job_id not in holding_jobs and process.job_id not in over)
    )
    unseen = gpu.memory >= ACTIVE_MIB and not gpu.processes and not holders and gpu.index not in left
    if unseen:
        others[f"hidden programs ({gpu.memory} MiB of its memory)"] = None
    return _Slot(gpu, sum(holding.share for holding in claims), claims, list(others))


def _why(wanted: int, slots: list[_Slot], free: list[_Slot], missing: list[str], host: Host) -> str:
    told: list[str] = []
    verb = " is used"
    for slot in [slot for slot in slots if slot not in free][:MOST_NAMED]:
        users = [trial_text(holding.job_id) for holding in slot.holders if not holding.kept]
        users += [] if host.use_active_gpu else slot.others
        kept = [trial_text(holding.job_id) for holding in slot.holders if holding.kept]
        used = f"{verb} by {all_of(users)}" if users else " is"
        told.append(f"GPU {slot.gpu.index}{used}{' and' if users and kept else ''}{_kept_for(kept)}")
        verb = " is used" if kept else ""
    told += [f"GPU {slot.gpu.index} is free" for slot in free[:MOST_NAMED]]
    if (more := len(slots) - len(told)) > 0:
        told.append(f"and {more} more")
    told += missing
    has = ""
    if wanted > len(slots) and not missing:
        has = f", which has {len(slots) or 'none'}"
    return has + (": " + ", ".join(told) if told else "")


def _kept_for(names: Sequence[str]) -> str:
    return f" kept for {all_of(names)}, whose turn it is" if names else ""


def behind_others(need: Need, host: Host) -> str:
    return f"waits for {need} on {host.name}, behind other trials of its experiment"
