"""NNI's Python API for experiments: start, watch, change and stop an experiment from a script or notebook."""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nni.experiment.config import ExperimentConfig
from nni.experiment.data import TrialJob, TrialMetricData, TrialResult
from nnimgr.client import experiments
from nnimgr.client.errors import ClientError
from nnimgr.client.servers import DEFAULT_PORT, ServerStart, answering, connect, has_left
from nnimgr.home import Home, HomeError
from nnimgr.index import Index, IndexEntry, check_experiment_id, new_experiment_id

if TYPE_CHECKING:
    from nnimgr.cli.progress import Progress
    from nnimgr.client.calls import Client
    from nnimgr.config import Loaded, Problem

__all__ = ["Experiment", "RunMode"]

_UPDATE_TYPES = {
    "trialConcurrency": "TRIAL_CONCURRENCY",
    "maxExperimentDuration": "MAX_EXEC_DURATION",
    "searchSpace": "SEARCH_SPACE",
    "maxTrialNumber": "MAX_TRIAL_NUM",
}


class RunMode(Enum):
    """What happens to the experiment when the Python script ends, and whether its events are printed."""

    Background = "background"  # the end of the script stops the experiment
    Foreground = "foreground"  # like Background, and the experiment's events are printed
    Detach = "detach"  # the experiment continues after the script


class Experiment:
    """One experiment.

    ``config``: the configuration, which may be changed until the start. ``id``: the experiment's id.
    ``port``: the port of the server and its dashboard, None while the experiment is not open.
    ``url_prefix``: prefix of NNI's routes, set before the start::

        experiment = Experiment("local")
        experiment.config.trial_command = "python train.py"
        experiment.config.search_space = {"lr": {"_type": "loguniform", "_value": [1e-4, 0.1]}}
        experiment.config.tuner.name = "TPE"
        experiment.config.trial_concurrency = 2
        experiment.config.max_trial_number = 20
        experiment.run(8080)
        print(max(experiment.export_data(), key=lambda result: result.value))

    Methods raise ClientError, a RuntimeError, if the server refuses a request.
    """

    def __init__(
        self,
        config_or_platform: ExperimentConfig | str | list[str] | None = None,
        id: str | None = None,
    ) -> None:
        """Prepare a new experiment. If only an ``id`` is given, prepare to resume or view that experiment.

        For a platform or a list of platforms, create a configuration whose fields can then be set. Raise
        ValueError if the id is not valid.
        """
        if isinstance(config_or_platform, (str, list)):
            config_or_platform = ExperimentConfig(config_or_platform)
        self.config: ExperimentConfig | None = config_or_platform
        self._home = Home.find()
        self.id: str = (
            new_experiment_id(Index(self._home).entries()) if id is None else check_experiment_id(id)
        )
        self.port: int | None = None
        self.url_prefix: str | None = None
        self._after = 0  # number of the last event before the experiment was opened
        self._run_mode = RunMode.Background

    def run(
        self,
        port: int = DEFAULT_PORT,
        wait_completion: bool = True,
        debug: bool = False,
        run_mode: RunMode = RunMode.Background,
    ) -> bool | None:
        """Start the experiment and wait for its end.

        Return True when the experiment is done or stopped, False after an error, and None without
        ``wait_completion`` or after Ctrl-C, which stops the experiment. A finished experiment stays open
        until ``stop`` or the end of the script.
        """
        self.start(port, debug, run_mode)
        return self._wait() if wait_completion else None

    def start(
        self, port: int = DEFAULT_PORT, debug: bool = False, run_mode: RunMode = RunMode.Background
    ) -> None:
        """Start the experiment. First start the server of ``port`` if it does not run yet.

        Raise ValueError with every error of the configuration, and ClientError if the start fails.
        """
        if self.config is None:
            raise ClientError(f"Experiment {self.id} has no configuration: set Experiment.config first.")
        experiments.refuse_nni()
        loaded = _loaded(self.config, debug=debug)
        canonical = loaded.config.canonical()
        space = canonical.pop("searchSpace")
        body = {"config": canonical, "searchSpace": space, "id": self.id, **experiments.surroundings()}
        with _readable():
            _say("Creating experiment, Experiment ID: %s", self.id)
            with ServerStart(self._home, port, url_prefix=self.url_prefix) as start:
                if start.starts:
                    _say("Starting web server...")
                client = start.client()
            _say("Setting up...")
            client = experiments.post_experiment(self._home, client, body, url_prefix=self.url_prefix)
        self._opened(client, run_mode, after=0)

    def resume(
        self: Experiment | str,
        port: int = DEFAULT_PORT,
        wait_completion: bool = True,
        debug: bool = False,
        run_mode: RunMode = RunMode.Background,
    ) -> Any:
        """Continue this experiment, which was stopped or is done, and wait for its end.

        ``Experiment.resume("id")``, as in NNI 2, returns the experiment if ``wait_completion`` is False.
        """
        if isinstance(self, str):
            experiment = Experiment(id=self)
            experiment.resume(port, wait_completion, debug, run_mode)
            return None if wait_completion else experiment
        entry = self._entry()
        with _readable():
            client, adopted = experiments.server_for(self._home, entry, port=port, url_prefix=self.url_prefix)
            after = int(client.get("experiments", entry.id)["lastNumber"])
            _say("Resuming experiment, Experiment ID: %s", self.id)
            if not adopted:
                experiments.resume_experiment(client, entry)
        self._opened(client, run_mode, after=after)
        return self._wait() if wait_completion else None

    def view(self: Experiment | str, port: int = DEFAULT_PORT, non_blocking: bool = False) -> Experiment:
        """Open this stopped experiment for reading, in the dashboard and by this object. It does not run.

        Wait for Ctrl-C, which ends the view, unless ``non_blocking``. Return this object.
        ``Experiment.view("id")`` is the form of NNI 2.
        """
        if isinstance(self, str):
            experiment = Experiment(id=self)
            return experiment.view(port, non_blocking)
        entry = self._entry()
        with _readable():
            client, _ = experiments.server_for(self._home, entry, port=port, url_prefix=self.url_prefix)
            experiments.view_experiment(client, entry)
        self._opened(client, RunMode.Background, after=0)
        if not non_blocking:
            try:
                threading.Event().wait()
            except KeyboardInterrupt:
                self.stop()
        return self

    def run_or_resume(
        self,
        port: int = DEFAULT_PORT,
        wait_completion: bool = True,
        debug: bool = False,
        run_mode: RunMode = RunMode.Background,
    ) -> bool | None:
        """Resume the experiment if it exists, else run it. Return False on error, None without a wait."""
        if self.has_checkpoint():
            found: bool | None = self.resume(port, wait_completion, debug, run_mode)
            return found
        return self.run(port, wait_completion, debug, run_mode)

    def stop(self) -> None:
        """Stop the experiment and its trials. The server exits if no other experiment is active."""
        atexit.unregister(self.stop)
        if self.port is None or experiments.is_stopped(self._home, self.id):
            self.port = None
            return
        _say("Stopping experiment, please wait...")
        port, self.port = self.port, None
        with _readable():
            server = self._home.server_running(port)
            client = connect(self._home, port)
            answer = experiments.stop_experiment(client, self.id)
            if answer["serverLeaves"]:
                has_left(server)
        for sentence in answer.get("left", ()):
            _logger().warning("Something may be left: %s.", sentence)
        _say("Experiment stopped")

    @classmethod
    def connect(cls, port: int) -> Experiment:
        """Return the running experiment of the server on a port. It continues after the end of the script.

        If several run, return the one that the server shows to NNI clients, which know only one. Raise
        ClientError if no server runs on the port.
        """
        experiment = cls()
        with _readable():
            client = answering(experiment._home, port)
            if client is None:
                raise ClientError(
                    f"No server runs on port {port}.", mend="See the experiments: nnictl experiment list"
                )
            experiment.url_prefix = client.get("server").get("urlPrefix")
            profile = client.for_nni(None, prefix=experiment.url_prefix).get("experiment")
        experiment.id, experiment.port = profile["id"], port
        experiment.load_checkpoint()
        status = experiment.get_status()
        _say("Connect to port %d success, experiment id is %s, status is %s.", port, experiment.id, status)
        return experiment

    def get_status(self) -> str:
        """Return the experiment's status under NNI's name, such as "RUNNING" or "DONE"."""
        return str(self._nni().get("check-status")["status"])

    def get_trial_job(self, trial_job_id: str) -> TrialJob:
        """Return the trial with this id. Raise ClientError if there is no such trial."""
        return TrialJob(**self._nni().get("trial-jobs", trial_job_id))

    def list_trial_jobs(self) -> list[TrialJob]:
        """Return all trials of the experiment."""
        return [TrialJob(**trial) for trial in self._nni().get("trial-jobs")]

    def get_job_statistics(self) -> list[dict[str, Any]]:
        """Return the number of trials for each status, as dicts of trialJobStatus and trialJobNumber."""
        return list(self._nni().get("job-statistics"))

    def get_job_metrics(self, trial_job_id: str | None = None) -> dict[str, list[TrialMetricData]]:
        """Return the metrics of one trial, or of all trials: the trial's id -> its metrics."""
        path = ("metric-data",) if trial_job_id is None else ("metric-data", trial_job_id)
        found: dict[str, list[TrialMetricData]] = {}
        for metric in self._nni().get(*path):
            found.setdefault(metric["trialJobId"], []).append(TrialMetricData(**metric))
        return found

    def get_experiment_profile(self) -> dict[str, Any]:
        """Return a dict with the experiment's state in NNI's form: id, params, startTime, ..."""
        return dict(self._nni().get("experiment"))

    def get_experiment_metadata(self, exp_id: str) -> dict[str, Any]:
        """Return an experiment's entry in nnimgr's list of experiments, or {} if the id is unknown."""
        return next((each for each in self.get_all_experiments_metadata() if each["id"] == exp_id), {})

    def get_all_experiments_metadata(self) -> list[dict[str, Any]]:
        """Return nnimgr's list of this user's experiments, one dict for each."""
        return list(self._nni().get("experiments-info"))

    def export_data(self) -> list[TrialResult]:
        """Return the final results of all trials that have a final result."""
        return [TrialResult(**result) for result in self._nni().get("export-data")]

    def update_trial_concurrency(self, value: int) -> None:
        """Change the number of trials that run at the same time."""
        self._update("trialConcurrency", value)

    def update_max_experiment_duration(self, value: str) -> None:
        """Change the maximum duration of the experiment, such as "2h"."""
        self._update("maxExperimentDuration", value)

    def update_search_space(self, value: dict[str, Any]) -> None:
        """Change the search space. Only trials that are created later use it."""
        self._update("searchSpace", value)

    def update_max_trial_number(self, value: int) -> None:
        """Change the maximum number of trials."""
        self._update("maxTrialNumber", value)

    def kill_trial_job(self, trial_job_id: str) -> None:
        """Cancel the trial with this id."""
        self._nni().call("DELETE", "trial-jobs", trial_job_id)

    def has_checkpoint(self) -> bool:
        """Return whether an experiment with this id exists, so that it can be resumed."""
        return Index(self._home).get(self.id) is not None

    def load_checkpoint(self) -> None:
        """Set ``config`` to the stored configuration of the experiment with this id."""
        from nnimgr.store.overview import stored_experiment

        stored = stored_experiment(self._entry().directory)
        if stored is not None:
            self.config = ExperimentConfig(**{**stored.config, "searchSpace": stored.search_space})

    def save_checkpoint(self) -> None:
        """Do nothing: the server stores every change of an experiment before it takes effect."""

    def _entry(self) -> IndexEntry:
        entry = Index(self._home).get(self.id)
        if entry is None:
            raise ClientError(
                f"There is no experiment {self.id}.", mend="See all: nnictl experiment list --all"
            )
        return entry

    def _opened(self, client: Client, run_mode: RunMode, *, after: int) -> None:
        self.port, self._after, self._run_mode = client.port, after, run_mode
        if self.config is None:
            self.load_checkpoint()
        if run_mode is not RunMode.Detach:
            atexit.register(self.stop)
        if run_mode is RunMode.Foreground:
            printer = partial(_print_events, self._home, client.port, self.id, after=after)
            threading.Thread(target=printer, name="nni.experiment", daemon=True).start()
        _say("Web portal URLs: %s", client.post("server", "login-code")["url"])

    def _wait(self) -> bool | None:
        """Wait for the experiment's end and log it. Return False on error, None after Ctrl-C, else True."""
        assert self.port is not None
        try:
            with _readable():
                status, progress = _follow(self._home, self.port, self.id, after=self._after)
        except KeyboardInterrupt:
            _logger().warning("KeyboardInterrupt detected")
            self.stop()
            return None
        _report_end(self.id, status, progress, printed=self._run_mode is RunMode.Foreground)
        return status != "ERROR"

    def _nni(self) -> Client:
        """Return a client of this experiment's NNI REST API. Raise ClientError if it is not open."""
        if self.port is None:
            raise ClientError(f"Experiment {self.id} is not open: call run, resume, view or connect first.")
        with _readable():
            return connect(self._home, self.port).for_nni(self.id, prefix=self.url_prefix)

    def _update(self, name: str, value: Any) -> None:
        client = self._nni()
        profile = client.get("experiment")
        profile["params"][name] = value
        client.call("PUT", "experiment", body=profile, update_type=_UPDATE_TYPES[name])
        _say("Successfully update %s.", name)


def _loaded(config: ExperimentConfig, *, debug: bool) -> Loaded:
    """Return the checked configuration. Raise ValueError with every error, as the command line shows them."""
    from nnimgr.config import ConfigError, load_text

    plain = config.json()
    if "searchSpaceFile" in plain:
        del plain["searchSpace"]  # it has been read from the file, which counts, as in NNI
    if debug:
        plain |= {"debug": True, "logLevel": "debug"}
    try:
        loaded = load_text(json.dumps(plain), base=Path.cwd(), environ=os.environ)
    except ConfigError as error:
        raise ValueError(
            "\n".join(f"{p.field}: {p.message}" if p.field else p.message for p in error.problems)
        ) from error
    for warning in loaded.warnings:
        _logger().warning("%s", _sentence(warning))
    return loaded


def _follow(home: Home, port: int, experiment_id: str, *, after: int) -> tuple[str, Progress]:
    """Wait until the experiment has ended.

    Return its last status, and a ``Progress`` object built from its events.
    """
    from nnimgr.cli.progress import Progress
    from nnimgr.store.overview import stored_experiment, stored_status

    status = ""
    progress = Progress({"lastNumber": after, "bestTrial": None, "optimizeMode": "maximize"})
    for event in experiments.events_to_the_end(home, port, experiment_id, after=after):
        progress.apply(event)
        if event.kind == "ExperimentMoved":
            status = event.fields["status"]
    entry = Index(home).get(experiment_id)
    if status not in experiments.ENDED and entry is not None:
        # The server may have exited before the last events were read, so read the stored status.
        stored = stored_experiment(entry.directory)
        status = progress.status = stored_status(entry.directory) or status
        progress.reason = "" if stored is None else stored.reason
    return status or "STOPPED", progress


def _report_end(experiment_id: str, status: str, progress: Progress, *, printed: bool) -> None:
    """Log how the experiment has ended. If it is not done, also log its last failed trial.

    ``printed``: the status was printed before, and is not logged.
    """
    from nnimgr.cli.failures import failure_lines
    from nnimgr.cli.progress import moved

    level = logging.INFO if status == "DONE" else logging.WARNING
    if not printed:
        _logger().log(level, "%s", moved(status, progress.reason if progress.status == status else ""))
    failed = progress.failed
    if failed is not None and status != "DONE":
        # If the trial began before the experiment was resumed, its number is unknown, so show its id.
        named = {**failed, "sequence": failed["id"] if failed["sequence"] == "" else failed["sequence"]}
        _logger().warning("%s", "\n".join(failure_lines(named, experiment_id)))


def _print_events(home: Home, port: int, experiment_id: str, *, after: int) -> None:
    """Print the experiment's events until it ends or the server exits."""
    from nnimgr.cli.progress import Progress

    with contextlib.suppress(ClientError):
        progress = Progress.of(connect(home, port).get("experiments", experiment_id))
        for event in experiments.events_to_the_end(home, port, experiment_id, after=after):
            sentence = progress.apply(event)
            if sentence is not None:
                _say("%s", sentence)


def _sentence(problem: Problem) -> str:
    """Return an error of the configuration as text without a line number, since there is no file."""
    return str(replace(problem, line=None, column=None))


@contextlib.contextmanager
def _readable() -> Iterator[None]:
    """Convert errors of nnimgr's files in the user's home directory to ClientError, within this context."""
    try:
        yield
    except HomeError as error:
        raise ClientError(str(error)) from error


def _say(sentence: str, *values: Any) -> None:
    _logger().info(sentence, *values)


def _logger() -> logging.Logger:
    """Return the logger. Let it print to standard output unless the script has set up logging."""
    log = logging.getLogger("nni.experiment")
    if not log.hasHandlers():
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logging.Formatter("[%(asctime)s] %(message)s", "%Y-%m-%d %H:%M:%S"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        log.propagate = False
    return log
