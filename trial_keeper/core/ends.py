"""Decides how an attempt's end is reported: its reason, its cause, and a sentence that explains it."""

from __future__ import annotations

from trial_keeper import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trial_keeper.core.attempt import Attempt
    from trial_keeper.wire import Final

DOUBT_S = 2.0  # longest delay of the report of an end by SIGTERM, on a host that may be ended by SIGTERM
_ORPHANED = "the keeper had not heard from the server for too long"
_EVICTED = "its host was stopped"
_TERMINATED = (15, 128 + 15)  # SIGTERM, as a signal and as an exit code of a shell
_RAN = "the claim file was removed, and the metrics show that the command had been started"


def _terminated(code: int | None, signal: int | None) -> bool:
    """Return whether SIGTERM has ended the command, which may be a shell that ran another one."""
    return (signal or code) in _TERMINATED


def final_of(attempt: Attempt, *, size: int, at: float, here: bool) -> Final:
    """Return how the attempt ended, for the report to the server. Call this after all frames are counted.

    ``size``: number of bytes in the metrics file. ``at``: time of the end if the claim file does not
    state it. ``here``: the attempt ran in the present boot of the host, so the metrics file is complete.
    """
    final = _end(attempt, size=size, at=at, here=here)
    cause = _cause_of(attempt, final["reason"])
    if cause is not None:
        final["cause"] = cause
    if attempt.exit is not None and attempt.exit.unreached and final["reason"] == "exited":
        final["unreached"] = True
    return final


def _cause_of(attempt: Attempt, reason: str | None) -> str | None:
    """Return the cause of an end with this reason; None if the reason and the exit code show it."""
    if attempt.evicted and reason == wire.HOST_LOST:
        return wire.PREEMPTED
    found = attempt.exit
    if reason != "exited":
        return None
    if found is None:  # the shim was killed, or its claim was removed: the command is not to blame
        return wire.INFRASTRUCTURE
    if found.out_of_memory:
        return wire.OUT_OF_MEMORY
    if found.unreached:
        return wire.INFRASTRUCTURE
    return wire.INFRASTRUCTURE if found.signalled else None  # somebody else has stopped the shim


def _end(attempt: Attempt, *, size: int, at: float, here: bool) -> Final:
    found = attempt.exit
    final: Final = {
        "reason": attempt.verdict,
        "code": None,
        "signal": None,
        "n": attempt.tally_position,
        "at": at,
        "message": attempt.cause,
    }
    stopped, why = _stopping(attempt)
    if attempt.verdict == "never_started" and attempt.tally_position:
        ran = "exited" if attempt.stop is None else stopped
        final["reason"] = ran if here else wire.HOST_LOST
        final["message"] = _RAN
    elif why is not None and attempt.verdict == "never_started":
        final["reason"] = stopped
        final["message"] = why
    if attempt.verdict is not None:
        return final
    if found is None:
        final["reason"] = "exited" if attempt.stop is None else stopped
        return final
    if not here and size < found.size:
        final["reason"] = wire.HOST_LOST
        final["message"] = "the host was restarted and has lost a part of the metrics"
        return final
    remarks = [found.message] if found.message else []
    if found.survivors:
        remarks.append(f"processes that could not be killed: {', '.join(map(str, found.survivors))}")
    if found.signalled and attempt.stop is None:
        remarks.append("the shim got SIGTERM, but not from its keeper")
    reason = "exited"
    # SIGTERM may go to the command before it goes to the shim, if it goes to all processes of the host.
    ended = found.signalled or (attempt.evicted and _terminated(found.code, found.signal))
    if ended and attempt.stop is not None:
        reason = stopped
        remarks[:0] = filter(None, [why])
    if found.lapsed:
        reason = wire.LEASE
    return {
        "reason": reason,
        "code": found.code,
        "signal": found.signal,
        "n": attempt.tally_position,
        "at": found.at,
        "message": "; ".join(remarks) or None,
    }


def note_losses(attempt: Attempt) -> None:
    """Change the attempt's end to "host lost" if metrics were lost on disk before the server got them."""
    final = attempt.final
    if final is not None and attempt.position < final["n"] and attempt.acked < final["n"]:
        attempt.final = {
            **final, "reason": wire.HOST_LOST, "n": attempt.position, "cause": wire.INFRASTRUCTURE,
            "message": f"{final['n'] - attempt.position} metrics were lost on disk after the attempt's end",
        }  # fmt: skip


def note_eviction(attempt: Attempt) -> bool:
    """Change the end of an attempt to "host lost" if SIGTERM to all processes of the host has caused it.

    Call this when the host shuts down. The server has not confirmed the end yet. Return whether it was
    changed.
    """
    final = attempt.final
    if final is None or attempt.stop is not None or final["reason"] != "exited":
        return False
    signalled = attempt.exit is not None and attempt.exit.signalled
    if not signalled and not _terminated(final["code"], final["signal"]):
        return False
    attempt.evicted = True
    attempt.final = {**final, "reason": wire.HOST_LOST, "message": _EVICTED, "cause": wire.PREEMPTED}
    return True


def doubt(attempt: Attempt, now: float) -> float | None:
    """Return the time until which this end is not reported, because the host may be about to shut down.

    Return None if it can be reported now. A batch system, and some container runtimes, send SIGTERM to all
    processes at once. The command may end before the keeper knows why. The wait begins with the first call,
    which records its end in ``doubted_until``.
    """
    found = attempt.exit
    if found is None or found.lapsed or attempt.stop is not None:
        return None
    if not (found.signalled or _terminated(found.code, found.signal)):
        return None
    if attempt.doubted_until is None:
        attempt.doubted_until = now + DOUBT_S
    return attempt.doubted_until if now < attempt.doubted_until else None


def _stopping(attempt: Attempt) -> tuple[str, str | None]:
    """Return the reason to report for a stopped attempt, and a sentence that explains the stop.

    The sentence is None if the server has ordered the stop.
    """
    if attempt.evicted:
        return wire.HOST_LOST, _EVICTED
    if attempt.orphaned:
        return wire.LEASE, _ORPHANED
    return "stopped", None
