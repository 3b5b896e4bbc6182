"""All attempts of a keeper, and the effects (orders to the keeper's host) that wait to be carried out."""

from __future__ import annotations

from trial_keeper.core import effects as fx

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator

    from trial_keeper.core.attempt import Attempt
    from trial_keeper.core.effects import Effect


class Held:
    """All attempts of the keeper, by job id.

    ``out`` collects the effects to carry out now. ``put_off`` adds an effect to carry out later.
    """

    def __init__(self, attempts: dict[str, Attempt], boot_id: str) -> None:
        self.attempts = attempts
        self.boot_id = boot_id
        self.out: list[Effect] = []
        self._later: list[tuple[float, Effect]] = []

    def unsealed(self, job: str) -> Attempt | None:
        """Return the attempt of this job; None if the attempt is unknown or sealed."""
        attempt = self.attempts.get(job)
        return attempt if attempt is not None and attempt.live else None

    def undecided(self, job: str) -> Attempt | None:
        """Return the attempt of this job; None if the attempt is unknown, sealed or about to be sealed."""
        attempt = self.unsealed(job)
        return None if attempt is None or attempt.sealing else attempt

    def live(self) -> list[Attempt]:
        """Return all attempts that are not sealed."""
        return [attempt for attempt in self.attempts.values() if attempt.live]

    def here(self, attempt: Attempt) -> bool:
        """Return whether the attempt was ordered for the present boot of the host."""
        return attempt.boot_id == self.boot_id

    def look(self, attempt: Attempt) -> None:
        """Order the attempt's claim file to be read and its shim to be checked."""
        self.out.append(fx.Look(attempt.job, attempt.directory, attempt.shim))

    def put_off(self, at: float, effect: Effect) -> None:
        """Order ``effect`` for the time ``at``. The effect is dropped if its attempt has ended by then."""
        self._later.append((at, effect))

    def release(self, now: float) -> None:
        """Order the delayed effects whose time has come."""
        due = [effect for at, effect in self._later if at <= now]
        self._later = [(at, effect) for at, effect in self._later if at > now]
        self.out += [self._renewed(effect) for effect in due if self._wanted(effect)]

    def _renewed(self, effect: Effect) -> Effect:
        """Return the effect, or a look at the shim if one has claimed the attempt since the delay began.

        Without the shim's name, an attempt whose claim file is damaged would be taken for dead.
        """
        attempt = self.attempts[str(effect[0])]
        if attempt.shim is None or not isinstance(effect, (fx.Abort, fx.Look)):
            return effect
        return fx.Look(attempt.job, attempt.directory, attempt.shim)

    def _wanted(self, effect: Effect) -> bool:
        attempt = self.attempts.get(str(effect[0]))  # every delayed effect has the job as its first field
        return attempt is not None and not (isinstance(effect, fx.Signal) and attempt.sealing)

    def times(self) -> Iterator[float]:
        """Return an iterator over the times of the delayed effects."""
        return (at for at, _ in self._later)
