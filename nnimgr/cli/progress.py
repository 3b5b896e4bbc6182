"""Progress of an experiment, for showing it to a user. It is computed from the server's answers and events.

This module reads and writes nothing: it turns profiles and events into sentences and a state to draw. A
profile is the server's answer about an experiment.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from nnimgr.client.experiments import ENDED
from nnimgr.rules.phrases import ENDED_FIRST, against_limit
from nnimgr.spelling import capital

if TYPE_CHECKING:
    from nnimgr.client.calls import Event

__all__ = [
    "LIVE",
    "LiveTrial",
    "Progress",
    "created_trials",
    "finished_text",
    "finished_trials",
    "moved",
    "notice_lines",
    "number",
    "parameters_text",
    "status_addition",
    "wanted_trials",
]

_MOST_RECENT = 8
_ASK = "ask"  # platform whose trials run in programs of the user
_CONFIRMATION = "confirmation"
LIVE = ("WAITING", "RUNNING", "PAUSED", "UNKNOWN")
_QUIET = frozenset(
    {"MetricReported", "ResultReused", "Suggested", "JobPlaced", "KeeperAcknowledged", "KeeperEnrolled"}
)


@dataclass(slots=True)
class LiveTrial:
    """Trial that has not ended."""

    sequence: int
    parameters: Any
    started_at: datetime | None = None
    latest: float | None = None
    final: float | None = None
    final_text: str | None = None  # JSON text of the final result, which is the first FINAL metric
    final_at: int = 0  # number of its frame
    reports: int = 0
    confirms: bool = False  # True: the trial is a confirmation, whose result is not one of the search
    told: str = ""  # end of the sentence about the verdict that stops the trial, which its end repeats

    def go_back(self, origin: Mapping[str, Any] | None) -> None:
        """Forget what the next attempt reports again. ``origin``: checkpoint from which it continues."""
        self.started_at = None  # until the next attempt runs
        self.reports = 0 if origin is None else origin["reports"]
        if origin is None or origin["trialId"] is not None or origin["position"] <= self.final_at:
            self.final = self.final_text = None


@dataclass(slots=True)
class Progress:
    """Progress of an experiment: the server's last answer about it, updated by the events that follow.

    ``profile`` is that answer. The other fields are updated with each event.
    """

    profile: Mapping[str, Any]
    trials: dict[str, LiveTrial] = field(default_factory=dict)
    recent: deque[str] = field(default_factory=lambda: deque(maxlen=_MOST_RECENT))
    status: str = ""
    reason: str = ""
    best: float | None = None
    failed: Mapping[str, Any] | None = None  # the last failed trial: sequence, id, reason, cause
    stale: bool = False  # True: events have arrived that the profile does not include
    # Number of trials by status that have ended since the server sent ``profile``.
    ended_since: Counter[str] = field(default_factory=Counter)
    # Notices that were shown. Key: topic. Value: subject, and duration in seconds.
    noticed: dict[str, tuple[str, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, profile: Mapping[str, Any]) -> Progress:
        progress = cls(profile)
        progress.refresh(profile)
        progress.best = profile["bestTrial"]["value"] if profile["bestTrial"] else None
        return progress

    def ended(self, cursor: int) -> bool:
        """Return whether the experiment has ended and all of its events were received.

        ``cursor``: number of the last received event.
        """
        return self.status in ENDED and cursor >= self.profile["lastNumber"]

    def refresh(self, profile: Mapping[str, Any]) -> None:
        """Replace the profile, which is the server's answer about the experiment, by a newer answer."""
        self.profile = profile
        self.status, self.reason = profile["status"], profile["reason"]
        self.stale = False
        self.ended_since.clear()

    def settle(self, status: str, *, reason: str) -> None:
        """Set the experiment's final status. It is computed here, because the server has exited."""
        self.status, self.reason = status, reason
        counts = Counter({str(name): int(count) for name, count in self.profile["counts"].items()})
        left = self.ended_since.total()
        for name in reversed(LIVE):
            taken = min(left, counts[name])
            left -= taken
            counts[name] -= taken
        counts += self.ended_since
        self.ended_since.clear()
        final = {"status": status, "reason": reason, "counts": dict(+counts), "now": ""}
        self.profile = {**self.profile, **final}

    def fresh_notices(self) -> list[str]:
        """Return the notices that are new, and those that now last twice as long as when they were shown."""
        notices = {notice["about"]: notice for notice in self.profile.get("notices", ())}
        self.noticed = {about: told for about, told in self.noticed.items() if about in notices}
        fresh = []
        for about, notice in notices.items():
            subject, seconds = notice["subject"], notice["seconds"] or 0.0
            told = self.noticed.get(about)
            if told is None or told[0] != subject or seconds < told[1] or seconds >= 2 * told[1] > 0:
                self.noticed[about] = (subject, seconds)
                fresh.append(capital(notice["sentence"]))
        return fresh

    def add_trial(self, trial: Mapping[str, Any]) -> None:
        """Add a trial that began before the first event was received."""
        self.trials[trial["id"]] = LiveTrial(
            sequence=trial["sequence"],
            parameters=trial["parameters"],
            started_at=None if trial["status"] in ("WAITING", "PAUSED") else _instant(trial["startedAt"]),
            latest=trial["latestValue"],
            final=trial["finalValue"],
            final_text=trial["finalText"],
            reports=trial["intermediates"],
            confirms=trial["source"] == _CONFIRMATION,
        )

    def missing(self, event: Event) -> str | None:
        """Return the id of the event's trial if the trial is unknown, because it began before the first
        event.
        """
        if event.kind not in ("JobStarted", "TrialEnded") or event.fields["trialId"] in self.trials:
            return None
        return str(event.fields["trialId"])

    def apply(self, event: Event) -> str | None:
        """Update the progress with an event. Return the sentence to show for the event, or None."""
        if event.kind not in _QUIET:
            self.stale = True
        if event.kind == "TrialEnded" and (event.number or 0) > self.profile["lastNumber"]:
            self.ended_since[event.fields["status"]] += 1
        sentence = self._fold(event.kind, event.fields)
        if sentence is not None:
            self.recent.append(sentence)
        return sentence

    def _fold(self, kind: str, fields: Mapping[str, Any]) -> str | None:
        match kind:
            case "Suggested":
                confirms = fields.get("source") == _CONFIRMATION
                trial = LiveTrial(fields["sequence"], fields["parameters"], confirms=confirms)
                self.trials[fields["trialId"]] = trial
            case "MetricReported":
                self._take_metric(fields)
            case "ResultReused":
                self._take_final(fields)
            case "TrialEnded":
                return self._end(fields)
            case "ExperimentMoved":
                self.status, self.reason = fields["status"], fields["reason"]
                return moved(self.status, self.reason)
            case "closed":
                self.status, self.reason = fields["status"], fields["reason"] or self.reason
            case "ConfigChanged":
                names = ", ".join(fields["changes"]) or "search space"
                return f"Changed: {names}"
            case "AlgorithmFailed":
                return f"The {fields['role']} failed in {fields['call']}: {fields['sentence']}"
            case "KeeperSilent":
                return str(fields["reason"])
            case "TunerExhausted" if self.status != "DRAINING":  # else it was asked again
                return "The tuner has no more parameter sets."
            case _:
                return self._fold_job(kind, fields)
        return None

    def _fold_job(self, kind: str, fields: Mapping[str, Any]) -> str | None:
        if "trialId" not in fields:
            return None
        name = self._name(fields["trialId"])
        match kind:
            case "JobStarted":
                trial = self.trials.get(fields["trialId"])
                if trial is not None:
                    trial.started_at = _instant(fields["startedAt"])
                attempt = fields.get("attempt", 1)
                return f"{name} started" + (f", attempt {attempt}" if attempt > 1 else "")
            case "TrialPaused":
                if (paused := self.trials.get(fields["trialId"])) is not None:
                    paused.started_at = None
                return f"{name} is paused: {fields['reason']}"
            case "JobWaiting":
                return f"{name} has no place yet: {fields['reason']}"
            case "Verdict":
                because = f": {fields['reason']}" if fields.get("reason") else ""
                if (judged := self.trials.get(fields["trialId"])) is not None:
                    judged.told = because
                return f"{name} is stopped early by the {fields.get('by', 'assessor')}{because}"
            case "JobLost":
                return f"{name} was lost: {fields['reason']}"
            case "AttemptDue":
                if (trial := self.trials.get(fields["trialId"])) is not None:
                    trial.go_back(fields.get("origin"))
                    trial.parameters = fields.get("parameters") or trial.parameters
                return f"{name} gets attempt {fields['attempt']}: {fields['reason']}"
            case "JobNoted":
                return f"{name}: {fields['note']}"
            case "FrameSkipped":
                return f"{name}: {fields['reason']}"
        return None

    def _take_metric(self, fields: Mapping[str, Any]) -> None:
        trial = self.trials.get(fields["trialId"])
        if trial is None:
            return
        if fields["type"] == "FINAL":
            self._take_final(fields)
        else:
            trial.reports += 1
            trial.latest = fields["value"]

    def _take_final(self, fields: Mapping[str, Any]) -> None:
        trial = self.trials.get(fields["trialId"])
        if trial is not None and trial.final_text is None:
            trial.final, trial.final_text = fields["value"], fields["text"]
            trial.final_at = fields.get("position", 0)

    def _end(self, fields: Mapping[str, Any]) -> str:
        name = self._name(fields["trialId"])
        trial = self.trials.pop(fields["trialId"], None)
        text = f"{name} {fields['status']}"
        if fields["status"] == "FAILED":
            sequence = "" if trial is None else trial.sequence
            shown = {"reason": fields["reason"], "cause": fields.get("cause")}
            asked = self.profile.get("platform") == _ASK
            self.failed = {"sequence": sequence, "id": fields["trialId"], **shown}
            self.failed |= {"logPath": ""} if asked else {}
        if fields["status"] != "SUCCEEDED":
            told = "" if trial is None else trial.told
            return f"{text}: {fields['reason'].removesuffix(told)}"
        if trial is None or trial.final_text is None:
            why = fields["reason"].removeprefix("no result: ")
            return f"{text} without a result{': ' if why else ''}{why}"
        if trial.final is None or not math.isfinite(trial.final):
            return f"{text}: {fields['reason']}"
        text += f": {number(trial.final)}"
        if fields["reason"].endswith(ENDED_FIRST):
            text += f" (it ended {ENDED_FIRST})"
        best = not trial.confirms and self._improves(fields["trialId"], trial.final)
        return f"{text}, the best so far" if best else text

    def _improves(self, trial_id: str, value: float) -> bool:
        smaller = self.profile["optimizeMode"] == "minimize"
        known = self.profile["bestTrial"] or {}  # the profile may be newer than the event
        if known.get("trialId") != trial_id and self.best is not None:
            if value >= self.best if smaller else value <= self.best:
                return False
        self.best = value
        return True

    def _name(self, trial_id: str) -> str:
        trial = self.trials.get(trial_id)
        return f"Trial {trial_id}" if trial is None else f"Trial {trial.sequence} ({trial_id})"


def created_trials(profile: Mapping[str, Any]) -> int:
    """Return the number of trials that count towards maxTrialNumber.

    A failed trial that was retried does not count, nor does a trial that the system canceled, nor a run that
    confirms another trial.
    """
    counts = profile["counts"]
    left_out = counts.get("SYS_CANCELED", 0) + (profile.get("retried") or 0)
    return int(sum(counts.values()) - left_out - _confirmations(profile, "made"))


def finished_trials(profile: Mapping[str, Any]) -> int:
    """Return the number of trials that have ended and count towards maxTrialNumber."""
    live = sum(profile["counts"].get(status, 0) for status in LIVE) - _confirmations(profile, "open")
    return max(0, created_trials(profile) - int(live))


def finished_text(profile: Mapping[str, Any]) -> str:
    """Return the number of finished trials with its limit: "4 of 10"; "4" without a limit.

    A user can set the limit below the number of trials that exist: "4 of 19, above the limit of 5 trials".
    """
    finished, most = finished_trials(profile), profile["limits"]["maxTrialNumber"]
    return str(finished) if most is None else against_limit(finished, most, created=created_trials(profile))


def wanted_trials(profile: Mapping[str, Any]) -> int | None:
    """Return the number of trials that will have finished in the end; None without a limit."""
    most = profile["limits"]["maxTrialNumber"]
    return most and max(int(most), created_trials(profile))


def _confirmations(profile: Mapping[str, Any], which: str) -> int:
    """Return the number of confirmations: those that were "made", or those that are "open"."""
    return int((profile.get("confirmations") or {}).get(which, 0))


def status_addition(profile: Mapping[str, Any], status: str) -> str:
    """Return what to add to the number of trials with this status, such as " (2 retried)", or ""."""
    if status == "SUCCEEDED" and (without := profile.get("withoutResult")):
        return f" ({without} without a usable result)"
    if status == "FAILED" and (retried := profile.get("retried")):
        return f" ({retried} retried)"
    return ""


def moved(status: str, reason: str) -> str:
    """Return a sentence that says that an experiment has a new status, with the reason."""
    if status == "DRAINING" and reason:
        return f"Experiment {status}: no more trials are created ({reason})"
    return f"Experiment {status}: {reason}" if reason and status != "RUNNING" else f"Experiment {status}"


def number(value: float | None) -> str:
    """Format a result for users, with six digits."""
    return "--" if value is None else f"{value:.6g}"


def notice_lines(profile: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the current notices, each as a sentence and the place in user code that is running now.

    The place is "" if the notice has none.
    """
    return [
        (capital(notice["sentence"]), _innermost(notice["detail"])) for notice in profile.get("notices", ())
    ]


def _innermost(stack: str) -> str:
    """Return the innermost place of a stack trace, as one line."""
    lines = [line.strip() for line in stack.splitlines() if line.strip()]
    places = [index for index, line in enumerate(lines) if line.startswith('File "')]
    return ": ".join(lines[places[-1] : places[-1] + 2]) if places else "".join(lines[-1:])


def _shortened(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def parameters_text(parameters: Any) -> str:
    """Format a parameter set as one line."""
    if not isinstance(parameters, Mapping):
        return str(parameters)
    return ", ".join(f"{name}={_short(value)}" for name, value in parameters.items())


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping) and "_name" in value:
        inner = {name: item for name, item in value.items() if name != "_name"}
        return f"{value['_name']}({parameters_text(inner)})" if inner else str(value["_name"])
    return str(value)


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
