"""Run: an experiment that was started, here or by another program."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nnimgr.client.experiments import (
    ENDED,
    dashboard_address,
    ended_if_refused,
    events_to_the_end,
    resume_experiment,
    server_for,
    stop_experiment,
)
from nnimgr.home import Home
from nnimgr.python.arguments import checks_arguments
from nnimgr.python.connection import Connection
from nnimgr.python.errors import Error, translated, warn, with_calls
from nnimgr.python.interrupts import without_traceback
from nnimgr.python.options import Show, algorithm_field, conditions_of, duration_of
from nnimgr.python.results import Results
from nnimgr.python.trials import Trial, Trials

if TYPE_CHECKING:
    from nnimgr.client.calls import Event
    from nnimgr.python.notebook import NotebookView

__all__ = ["KEEP", "Run"]


class _Keep:
    """Type of KEEP, which stands for "not given" where None has a meaning."""

    def __repr__(self) -> str:
        return "KEEP"


KEEP = _Keep()
_FIELDS = {
    "trials": "maxTrialNumber",
    "at_once": "trialConcurrency",
    "hours": "maxExperimentDuration",
    "space": "searchSpace",
    "constraints": "searchSpaceConstraints",
    "stop": "stopWhen",
    "tuner": "tuner",
}


class Run:
    """Experiment that was started. It continues when the Python program ends::

        run = Run.attach("my-search")
        print(run.status, run.now)
        results = run.wait()

    ``id``: the experiment's id. ``trials``: its trials.
    """

    def __init__(self, connection: Connection, *, after: int | None = None, ended: str = "") -> None:
        """Create the object. ``after``: event after which ``wait`` begins. None: with the present state.

        ``ended``: sentence for the first ``wait`` if the experiment had ended before it was started again.
        """
        self._connection = connection
        self._after = after
        self._ended = ended
        self._view: NotebookView | None = None
        self.id = connection.id
        self.trials = Trials(connection)

    def __repr__(self) -> str:
        return f"<Run {self.id}: {self.now}>"

    def _ipython_display_(self) -> None:
        """Show the run live in a notebook. Raise NotImplementedError in a terminal, which shows the repr."""
        from nnimgr.python.show import in_notebook

        if not in_notebook():
            raise NotImplementedError
        self._shown().show()
        self._shown().follow()

    def _shown(self) -> NotebookView:
        """Return the run's view for a notebook."""
        from nnimgr.python.notebook import NotebookView

        if self._view is None:
            self._view = NotebookView(self, self._connection)
        return self._view

    @classmethod
    def attach(cls, word: str) -> Run:
        """Return the experiment with this id, name or beginning of an id. It may run, or be stopped."""
        from nnimgr.cli.selection import converted, select

        home = Home.find()
        with translated():
            return cls(Connection(home, converted(home, select(home, word)).id))

    @property
    def name(self) -> str:
        return self._connection.entry().name

    @property
    def status(self) -> str:
        """RUNNING, DRAINING (no new trials start), DONE, STOPPED, ERROR, INITIALIZED or VIEWED."""
        return str(self._connection.get()["status"])

    @property
    def now(self) -> str:
        """One sentence: what the experiment does at this moment, or why it does nothing."""
        return with_calls(str(self._connection.get()["now"]))

    @property
    def url(self) -> str:
        """Address of the dashboard, with a code that logs one browser in."""
        client = self._connection.client()
        with translated():
            return str(dashboard_address(client, self.id)["url"])

    @checks_arguments
    def wait(self, timeout: float | None = None, *, show: Show = "auto") -> Results:
        """Wait until the experiment has ended, and return its results.

        Raise TimeoutError after ``timeout`` seconds, and Error if the experiment ends with an error. Neither
        these errors nor Ctrl-C stop the experiment. The next call shows what has happened since then.
        """
        try:  # from the beginning, because the imports take time, too
            from nnimgr.cli.report import report
            from nnimgr.cli.watch import follow
            from nnimgr.python.show import Followed, screen_of

            client = self._connection.client()
            if self._ended and show != "nothing":
                sys.stdout.write(f"{self._ended}\n")
            self._ended = ""
            with translated(), screen_of(show, self._shown) as (screen, terminal):
                if self._after is None:
                    self._after = int(client.get("experiments", self.id)["lastNumber"])
                followed = Followed(screen, self._after)
                slow = {"draw_s": 3600.0} if show == "nothing" else {}
                try:
                    progress = follow(
                        client,
                        self.id,
                        screen=contextlib.nullcontext(followed),
                        after=self._after,
                        limit_s=timeout,
                        **slow,
                    )
                finally:
                    self._after = followed.after
        except KeyboardInterrupt as interrupt:
            self._say_how_to_come_back()
            without_traceback(interrupt)
            raise
        if progress.status == "ERROR":
            raise Error(
                with_calls(f"Experiment {self.id} has ended with an error: {progress.reason}"),
                hint=f"Correct it, then: nnimgr.Run.attach({self.id!r}).resume()",
            )
        if terminal is not None:
            with translated():
                again = "start this program again"
                report(progress, client, terminal, again=f"{again} with another name" if self.name else again)
        return self.results()

    def stop(self, *, detach: bool = False, save: bool = False) -> None:
        """Stop the experiment and its trials. ``detach``: its trials continue, without further ones.

        ``save``: running trials are asked to save their state before they end.
        """
        client = self._connection.client()
        with translated():
            stop_experiment(client, self.id, detach=detach, save=save)

    def resume(self) -> None:
        """Continue a stopped experiment. Its limits still hold: see ``update``."""
        entry, port = self._connection.entry(), self._connection.port()
        with translated(), ended_if_refused(self._connection.home, port):
            client, adopted = server_for(self._connection.home, entry, port=port)
            if not adopted:
                resume_experiment(client, entry)
        if self._view is not None:
            self._view.follow()

    def events(self, after: int = 0) -> Iterator[Event]:
        """Yield all events after the number ``after``, until the experiment has ended.

        A program that stores the number of each event with what it makes of the event, and later begins with
        this number, gets each event exactly once, also if the server or the program is killed.
        """
        client = self._connection.client()
        with translated():
            for event in events_to_the_end(self._connection.home, client.port, self.id, after=after):
                if event.number is not None:
                    yield event

    def results(self) -> Results:
        """Return the results so far."""
        return Results(self._connection)

    @checks_arguments
    def update(
        self,
        *,
        trials: int | _Keep | None = KEEP,
        at_once: int | _Keep = KEEP,
        hours: float | _Keep | None = KEEP,
        space: Mapping[str, Any] | _Keep = KEEP,
        constraints: str | Sequence[str] | _Keep | None = KEEP,
        stop: Mapping[str, Any] | _Keep | None = KEEP,
        tuner: str | Mapping[str, Any] | _Keep = KEEP,
    ) -> None:
        """Change the running experiment. None removes a limit. The arguments are those of ``tune``.

        A larger limit also lets an experiment continue that has ended because of it.
        """
        from nnimgr.python.space import plain

        given = {**locals()}
        changes = {field: given[name] for name, field in _FIELDS.items() if given[name] is not KEEP}
        if isinstance(space, Mapping):
            changes["searchSpace"] = plain(space)
        if not isinstance(tuner, _Keep):
            changes["tuner"] = algorithm_field(tuner)
        if hours is not None and not isinstance(hours, _Keep):
            changes["maxExperimentDuration"] = duration_of(hours)
        if constraints is not None and not isinstance(constraints, _Keep):
            changes["searchSpaceConstraints"] = conditions_of(constraints)
        self._connection.change(changes)

    @checks_arguments
    def add(self, parameters: Mapping[str, Any], *, raise_limit: bool = False) -> Trial:
        """Add a trial with these parameters to the running experiment, and return it.

        Parameters that do not fit the search space are used as they are, with a UserWarning.
        ``raise_limit``: if the limit ``trials`` is reached, raise it for this trial.
        """
        body = {"parameters": dict(parameters), **({"raiseLimit": True} if raise_limit else {})}
        added = self._connection.add("trials", body=body)
        for sentence in added["warnings"]:
            warn(f"trial {added['sequence']} was added, but {sentence}")
        return self.trials[str(added["id"])]

    def _say_how_to_come_back(self) -> None:
        word = self.name or self.id
        sys.stdout.write(
            f"\nExperiment {self.id} continues. To come back: nnimgr.Run.attach({word!r}).wait()\n"
            f"  In a terminal: nnictl top {self.id}. To stop it: nnictl stop {self.id}\n"
        )
        sys.stdout.flush()

    @property
    def has_ended(self) -> bool:
        """Whether the experiment has ended, so that its status changes only if a user acts."""
        return self.status in ENDED
