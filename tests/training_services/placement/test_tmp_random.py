import json
from random import Random
import pytest
from tests.training_services.fleet import FakeMachine
from tests.training_services.placement.test_lines import *
from tests.training_services.placement.test_lines import _running, _no_event_was_missed
from training_services.base import JobEnded, JobRejected, Origin
from training_services.placement.needs import Gpu, GpuReading

def gpus_of(job):
    return json.loads(job.parameter_text)["parameters"]["gpus"]

@pytest.mark.parametrize("seed", range(200))
async def test_mix(tmp_path, seed, monkeypatch):
    monkeypatch.setattr(lines, "MOST_LINES", 3)
    draw = Random(seed)
    own = OwnNeeds(cpus=cpus_of, gpus=gpus_of)
    def machines(): return FakeMachine("a", cpus=4), FakeMachine("b", cpus=6), FakeMachine("c", cpus=8)
    fleets = [Fleet(tmp_path, *machines(), own_needs=own) for _ in range(3)]
    for n, f in enumerate(fleets):
        f.tools, f.hub = fleets[0].tools, fleets[0].hub
        if n: object.__setattr__(f.context, "experiment_id", f"other{n}")
        await f.open()
    def read():
        for k, n in (("a", 1), ("b", 2), ("c", 4)):
            for f in fleets:
                f.core.service._queue.told(f.core.service._seats[k], None, GpuReading(tuple(Gpu(index=i) for i in range(n))))
    read()
    number = 0
    canceled = set()
    for step in range(500):
        f = draw.choice(fleets)
        running = _running(f)
        r = draw.random()
        if step < 150 and (r < 0.5 or not running):
            p = json.dumps({"cpus": draw.choice([1, 1, 2, 3, 4, 6]), "gpus": draw.choice([0, 0, 0.5, 1, 2, 3])})
            o = draw.random()
            origin = Origin(attempt=1, number=1, keeper_id=draw.choice("abc")) if o < 0.2 else None
            try:
                f.core.submit(f"t{number:04}", parameters=p, attempt=2 if origin else 1, origin=origin)
            except JobRejected:
                pass
            number += 1
        elif r < 0.58 and step < 300 and list(f.core.service._queue):
            victim = draw.choice(list(f.core.service._queue)); led0=f.tools.ledger
            if step == 198: print('CANCEL', victim, [(k, v) for k, v in led0._lines._lines.items() if v.head and v.head.job_id == victim], victim in f.core.service._queue._bound)
            f.core.cancel(victim)
        elif r < 0.62:
            f.core.service.prioritise(draw.choice([0, 0, 1]))
        elif running:
            name, trial = draw.choice(running)
            await f.machines[name].poll()
            job = next(j for j in f.machines[name].running if f"-{trial}-" in j)
            await f.machines[name].finish(job)
            await f.core.seen(JobEnded, job)
            if draw.random() < 0.3: read()
        for n, each in enumerate(fleets):
            led = each.tools.ledger
            qs = {k: list(g.core.service._queue) for k, g in enumerate(fleets)}
            lines_before = {k: {h: [(key, led._lines._lines[key].head, led._lines._lines[key].kept_at) for key in v] for h, v in led._lines._here.items()} for k in (0,)}
            turns = [led._turn(x) for x in ("contract", "other1", "other2")]
            told = [g.core.of(j)[-1] for g in fleets for j in g.core.service._queue]
            try:
                _no_event_was_missed(each)
            except AssertionError:
                print("STEP", step, "by", fleets.index(f), "r", r, "checked", n)
                print(qs); print(turns)
                for h, v in lines_before[0].items(): print(h, v)
                for t in told: print(t)
                raise
    stuck = {j for each in fleets for j in each.core.service._queue}
    for j in stuck: print(j, [e for f in fleets for e in f.core.of(j)][-1])
    # those that can never run on their machine wait for GPUs that may come
    for each in fleets:
        assert not _running(each)
        for j in each.core.service._queue:
            last = each.core.of(j)[-1]
            assert ", which has" in last.reason, last
    for f in fleets:
        await f.core.close(detach=True)
