"""Stored legs and forks, and the metrics of trials that continue from checkpoints of other trials."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from nnimgr.core.running.new_trials import FailedTrial, rerun
from nnimgr.rules import facts as f
from nnimgr.rules.decisions import recorded_as
from nnimgr.store.reader import ExperimentReader
from nnimgr.store.writer import ExperimentWriter
from tests.rules.saving import Saving
from tests.store.test_store import StoredLife


@pytest.fixture
async def writer(tmp_path: Path) -> AsyncIterator[ExperimentWriter]:
    writer = ExperimentWriter(tmp_path)
    await writer.open()
    yield writer
    await writer.close()


def pair() -> tuple[StoredLife, Saving, Saving]:
    """Return two running trials; the first has saved a checkpoint after two results."""
    life = StoredLife(trial_concurrency=2, max_trial_number=2)
    donor, heir = Saving(life=life, sequence=0), Saving(life=life, sequence=1)
    donor.report(0.7, 0.8)
    donor.save(2)
    return life, donor, heir


def exploit(heir: Saving, donor: Saving) -> None:
    """Let the heir continue from the donor's first checkpoint."""
    state = heir.life.state
    decision = f.Decided(
        trial_id=heir.id,
        kind=f.DecisionKind.EXPLOIT,
        cause=state.number,
        reason="the donor is better",
        parameters='{"x": 2}',
        donor=donor.id,
        checkpoint=(1, 1),
    )
    heir.life.take(*recorded_as(state, decision))
    heir.end(None, f.EndReason.STOPPED)
    heir.start()


def curve(directory: Path, saving: Saving) -> list[tuple[int, float | None]]:
    with contextlib.closing(ExperimentReader(directory)) as reader:
        return [(metric.sequence, metric.value) for metric in reader.curve(saving.id, points=100).metrics]


async def test_a_leg_replaces_the_results_that_it_reports_itself(
    tmp_path: Path, writer: ExperimentWriter
) -> None:
    life, donor, heir = pair()
    heir.report(0.1, 0.2, 0.3)
    exploit(heir, donor)
    heir.report(0.9)
    await life.store(writer)
    assert curve(tmp_path, heir) == [(0, 0.1), (1, 0.2), (2, 0.9)]
    with contextlib.closing(ExperimentReader(tmp_path)) as reader:
        assert [row.value for row in reader.metrics(trial_id=heir.id, attempt=1)] == [0.3]
        assert reader.facts(limit=1000) == life.log


async def test_a_leg_may_begin_after_the_results_of_its_trial(
    tmp_path: Path, writer: ExperimentWriter
) -> None:
    life, donor, heir = pair()
    heir.report(0.1)
    exploit(heir, donor)
    heir.report(0.9)
    heir.lose()  # before its first checkpoint: the leg begins again
    heir.start()
    heir.report(0.91)
    await life.store(writer)
    assert curve(tmp_path, heir) == [(0, 0.1), (2, 0.91)]


async def test_legs_are_listed(tmp_path: Path, writer: ExperimentWriter) -> None:
    life, donor, heir = pair()
    exploit(heir, donor)
    await life.store(writer)
    with contextlib.closing(ExperimentReader(tmp_path)) as reader:
        (leg,) = reader.legs()
        assert reader.legs(donor.id) == []
        assert reader.trials_of([heir.id])[heir.id].parameters == '{"x": 2}'
        assert leg.saved_at == reader.checkpoints(donor.id)[0].at
        related = {row.trial_id: row for row in reader.related()}
        assert reader.first_parameters(heir.id) == related[heir.id].parameters != leg.parameters
        assert related[heir.id].started_at == reader.jobs(heir.id)[0].started_at
    assert (leg.trial_id, leg.leg, leg.attempt, leg.parameters) == (heir.id, 1, 2, '{"x": 2}')
    assert (leg.origin_trial_id, leg.origin_attempt, leg.origin_number) == (donor.id, 1, 1)
    assert [row.sequence for row in related.values()] == [0, 1]
    assert (leg.reports, leg.step) == (2, 2)
    assert leg.reason == f"the donor is better; the trial will continue from step 2 of trial {donor.id}"


async def test_an_ended_trial_has_origins_for_forks(tmp_path: Path, writer: ExperimentWriter) -> None:
    life, donor, _ = pair()
    donor.end(0)
    await life.store(writer)
    with contextlib.closing(ExperimentReader(tmp_path)) as reader:
        origin = reader.origin(donor.id, None)
        assert origin == reader.origin(donor.id, (1, 1))
        assert reader.origin(donor.id, (1, 2)) is None
    assert origin == f.Origin(
        trial_id=donor.id, attempt=1, number=1, keeper_id="local", step=2, position=0, reports=2
    )
    life.take(
        f.ConfigChanged(changes={}, limits=replace(life.state.limits, max_trial_number=3)),
        f.Suggested(
            trial_id=life.trial(2),
            sequence=2,
            source=f.SuggestionSource.FORK,
            parameter_id=None,
            parameters='{"x": 3}',
            retry_of=donor.id,
            origin=origin,
        ),
    )
    fork = Saving(life=life, sequence=2)
    fork.report(0.9)
    await life.store(writer)
    assert curve(tmp_path, fork) == [(2, 0.9)]
    with contextlib.closing(ExperimentReader(tmp_path)) as reader:
        (row,) = reader.forks()
        assert (row.trial_id, row.origin_trial_id, row.reports, row.step) == (fork.id, donor.id, 2, 2)
        assert row.saved_at == reader.checkpoints(donor.id)[0].at
        assert [row.sequence for row in reader.related()] == [0, 2]
    fork.end(1)
    failed = FailedTrial(id=fork.id, parameter_id=None, parameters='{"x": 3}', origin=origin)
    life.take(
        f.ConfigChanged(changes={}, limits=replace(life.state.limits, max_trial_number=4)),
        *rerun([failed])(life.state),
    )
    await life.store(writer)
    with contextlib.closing(ExperimentReader(tmp_path)) as reader:
        assert reader.origins([life.trial(3)]) == {life.trial(3): origin}
        assert [row.trial_id for row in reader.forks()] == [fork.id, life.trial(3)]
        assert [row.sequence for row in reader.related()] == [0, 2, 3]
