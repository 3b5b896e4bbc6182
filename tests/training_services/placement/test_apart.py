"""Hosts that could not reach each other are not given to one gang together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from tests.training_services.placement.test_gangs import HOSTS, TWO, made, need
from training_services.placement.apart import Apart
from training_services.placement.gang import GangWants, Refused, choose_hosts

ASH, ELM, OAK = HOSTS


def chosen(apart: Apart, wants: GangWants = TWO, hosts: Sequence[int] = (0, 1, 2)) -> list[str] | Refused:
    asked = [(need("aaaaa"), HOSTS[index]) for index in hosts]
    found = choose_hosts(wants, asked, made().fits, apart.between)
    return found if isinstance(found, Refused) else [asked[index][1].id for index, _ in found]


def in_a_loop(test: Callable[[Apart], None]) -> None:
    async def run() -> None:
        apart = Apart(lambda: None)
        test(apart)
        apart.close()

    asyncio.run(run())


def test_other_hosts_are_chosen() -> None:
    def test(apart: Apart) -> None:
        assert chosen(apart) == ["ash", "elm"]
        apart.part(ASH, ELM)
        assert chosen(apart) == ["ash", "oak"]
        assert apart.why_waits(TWO, [(need("aaaaa"), host) for host in HOSTS]) is None

    in_a_loop(test)


def test_a_host_that_reaches_no_other_one_is_left_out() -> None:
    def test(apart: Apart) -> None:
        apart.part(ASH, ELM)
        apart.part(OAK, ASH)
        assert chosen(apart) == ["elm", "oak"]

    in_a_loop(test)


def test_a_bound_leader_stays_first() -> None:
    def test(apart: Apart) -> None:
        apart.part(ASH, ELM)
        assert chosen(apart, GangWants(least=2, most=2, bound=True)) == ["ash", "oak"]

    in_a_loop(test)


def test_a_gang_waits_if_no_other_hosts_are_there() -> None:
    def test(apart: Apart) -> None:
        apart.part(ASH, ELM)
        refused = chosen(apart, hosts=(0, 1))
        assert isinstance(refused, Refused) and refused.free == 1
        waits = apart.why_waits(TWO, [(need("aaaaa"), host) for host in (ASH, ELM)])
        assert waits is not None and waits.reason == (
            "waits for 2 hosts that reach each other: ash and elm could not reach each other, and are not "
            "tried together for 10 minutes after that: open ports 20000 to 29999 between them, or set "
            "gangAddress"
        )

    in_a_loop(test)


def test_members_beside_each_other_need_no_network() -> None:
    def test(apart: Apart) -> None:
        apart.part(ASH, ELM)
        apart.part(ASH, ASH)
        wants = GangWants(least=2, most=2, same_host=True)
        assert apart.why_waits(wants, [(need("aaaaa"), host) for host in (ASH, ELM)]) is None

    in_a_loop(test)


def test_pairs_are_tried_again_after_some_time() -> None:
    async def run() -> None:
        over = asyncio.Event()
        apart = Apart(over.set, seconds=0.0)
        apart.part(ASH, ELM)
        apart.part(ELM, ASH)
        assert apart.between(ASH, ELM) is not None
        await over.wait()
        assert apart.between(ASH, ELM) is None
        apart.close()

    asyncio.run(run())


@pytest.mark.parametrize("least", [1, 2])
def test_a_gang_of_any_size_takes_what_reaches_each_other(least: int) -> None:
    def test(apart: Apart) -> None:
        apart.part(ELM, OAK)
        assert chosen(apart, GangWants(least=least, most=3)) == ["ash", "elm"]

    in_a_loop(test)
