from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from training_services.base import JobRejected
from training_services.placement.ledger import (
    Gpu,
    GpuProcess,
    GpuReading,
    Holding,
    Host,
    HostLedger,
    Need,
    Waits,
    place,
)

HOST = Host(id="h", name="this machine")


def need(gpus: float | None, job: str = "x-aaaaa-1", experiment: str = "x") -> Need:
    return Need(experiment_id=experiment, job_id=job, gpus=gpus)


def held(*gpus: int, job: str = "y-bbbbb-1", share: float = 1.0) -> Holding:
    return Holding(experiment_id="y", job_id=job, gpus=gpus, share=share)


def reading(number: int = 3, *more: Gpu) -> GpuReading:
    """Return a reading of ``number`` idle GPUs and of ``more``."""
    return GpuReading((*(Gpu(index=index) for index in range(number)), *more))


def host(**more: object) -> Host:
    return Host(id="h", name="this machine", **more)  # type: ignore[arg-type]


def reason(found: tuple[int, ...] | Waits) -> str:
    assert isinstance(found, Waits), found
    return found.reason


@pytest.mark.parametrize("gpus", [None, 0])
def test_without_gpus_a_host_takes_any_number(gpus: float | None) -> None:
    assert place(need(gpus), HOST, GpuReading((), "it hangs"), ()) == ()


def test_the_first_free_ones_are_given() -> None:
    assert place(need(2), HOST, reading(), [held(0)]) == (1, 2)


def test_the_least_used_come_first() -> None:
    two = host(max_jobs_per_gpu=2)
    holdings = [held(0, share=0.5), held(1, share=0.5, job="y-ccccc-1")]
    assert place(need(1), two, reading(), holdings) == (2,)
    assert place(need(1), two, reading(), [*holdings, held(2, share=0.5, job="y-ddddd-1")]) == (0,)
    busy = reading(0, Gpu(index=0, memory=512), Gpu(index=1))
    assert place(need(1), HOST, busy, ()) == (1,)


def test_whoever_wants_a_gpu_alone_has_it_alone() -> None:
    assert isinstance(place(need(1), host(max_jobs_per_gpu=4), reading(1), [held(0)]), Waits)


@pytest.mark.parametrize(("part", "number"), [(0.5, 2), (0.3, 3), (1 / 3, 3), (0.1, 10), (0.7, 1)])
def test_a_fraction_shares_a_gpu(part: float, number: int) -> None:
    holdings = [held(0, share=part, job=f"y-t{each}-1") for each in range(number)]
    assert place(need(part), HOST, reading(1), holdings[1:]) == (0,)
    assert isinstance(place(need(part), HOST, reading(1), holdings), Waits)


def test_different_fractions_fill_a_gpu() -> None:
    holdings = [held(0, share=0.5), held(0, share=0.25, job="z-ccccc-1")]
    assert place(need(0.25), HOST, reading(1), holdings) == (0,)
    assert reason(place(need(0.5), HOST, reading(1), holdings)) == (
        "waits for 0.5 of a GPU on this machine: "
        "GPU 0 is used by experiment y trial bbbbb and experiment z trial ccccc"
    )


def test_active_gpus_are_left_alone_unless_wanted() -> None:
    busy = reading(
        0,
        Gpu(index=0, processes=(GpuProcess(4711, None), GpuProcess(12, "z-ccccc-1"))),
        Gpu(index=1, memory=2048),
    )
    assert reason(place(need(1), HOST, busy, ())) == (
        "waits for 1 GPU on this machine: GPU 0 is used by process 4711 and experiment z trial ccccc, "
        "GPU 1 by hidden programs (2048 MiB of its memory)"
    )
    assert place(need(1), host(use_active_gpu=True), busy, ()) == (1,)


def test_our_own_processes_make_no_gpu_active() -> None:
    busy = reading(0, Gpu(index=0, memory=4096, processes=(GpuProcess(7, "y-bbbbb-1"),)))
    assert place(need(0.5), HOST, busy, [held(0, share=0.5)]) == (0,)
    assert place(need(0.5), HOST, busy, (), over={"y-bbbbb-1"}, left={0}) == (0,)
    assert isinstance(place(need(0.5), HOST, busy, [held(1, share=0.5)]), Waits)


def test_the_reason_names_what_is_lacking_and_who_has_it() -> None:
    mixed = reading(2, Gpu(index=2, processes=(GpuProcess(4711, None),)))
    assert reason(place(need(2), HOST, mixed, [held(0)])) == (
        "waits for 2 GPUs on this machine: GPU 0 is used by experiment y trial bbbbb, GPU 2 by process 4711, "
        "GPU 1 is free"
    )
    assert reason(place(need(4), HOST, reading(), ())) == (
        "waits for 4 GPUs on this machine, which has 3: GPU 0 is free, GPU 1 is free, GPU 2 is free"
    )
    assert reason(place(need(1), HOST, reading(0), ())) == "waits for 1 GPU on this machine, which has none"
    assert reason(place(need(1), HOST, reading(1), [held(0)], gone={1})) == (
        "waits for 1 GPU on this machine: GPU 0 is used by experiment y trial bbbbb, GPU 1 has vanished"
    )
    assert reason(place(need(2), host(gpu_indices=(0, 5)), reading(), ())) == (
        "waits for 2 GPUs on this machine: GPU 0 is free, there is no GPU 5, which is in gpuIndices"
    )


def test_unknown_and_unreadable_gpus() -> None:
    assert reason(place(need(1), HOST, None, ())) == (
        "waits for 1 GPU until the GPUs of this machine have been read"
    )
    assert reason(place(need(1), HOST, GpuReading((), "nvidia-smi hangs"), ())) == (
        "waits for 1 GPU on this machine, whose GPUs cannot be read: nvidia-smi hangs"
    )


def test_what_can_never_be_is_rejected() -> None:
    with pytest.raises(JobRejected, match="asks for 2 GPUs, but gpuIndices allows 1 of this machine"):
        place(need(2), host(gpu_indices=(1,)), None, ())


def ledger_of(number: int) -> HostLedger:
    ledger = HostLedger()
    ledger.read("h", "keeper", reading(number))
    return ledger


def test_experiments_share_the_ledger() -> None:
    ledger = ledger_of(3)
    freed: list[str] = []
    ledger.listen("y", lambda _: freed.append("y"), experiment_id="y")
    assert ledger.place(need(3), HOST) == (0, 1, 2)
    assert isinstance(ledger.place(need(1, job="y-bbbbb-1", experiment="y"), HOST), Waits)
    ledger.release("h", "x-aaaaa-1")
    ledger.release("h", "x-aaaaa-1")
    assert freed == ["y"]
    assert ledger.place(need(1, job="y-bbbbb-1", experiment="y"), HOST) == (0,)
    ledger.ignore("y")
    ledger.release("h", "y-bbbbb-1")
    assert freed == ["y"]


def test_who_holds_least_is_asked_first_and_then_who_was_given_something_longest_ago() -> None:
    ledger = ledger_of(3)
    asked: list[str] = []
    for name in ("x", "y", "z"):
        ledger.listen(name, lambda _, name=name: asked.append(name), experiment_id=name)  # type: ignore[misc]
    ledger.place(need(1, job="y-bbbbb-1", experiment="y"), HOST)
    ledger.place(need(1, job="x-aaaaa-1"), HOST)
    ledger.place(need(1, job="x-aaaab-1"), HOST)
    ledger.release("h", "x-aaaaa-1")
    assert asked == ["z", "y", "x"]
    ledger.release("h", "x-aaaab-1")
    assert asked[3:] == ["z", "x", "y"]


def test_what_a_reading_still_shows_of_a_job_that_has_ended_holds_nobody_up() -> None:
    ledger = ledger_of(1)
    job = need(1)
    assert ledger.place(job, HOST) == (0,)
    busy = reading(0, Gpu(index=0, processes=(GpuProcess(7, job.job_id),)))
    ledger.read("h", "keeper", busy)
    ledger.release("h", job.job_id)
    after = need(1, job="x-aaaab-1")
    assert ledger.place(after, HOST) == (0,)
    ledger.release("h", after.job_id)
    ledger.read("h", "other", busy)  # this reading was made just before the first job ended
    assert ledger.place(after, HOST) == (0,)
    ledger.release("h", after.job_id)
    ledger.read("h", "keeper", reading(1))
    ledger.read("h", "keeper", busy)
    # the second reading shows that the ended job still computes
    assert isinstance(ledger.place(after, HOST), Waits)


def test_readings_count_as_long_as_somebody_keeps_them_up_to_date() -> None:
    ledger = ledger_of(1)
    ledger.read("h", "other", reading(2))
    ledger.ignore("other")
    assert isinstance(ledger.place(need(2), HOST), Waits)
    assert ledger.place(need(1), HOST) == (0,)
    ledger.ignore("keeper")
    assert "have been read" in reason(ledger.place(need(1, job="x-aaaab-1"), HOST))


def test_troubles_are_said() -> None:
    ledger = ledger_of(3)
    assert ledger.trouble(HOST) is None
    ledger.place(need(2), HOST)
    ledger.read("h", "keeper", reading(0, Gpu(index=0)))
    assert ledger.trouble(HOST) == (
        "GPU 1 and GPU 2 of this machine have vanished (used by experiment x trial aaaaa)"
    )
    ledger.read("h", "keeper", GpuReading((), "nvidia-smi hangs"))
    assert ledger.trouble(HOST) == "the GPUs of this machine cannot be read: nvidia-smi hangs"
    ledger.read("h", "keeper", reading(3))
    assert ledger.trouble(HOST) is None


def test_no_gpu_is_given_away_before_all_are_back() -> None:
    ledger = ledger_of(3)
    freed: list[None] = []
    ledger.listen("x", lambda _: freed.append(None), experiment_id="x")
    ledger.expect(["y", "z"])
    assert ledger.place(need(0), HOST) == ()
    assert waiting(ledger, need(1)) == (
        "waits until experiment y, z has reported which GPUs it holds (to see why it has not: "
        "nnictl experiment show y; to continue without it: nnictl stop y --detach)"
    )
    with pytest.raises(JobRejected):
        ledger.place(need(4), host(gpu_indices=(0, 1)))
    ledger.hold(need(1, job="y-bbbbb-1", experiment="y"), HOST, (0,))
    ledger.rebuilt("y")
    assert freed == []
    ledger.rebuilt("z")
    assert freed == [None]
    assert ledger.place(need(1), HOST) == (1,)


def waiting(ledger: HostLedger, wanted: Need, at: Host = HOST) -> str:
    return reason(ledger.place(wanted, at))


def test_single_gpus_do_not_pass_by_for_ever_who_needs_several() -> None:
    """GPUs that become free are kept for the experiment that holds nothing."""
    ledger = ledger_of(3)
    for number in range(3):
        assert ledger.place(need(1, job=f"x-aaaa{number}-1"), HOST) == (number,)
    two = need(2, job="y-bbbbb-1", experiment="y")
    waiting(ledger, two)
    ledger.release("h", "x-aaaa1-1")
    assert waiting(ledger, two).endswith("x trial aaaa2, GPU 1 is free")
    assert waiting(ledger, need(1, job="x-aaaa3-1")) == (
        "waits for 1 GPU on this machine: GPU 0 is used by experiment x trial aaaa0 and kept for "
        "experiment y trial bbbbb, whose turn it is, GPU 1 is kept for experiment y trial bbbbb, "
        "whose turn it is, GPU 2 is used by experiment x trial aaaa2"
    )
    ledger.release("h", "x-aaaa2-1")
    assert ledger.place(two, HOST) == (1, 2)
    assert isinstance(ledger.place(need(1, job="x-aaaa3-1"), HOST), Waits)
    ledger.release("h", "y-bbbbb-1")
    assert ledger.place(need(1, job="x-aaaa3-1"), HOST) == (1,)


def test_parts_do_not_pass_by_for_ever_who_needs_a_whole_one() -> None:
    ledger = ledger_of(1)
    for job in ("x-aaaa0-1", "x-aaaa1-1"):
        assert ledger.place(need(0.5, job=job), HOST) == (0,)
    whole = need(1, job="y-bbbbb-1", experiment="y")
    waiting(ledger, whole)
    ledger.release("h", "x-aaaa0-1")
    assert waiting(ledger, need(0.5, job="x-aaaa2-1")) == (
        "waits for 0.5 of a GPU on this machine: GPU 0 is used by experiment x trial aaaa1 and kept for "
        "experiment y trial bbbbb, whose turn it is"
    )
    ledger.release("h", "x-aaaa1-1")
    assert ledger.place(whole, HOST) == (0,)


def test_every_experiment_that_waits_has_its_turn_again_and_again() -> None:
    """Two experiments use single GPUs, one all GPUs, and one half a GPU; trials end at random."""
    ledger, draw = ledger_of(4), Random(1)
    wants = {"a": 1.0, "b": 4.0, "c": 0.5, "d": 1.0}
    ran = dict.fromkeys(wants, 0)
    queues = {
        name: [need(gpus, job=f"{name}-{n}-1", experiment=name) for n in range(2)]
        for name, gpus in wants.items()
    }
    running: list[Need] = []

    def freed(name: str) -> None:
        while queues[name] and isinstance(ledger.place(queues[name][0], HOST), tuple):
            running.append(queues[name].pop(0))

    for name in wants:
        ledger.listen(name, lambda _, name=name: freed(name), experiment_id=name)  # type: ignore[misc]
        freed(name)
    for _ in range(400):
        over = running.pop(draw.randrange(len(running)))
        ran[over.experiment_id] += 1
        ledger.release("h", over.job_id)
        queues[over.experiment_id].append(over)
        freed(over.experiment_id)
        assert running
    assert min(ran.values()) > 20


def test_nothing_is_kept_for_who_waits_for_more_than_the_ends_of_trials() -> None:
    busy = reading(1, Gpu(index=1, processes=(GpuProcess(4711, None),)))
    ledger = HostLedger()
    ledger.read("h", "keeper", busy)
    assert ledger.place(need(1), HOST) == (0,)
    waiting(ledger, need(2, job="y-bbbbb-1", experiment="y"))
    waiting(ledger, need(2, job="z-ccccc-1", experiment="z"), host(use_active_gpu=True))
    # the GPU is kept for z, which may use GPUs with foreign processes
    assert isinstance(ledger.place(need(1, job="x-aaaab-1"), HOST), Waits)
    ledger.withdraw("z")
    ledger.release("h", "x-aaaaa-1")
    assert ledger.place(need(1, job="x-aaaab-1"), HOST) == (0,)


def test_nothing_is_kept_for_who_waits_no_longer() -> None:
    ledger = ledger_of(2)
    asked: list[str] = []
    leave: Callable[[], None]
    for number in range(2):
        ledger.place(need(1, job=f"x-aaaa{number}-1"), HOST)
    ledger.listen("x", lambda _: asked.append("x"), experiment_id="x")
    two, later = need(2, job="y-bbbbb-1", experiment="y"), need(1, job="x-aaaa3-1")
    for leave in (
        lambda: ledger.withdraw("y"),
        lambda: ledger.withdraw("y", host_id="h"),
        lambda: ledger.ignore("y"),
    ):
        ledger.listen("y", lambda _: None, experiment_id="y")
        waiting(ledger, two)
        ledger.release("h", "x-aaaa0-1")
        assert isinstance(ledger.place(later, HOST), Waits)
        asked.clear()
        ledger.withdraw("y", host_id="other")
        assert not asked
        leave()
        assert asked == ["x"]
        assert ledger.place(later, HOST) == (0,)
        ledger.release("h", later.job_id)
        ledger.place(need(1, job="x-aaaa0-1"), HOST)


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        ({"max_jobs_per_gpu": 2}, {"max_jobs_per_gpu": 4}, True),
        ({"max_jobs_per_gpu": 2, "use_active_gpu": True}, {"max_jobs_per_gpu": 2}, True),
        ({}, {"max_jobs_per_gpu": 4}, False),
        ({"max_jobs_per_gpu": 4}, {}, False),
        ({"max_jobs_per_gpu": 4}, {"use_active_gpu": True}, False),
    ],
)
def test_trials_of_two_experiments_share_a_gpu_only_if_both_allow_it(
    first: dict[str, object], second: dict[str, object], together: bool
) -> None:
    """A trial that shares a GPU with permission is not a foreign process on it, with any useActiveGpu."""
    ledger = ledger_of(1)
    one, other = need(1), need(1, job="y-bbbbb-1", experiment="y")
    assert ledger.place(one, host(**first)) == (0,)
    ledger.read("h", "keeper", reading(0, Gpu(index=0, processes=(GpuProcess(7, one.job_id),))))
    assert (ledger.place(other, host(**second)) == (0,)) is together


def test_a_foreign_process_bars_only_those_who_want_no_active_gpu() -> None:
    ledger = HostLedger()
    ledger.read("h", "keeper", reading(0, Gpu(index=0, processes=(GpuProcess(4711, None),))))
    active = host(use_active_gpu=True, max_jobs_per_gpu=2)
    assert ledger.place(need(1), active) == (0,)
    other = need(1, job="y-bbbbb-1", experiment="y")
    assert waiting(ledger, other, host(max_jobs_per_gpu=2)) == (
        "waits for 1 GPU on this machine: GPU 0 is used by experiment x trial aaaaa and process 4711"
    )
    assert ledger.place(other, active) == (0,)
