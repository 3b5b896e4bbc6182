"""Pure functions that choose hosts for all members of a gang, or say why it must wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple

from training_services.base import JobRejected, member_id_of
from training_services.placement.choice import S
from training_services.placement.needs import Holding, Host, Need, Waits

__all__ = ["Asked", "GangWants", "Refused", "choose_hosts", "why_gang_waits"]

MOST_NAMED = 3  # machines named in one sentence

Fits = Callable[[Need, Host, Sequence[Holding]], "tuple[int, ...] | Waits"]
Between = Callable[[Host, Host], "Waits | None"]


class Asked(NamedTuple, Generic[S]):
    """Machine that is asked for a place, and what a member needs there."""

    seat: S
    need: Need


@dataclass(frozen=True, slots=True, kw_only=True)
class GangWants:
    """Members that a gang needs: from ``least`` to ``most``, as many as have room. ``same_host``: several may
    run on one host. ``bound``: the leader has to run on the first host that is asked. ``alone``: there is
    only one host, so all members have to fit there.
    """

    least: int
    most: int
    same_host: bool = False
    bound: bool = False
    alone: bool = False

    @property
    def places(self) -> str:
        noun = "place" if self.same_host else "host"
        at_least = "" if self.least == self.most else "at least "
        return f"{at_least}{self.least} {noun}{'' if self.least == 1 else 's'}"


class Refused(NamedTuple):
    """Result of asking for places that a gang does not get. ``free``: number of places that are free.

    ``possible``: number of hosts that are large enough. ``reasons``: why others refuse.
    """

    need: Need | None
    free: int
    possible: int
    reasons: list[Waits]
    rejections: list[JobRejected]


def choose_hosts(
    wants: GangWants, asked: Sequence[tuple[Need, Host]], fits: Fits, between: Between | None
) -> list[tuple[int, tuple[int, ...]]] | Refused:
    """Return the index of a host in ``asked``, and GPUs there, for each member, the leader first: as many
    members as there is room for.

    ``fits`` returns GPUs on a host for one more member, or why it has no room for that member. It gets what
    the members have that are on the host already. ``between`` returns why two hosts cannot have members of
    one gang; None: any two can. Hosts that many others cannot reach are chosen last.
    """
    chosen: list[tuple[int, tuple[int, ...]]] = []
    tentative: dict[str, list[Holding]] = {}
    reasons: list[Waits] = []
    rejections: list[JobRejected] = []
    open_hosts = list(range(len(asked))) if between is None else _by_partners(wants, asked, between)
    while open_hosts and len(chosen) < wants.most:  # one member on each host, then a second one, and so on
        for index in list(open_hosts):
            need, host = asked[index]
            held = tentative.setdefault(host.id, [])
            if between is not None:
                unreached = _unreached(host, [asked[each][1] for each, _ in chosen], between)
                if unreached is not None:
                    reasons.append(unreached)
                    open_hosts.remove(index)
                    continue
            try:
                answer = fits(need, host, held) if wants.same_host or not held else Waits("")
            except JobRejected as rejection:
                rejections.append(rejection)
                open_hosts.remove(index)
                continue
            if isinstance(answer, Waits):
                open_hosts.remove(index)
                reasons += [answer] if not held else []
                if wants.bound and not chosen:
                    return Refused(need, 0, len(asked), reasons, rejections)
                continue
            if len(chosen) < wants.most:
                held.append(replace(need.on(host, answer), job_id=member_id_of(need.job_id, len(chosen))))
                chosen.append((index, answer))
    if len(chosen) >= wants.least:
        # members keep the order of ``asked``, except where several are beside each other
        return chosen if wants.same_host else sorted(chosen)
    first = asked[0][0] if asked else None
    return Refused(first, len(chosen), len(asked) - len(rejections), reasons, rejections)


def _by_partners(wants: GangWants, asked: Sequence[tuple[Need, Host]], between: Between) -> list[int]:
    """Return the indices of the hosts in order: first those that can be together with the most others.

    The host to which the leader is bound stays the first.
    """

    def missing(index: int) -> int:
        if wants.bound and index == 0:
            return -1
        return sum(between(asked[index][1], other) is not None for _, other in asked)

    return sorted(range(len(asked)), key=missing)


def _unreached(host: Host, chosen: Sequence[Host], between: Between) -> Waits | None:
    """Return why the host cannot have a member beside the members on the chosen hosts; None: it can."""
    return next((found for other in chosen if (found := between(other, host)) is not None), None)


def why_gang_waits(wants: GangWants, refused: Refused, hindered: Sequence[Waits], *, seats: int) -> Waits:
    """Return why a gang waits, as a sentence. Raise JobRejected if its members can never run.

    ``hindered``: why other machines cannot be asked now. ``seats``: number of all machines.
    """
    if seats < wants.least and not wants.same_host:
        left = f"the experiment has {seats} {'machine' if seats == 1 else 'machines'} left"
        return Waits(f"waits for {wants.places}: {left}. See: nnictl machine add")
    need = refused.need
    each = "" if need is None or need.nothing else f" with {need} each"
    possible = refused.possible + len(hindered)
    if refused.rejections and possible < (1 if wants.same_host else wants.least):
        raise JobRejected(
            f"The trial needs {wants.places}{each}, but only {possible} of its {seats} machines "
            f"{'is' if possible == 1 else 'are'} large enough. {refused.rejections[0]}"
        )
    free = refused.free
    told = dict.fromkeys(waits.reason for waits in (*refused.reasons, *hindered))
    named = "".join(f"; {reason}" for reason in list(told)[:MOST_NAMED])
    return Waits(f"waits for {wants.places}{each}: {free} {'is' if free == 1 else 'are'} free{named}")
