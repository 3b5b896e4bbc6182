"""The field ``gang``: trials of several worker processes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from nnimgr.config.load import read_canonical
from nnimgr.rules.facts import MemberRange
from tests.config.loading import Faults, Load
from tests.config.test_launch import FUNCTION, LOCAL
from training_services.base import Gang, GangRole

COMMAND = LOCAL + "trialCommand: python3 train.py\n"


@pytest.mark.parametrize("processes", ["4", "gpu", "cpu", "auto"])
def test_the_number_of_processes(load: Load, processes: str) -> None:
    config = load(COMMAND + f"gang: {{processes: {processes}}}\nmaxRetries: {{userError: 2}}\n").config
    assert config.gang_of_trials() == Gang(processes=processes, max_restarts=2)
    assert load(COMMAND).config.gang_of_trials() is None


@pytest.mark.parametrize("processes", ["0", "2000", "many", "1.5"])
def test_what_is_no_number_is_refused(faults: Faults, processes: str) -> None:
    (fault,) = faults(COMMAND + f"gang: {{processes: {processes}}}\n")
    assert fault.startswith("exp.yml:9:8: gang.processes: must be a whole number from 1 to 1024, or ")


def test_it_cannot_be_used_together_with_resident(load: Load, faults: Faults) -> None:
    gang = FUNCTION + "preload: [torch]\ngang: {processes: 2}\n"
    load(gang)
    found = faults(gang + "resident: true\n")
    assert "exp.yml:11:1: resident: cannot be used together with gang: leave one of them out" in found


def test_roles_cannot_be_used_together_with_preload(faults: Faults) -> None:
    roles = "gang: {sameHost: true, roles: {main: {replicas: 1}, worker: {replicas: 1}}}\n"
    found = faults(FUNCTION + "preload: [torch]\n" + roles)
    assert (
        "exp.yml:9:1: preload: cannot be used together with gang.roles, which have commands of their own"
        in found
    )


def test_a_command_that_starts_processes_itself_gets_a_warning(load: Load) -> None:
    (warning,) = load(LOCAL + "trialCommand: torchrun train.py\ngang: {processes: 2}\n").warnings
    assert "torchrun starts further processes" in str(warning)


REMOTE = """
searchSpace: {x: {_type: uniform, _value: [0, 1]}}
trialConcurrency: 1
goal: maximize
tuner: {name: Random}
trialCommand: python3 train.py
trainingService:
  platform: remote
  machineList: [{host: gpu-1, gangAddress: 10.0.0.5}, {host: gpu-2}]
"""

HOLD = timedelta(seconds=60 + 30 + 60)  # growAfter, saveWithin, and a minute for the rest


def test_members_on_several_machines(load: Load) -> None:
    config = load(REMOTE + "gang: {nodes: 2, processes: gpu}\n").config
    assert config.gang_of_trials() == Gang(processes="gpu", max_restarts=0, nodes=2)
    alone = load(REMOTE + "gang: {nodes: 2}\n").config
    assert alone.gang_of_trials() == Gang(processes=None, max_restarts=0, nodes=2)


@pytest.mark.parametrize("nodes", ["2:4", '"2:4"', '"02:4"'])
def test_a_number_of_members_that_may_vary(load: Load, nodes: str) -> None:
    config = load(REMOTE + f"gang: {{nodes: {nodes}}}\n").config
    assert config.canonical()["gang"]["nodes"] == "2:4"
    expected = Gang(processes=None, max_restarts=0, nodes=4, least_nodes=2, hold_more=HOLD)
    assert config.gang_of_trials() == expected
    assert config.limits().members == MemberRange(least=2, most=4)


def test_the_time_before_a_trial_gets_more_members(load: Load) -> None:
    config = load(REMOTE + 'gang: {nodes: "1:2", growAfter: 10m}\n').config
    assert config.limits().members == MemberRange(least=1, most=2, grow_after=timedelta(minutes=10))
    gang = config.gang_of_trials()
    assert gang is not None and gang.hold_more == HOLD + timedelta(minutes=9)


def test_a_range_of_one_number_is_this_number(load: Load) -> None:
    config = load(REMOTE + 'gang: {nodes: "2:2"}\n').config
    assert config.canonical()["gang"]["nodes"] == 2 and config.limits().members is None


def test_members_beside_each_other(load: Load) -> None:
    config = load(COMMAND + "gang: {nodes: 3, sameHost: true}\n").config
    assert config.gang_of_trials() == Gang(processes=None, max_restarts=0, nodes=3, same_host=True)


@pytest.mark.parametrize(
    ("base", "gang", "said"),
    [
        (REMOTE, '{nodes: "4:2"}', "gang.nodes: must have 1 <= MIN <= MAX and 2 <= MAX <= 256, not '4:2'"),
        (REMOTE, '{nodes: "0:2"}', "gang.nodes: must have 1 <= MIN <= MAX and 2 <= MAX <= 256, not '0:2'"),
        (REMOTE, '{nodes: "1:1"}', "gang.nodes: must have 1 <= MIN <= MAX and 2 <= MAX <= 256, not '1:1'"),
        (REMOTE, '{nodes: "2:300"}', "gang.nodes: must have 1 <= MIN <= MAX and 2 <= MAX <= 256, not "),
        (REMOTE, '{nodes: "2-4"}', "or a range MIN:MAX such as \"2:4\", not '2-4'; leave it out"),
        (REMOTE, "{nodes: 1}", "gang.nodes: must be a whole number from 2 to 256, or a range MIN:MAX"),
        (REMOTE, '{nodes: "3:4"}', "gang.nodes: needs 3 machines, and machineList has 2"),
        (REMOTE, "{nodes: 3}", "gang.nodes: needs 3 machines, and machineList has 2"),
        (REMOTE, "{nodes: 2, growAfter: 60s}", "gang: 'growAfter' needs a range of 'nodes', such as \"2:4\""),
        (REMOTE, '{nodes: "1:2", growAfter: soon}', "gang.growAfter: "),
        (REMOTE, "{}", "gang: needs processes, nodes or roles"),
        (
            COMMAND,
            "{nodes: 2}",
            "gang.nodes: needs several hosts, and platform: local has one",
        ),
        (COMMAND, "{processes: 2, sameHost: true}", "gang.sameHost: needs nodes"),
        (COMMAND, "{processes: 2, exitBarrier: 1m}", "gang.exitBarrier: needs nodes"),
        (COMMAND, "{nodes: 2, sameHost: true, exitBarrier: 0s}", "gang.exitBarrier: '0s' is not longer"),
        (
            COMMAND + "multiPhase: true\n",
            "{nodes: 2, sameHost: true}",
            "cannot be used together with multiPhase",
        ),
    ],
)
def test_nodes_that_cannot_be_are_refused(faults: Faults, base: str, gang: str, said: str) -> None:
    (fault,) = faults(base + f"gang: {gang}\n")
    assert said in fault


CLUSTER = COMMAND.replace("{platform: local}", "{platform: kubernetes, image: python}")


@pytest.mark.parametrize(("nodes", "least"), [("2", None), ('"1:2"', 1)])
def test_members_in_pods(load: Load, nodes: str, least: int | None) -> None:
    config = load(CLUSTER + f"gang: {{nodes: {nodes}}}\n").config
    hold = None if least is None else HOLD
    expected = Gang(processes=None, max_restarts=0, nodes=2, least_nodes=least, hold_more=hold)
    assert config.gang_of_trials() == expected


@pytest.mark.parametrize(
    ("base", "gang", "said"),
    [
        (
            CLUSTER.replace("image: python", "image: python, reuseMode: true"),
            "{nodes: 2}",
            "gang.nodes: needs a pod of its own for each member: set reuseMode: false",
        ),
        (CLUSTER, "{nodes: 2, sameHost: true}", "gang.sameHost: is not needed with pods"),
    ],
)
def test_what_pods_cannot_do_is_refused(faults: Faults, base: str, gang: str, said: str) -> None:
    (fault,) = faults(base + f"gang: {gang}\n")
    assert said in fault


ROLES = "{roles: {main: {command: ./main}, worker: {replicas: 2, cpuNumber: 2, image: lab/w}}}"


def test_members_of_several_roles(load: Load) -> None:
    config = load(CLUSTER + f"gang: {ROLES}\n").config
    gang = config.gang_of_trials()
    assert gang is not None and (gang.nodes, gang.least, gang.sizes_of_roles) == (3, 3, "main:1,worker:2")
    assert gang.roles[0] == GangRole(name="main", command="./main")
    assert gang.roles[1] == GangRole(name="worker", replicas=2, cpus=2, image="lab/w")
    roles = [gang.role_of(member) for member in range(3)]
    assert roles == [gang.roles[0], gang.roles[1], gang.roles[1]] and config.limits().members is None
    assert read_canonical(config.canonical()).gang == config.gang


@pytest.mark.parametrize(
    ("gang", "said"),
    [
        ("{nodes: 2, roles: {a: {}, b: {}}}", "gang: 'nodes' and 'roles' exclude each other"),
        ("{roles: {a: {}}}", "gang: 'roles' must have 2 to 256 members together, not 1"),
        ("{roles: {}}", "gang.roles: "),
        ("{roles: {a b: {}, c: {}}}", "gang: 'roles': the name 'a b' must be a letter, and then letters"),
        ("{roles: {a: {replicas: 0}, b: {replicas: 2}}}", "gang.roles.a.replicas: "),
        ("{roles: {a: {image: 'a b'}, b: {}}}", "gang.roles.a.image: 'a b' is not the name of an image"),
        ("{roles: {a: {gpuNumber: 0.5}, b: {}}}", "gang.roles.a.gpuNumber: 0.5 of a GPU is not possible"),
        ("{roles: {a: {comand: x}, b: {}}}", "did you mean 'command'?"),
    ],
)
def test_roles_that_cannot_be_are_refused(faults: Faults, gang: str, said: str) -> None:
    (fault,) = faults(CLUSTER + f"gang: {gang}\n")
    assert said in fault


def test_roles_on_machines_differ_only_in_their_commands(load: Load, faults: Faults) -> None:
    roles = "{roles: {a: {command: ./a}, b: {command: ./b}}, sameHost: true}"
    config = load(COMMAND + f"gang: {roles}\n").config
    gang = config.gang_of_trials()
    assert gang is not None and [gang.command_of(member) for member in range(2)] == ["./a", "./b"]
    assert config.members[0].own_needs is None
    found = faults(REMOTE + f"gang: {ROLES}\n")
    assert [fault.partition(": ")[2].partition(": ")[0] for fault in found] == [
        "gang.roles.worker.cpuNumber",
        "gang.roles.worker.image",
        "gang.roles",
    ]


def test_other_platforms_are_refused(faults: Faults) -> None:
    service = "{platform: ask}"
    found = faults(COMMAND.replace("{platform: local}", service) + "gang: {nodes: 2}\n")
    assert any(
        'cannot be used on the platform "ask": only with remote, kubernetes' in fault for fault in found
    )


@pytest.mark.parametrize(
    ("given", "seconds"), [("", 300), (", exitBarrier: 90", 90), (", exitBarrier: 2h", 7200)]
)
def test_members_have_time_to_end_after_their_leader(load: Load, given: str, seconds: int) -> None:
    config = load(COMMAND + f"gang: {{nodes: 2, sameHost: true{given}}}\n").config
    assert config.limits().exit_barrier == timedelta(seconds=seconds)
