"""Parsers of the verbs about trials, and about the output of trials and experiments."""

from __future__ import annotations

import argparse
from typing import Any

from nnimgr.cli.parsers.base import Parser, Verbs, add_group, add_id, add_verb, count

__all__ = ["add"]

_NAMED = "the trial: its number, its id, or the beginning of its id"
_SEVERAL = "trials by number or id, with commas between them"


def add(verbs: Verbs[Parser]) -> None:
    group = add_group(verbs, "trial", "list, show, stop, retry and tag trials, fetch their files")
    _list(group)
    _act(group)
    _new(group)
    _checkpoints(add_group(group, "checkpoint", "list, pin and fetch the saved states of a trial"))
    _annotate(group)
    _files(group)
    _log(add_group(verbs, "log", "show what trials and experiments have printed"))
    _tensorboard(add_group(verbs, "tensorboard", "show what trials have logged in TensorBoard"))


def _statuses(text: str) -> list[str]:
    """Return statuses of trials, which a user has written with commas between them."""
    from nnimgr.rules.terms import TrialStatus

    names, valid = [name.strip().upper() for name in text.split(",")], list(map(str, TrialStatus))
    unknown = next((name for name in names if name not in valid), None)
    if unknown is not None:
        raise argparse.ArgumentTypeError(f"there is no status {unknown!r}; valid are {', '.join(valid)}")
    return names


def _list(group: Verbs[Parser]) -> None:
    listed = add_verb(
        group,
        "ls",
        "trials:list_all",
        "list the trials of an experiment",
        about="A terminal gets a table, a pipe gets JSON as NNI prints it. TIME is the\n"
        "time from the start of a trial's newest attempt to its end, or to now. It is\n"
        'empty for a paused trial. "nnictl trial show" has the times of all attempts.\n\n'
        "--head lists the best trials, and --tail the worst ones. In NNI's format, which\n"
        "a pipe gets without --json, --head lists the largest results and --tail the\n"
        "smallest ones, whatever the goal is.",
        examples=(
            "nnictl trial ls",
            "nnictl trial ls ab12cd34 --head 5",
            "nnictl trial ls --status FAILED,EARLY_STOPPED",
            "nnictl trial ls --json | jq '.trials[].finalValue'",
        ),
    )
    add_id(listed)
    some = listed.add_mutually_exclusive_group()
    some.add_argument("--head", type=count, metavar="N", help="list only the N best trials, the best first")
    some.add_argument("--tail", type=count, metavar="N", help="list only the N worst trials, the worst first")
    some.add_argument(
        "--status",
        type=_statuses,
        metavar="STATUS",
        help="list only trials with this status; several: A,B",
    )
    shown = add_verb(
        group,
        "show",
        "trial_page:show",
        "show one trial: status and reason, results, attempts, checkpoints, notes",
        examples=("nnictl trial show -T 12", "nnictl trial show ab12cd34 -T k3x9z --json"),
    )
    add_id(shown)
    _add_trial(shown, required=True)
    members = add_verb(
        group,
        "members",
        "attempts:members",
        "list the members of a trial on several machines: machine, address, state",
        about="The lines below the table say why members have ended, as far as it is known.",
        examples=("nnictl trial members -T 12", "nnictl trial members ab12cd34 -T 12 --attempt 1"),
    )
    add_id(members)
    _add_trial(members, required=True)
    members.add_argument(
        "--attempt", type=count, metavar="N", help="the N-th attempt of the trial (default: the latest)"
    )


def _act(group: Verbs[Parser]) -> None:
    stop = add_verb(
        group,
        "stop",
        "trials:stop",
        "stop trials",
        aliases=("kill",),
        examples=("nnictl trial stop -T 12", "nnictl trial stop ab12cd34 -T k3x9z,15"),
    )
    add_id(stop, to_change=True)
    _add_trials(stop, required=True)
    pause = add_verb(
        group,
        "pause",
        "trials:pause",
        "pause trials: their processes end, and they can continue later",
        about="A trial that asks nni.should_checkpoint() saves its state first. Any other trial\n"
        "loses what it has done since its last checkpoint (nni.save_checkpoint). A paused\n"
        "trial holds no slot and no resources. It continues from its last checkpoint, or\n"
        "from its beginning if it has saved none.",
        examples=("nnictl trial pause -T 12",),
    )
    add_id(pause, to_change=True)
    _add_trials(pause, required=True)
    resume = add_verb(
        group,
        "resume",
        "trials:resume",
        "continue paused trials",
        examples=("nnictl trial resume -T 12",),
    )
    add_id(resume, to_change=True)
    _add_trials(resume, required=True)
    save = add_verb(
        group,
        "save",
        "trials:save",
        "ask running trials to save their states, without a pause",
        about="A trial that looks for such requests (nni.should_checkpoint) saves soon after,\n"
        "and runs on. One that does not saves only when its code does so anyway, and a\n"
        "notice says so (nnictl trial show).",
        examples=("nnictl trial save -T 12",),
    )
    add_id(save, to_change=True)
    _add_trials(save, required=True)
    lost = add_verb(
        group,
        "lost",
        "trials:lost",
        "give up an UNKNOWN trial, whose machine does not answer",
        about="The trial is retried on another machine, as often as maxRetries allows.",
        examples=("nnictl trial lost -T 12", "nnictl trial lost ab12cd34 -T k3x9z"),
    )
    add_id(lost, to_change=True)
    _add_trial(lost, required=True)
    lost.add_argument("-y", "--yes", action="store_true", help="do not ask")
    retry = add_verb(
        group,
        "retry",
        "trials:retry",
        "retry failed trials, each as a new trial with the same parameters",
        aliases=("rerun",),
        examples=("nnictl trial retry --failed", "nnictl trial retry -T 12,15"),
    )
    add_id(retry, to_change=True)
    which = retry.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--failed", action="store_true", help="all trials that have failed and were not retried yet"
    )
    _add_trials(which)


def _new(group: Verbs[Parser]) -> None:
    added = add_verb(
        group,
        "add",
        "new_trials:add",
        "add a trial with the parameters of another trial, or with changed ones",
        about="The new trial runs from its beginning. The other trial is not changed, and may\n"
        "have ended. A value outside of the search space is used, with a warning.\n"
        "To continue from a checkpoint instead: nnictl trial fork",
        examples=("nnictl trial add -T 12", "nnictl trial add -T 12 --set lr=0.001 --set layers=3"),
    )
    fork = add_verb(
        group,
        "fork",
        "new_trials:fork",
        "add a trial that continues from a checkpoint of another trial",
        about="The new trial loads the checkpoint (nni.load_checkpoint) and runs with the same\n"
        "parameters, or with changed ones. The other trial is not changed, and may have\n"
        "ended. A value outside of the search space is used, with a warning.\n"
        "To list the checkpoints: nnictl trial checkpoint ls -T TRIAL",
        examples=(
            "nnictl trial fork -T 12 --set lr=0.001",
            "nnictl trial fork -T 12 --checkpoint 1.8",
        ),
    )
    for verb in (added, fork):
        add_id(verb, to_change=True)
        _add_trial(verb, required=True)
        verb.add_argument(
            "--set",
            action="append",
            metavar="NAME=VALUE",
            default=[],
            dest="changes",
            help="a parameter with another value, as JSON or text; may be repeated",
        )
        verb.option_of_words = "--set"
        verb.add_argument(
            "--raise-limit",
            action="store_true",
            help="raise maxTrialNumber for this trial if it is reached",
        )
    _add_checkpoint(fork, "the checkpoint to continue from")


def _checkpoints(group: Verbs[Parser]) -> None:
    listed = add_verb(
        group,
        "ls",
        "checkpoints:list_all",
        "list the checkpoints of a trial",
        about="A checkpoint is named by the attempt that has saved it, a dot, and its number.",
        examples=("nnictl trial checkpoint ls -T 12", "nnictl trial checkpoint ls ab12cd34 -T 12 --json"),
    )
    listed.add_argument("--all", action="store_true", help="show those that were deleted, too")
    pin = add_verb(
        group,
        "pin",
        "checkpoints:pin",
        "pin a checkpoint, so that it is not deleted",
        about="Neither newer checkpoints nor checkpoints.limit delete a pinned one. The\n"
        "server's copy of it stays after the end of its trial.",
        examples=("nnictl trial checkpoint pin -T 12", "nnictl trial checkpoint pin -T 12 --checkpoint 1.8"),
    )
    unpin = add_verb(
        group,
        "unpin",
        "checkpoints:unpin",
        "take back the pin of a checkpoint",
        examples=("nnictl trial checkpoint unpin -T 12 --checkpoint 1.8",),
    )
    get = add_verb(
        group,
        "get",
        "checkpoints:get",
        "fetch the files of a checkpoint into a folder",
        about="The files come from the copy in the experiment's folder, if there is one. If\n"
        "that is damaged, they come from the place that checkpoints.storage names.\n"
        "Without a copy, they come from the machine on which the trial has saved them.",
        examples=(
            "nnictl trial checkpoint get -T 12",
            "nnictl trial checkpoint get -T 12 --checkpoint 1.8 --output best",
        ),
    )
    pin.option_of_words = unpin.option_of_words = "--checkpoint"
    for verb in (listed, pin, unpin, get):
        add_id(verb, to_change=verb in (pin, unpin))
        _add_trial(verb, required=True)
        if verb is not listed:
            _add_checkpoint(verb, "the checkpoint")
    get.add_argument(
        "-o",
        "--output",
        metavar="FOLDER",
        help="the folder to write, which must not exist (default: TRIAL-ATTEMPT.NUMBER here)",
    )


def _annotate(group: Verbs[Parser]) -> None:
    note = add_verb(
        group,
        "note",
        "annotations:note",
        "show or replace the note of a trial",
        about="A note can be written while the experiment runs, and afterwards.",
        examples=(
            'nnictl trial note -T 12 --text "the first run with the new data"',
            "nnictl trial note -T 12",
            "nnictl trial note ab12cd34 -T 12 --clear",
        ),
    )
    add_id(note)
    _add_trial(note, required=True)
    new = note.add_mutually_exclusive_group()
    new.add_argument("--text", metavar="TEXT", help="the new note, at most 4000 characters")
    new.add_argument("--clear", action="store_true", help="remove the note")
    note.option_of_words = "--text"
    tag = add_verb(
        group,
        "tag",
        "annotations:tag",
        "add tags to trials, and remove tags from them",
        about="Without --add and --remove, the tags of the trials are shown.\n"
        "A trial has at most 20 tags, a tag at most 40 characters.",
        examples=(
            "nnictl trial tag -T 12,15 --add baseline,final",
            "nnictl trial tag -T 12 --add good --remove baseline",
        ),
    )
    add_id(tag)
    _add_trials(tag, required=True)
    for option, what in (("--add", "tags to add"), ("--remove", "tags to remove")):
        tag.add_argument(
            option, action="append", default=[], metavar="TAG", help=f"{what}, with commas between them"
        )
    tag.option_of_words = "--add"


def _files(group: Verbs[Parser]) -> None:
    files = add_verb(
        group,
        "files",
        "files:list_all",
        "list the files that a trial has written",
        examples=("nnictl trial files -T 12", "nnictl trial files ab12cd34 -T 12"),
    )
    get = add_verb(
        group,
        "get",
        "files:get",
        "fetch a file that a trial has written",
        examples=(
            "nnictl trial get -T 12 --file model.pt",
            "nnictl trial get ab12cd34 -T 12 --file stdout --output -",
        ),
    )
    for verb in (files, get):
        add_id(verb)
        _add_trial(verb, required=True)
        _add_attempt(verb)
    get.add_argument(
        "--file", dest="path", required=True, metavar="PATH", help='the file, as "trial files" lists it'
    )
    get.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="the file to write (default: the same name in this directory; -: standard output)",
    )
    get.option_of_words = "--output"


def _log(group: Verbs[Parser]) -> None:
    for name, summary in (
        ("stdout", "show the log of an experiment's server"),
        ("stderr", "show what an experiment's tuner and assessor have printed"),
    ):
        log = add_verb(
            group,
            name,
            f"logs:{name}",
            summary,
            examples=(f"nnictl log {name} --tail 20", f"nnictl log {name} ab12cd34 --path"),
        )
        add_id(log)
        part = log.add_mutually_exclusive_group()
        part.add_argument("-H", "--head", type=count, metavar="N", help="the first N lines")
        part.add_argument("-T", "--tail", type=count, metavar="N", help="the last N lines")
        part.add_argument("--path", action="store_true", help="print the path of the log instead of the log")
    trial = add_verb(
        group,
        "trial",
        "logs:trial",
        "show what a trial has printed",
        about="A terminal gets the log of the trial that -T names; without -T, a table of the\n"
        "trials' folders. A pipe gets ids and folders as NNI prints them, unless --file,\n"
        "--tail, --follow or --path is given.",
        examples=(
            "nnictl log trial -T 12",
            "nnictl log trial -T 12 --follow",
            "nnictl log trial -T 12 --file stderr | grep Error",
            "nnictl log trial -T 12 --attempt 1",
            "nnictl log trial -T 12 --path",
        ),
    )
    add_id(trial)
    _add_trial(trial, required=False)
    part = trial.add_mutually_exclusive_group()
    part.add_argument(
        "--path",
        action="store_true",
        help="print the path of the trial's folder instead of the log (without -T: of every trial)",
    )
    part.add_argument("--follow", action="store_true", help="print the log until the trial ends (needs -T)")
    trial.add_argument("--tail", type=count, metavar="N", help="begin with the last N lines (needs -T)")
    trial.add_argument("--file", choices=("stdout", "stderr", "trial.log"), help="print this file (needs -T)")
    trial.option_of_words = "--file"
    _add_attempt(trial, "needs -T; ")


def _add_trial(verb: argparse.ArgumentParser, *, required: bool) -> None:
    verb.add_argument(
        "-T", "--trial_id", "--trial-id", action=_Once, required=required, metavar="TRIAL", help=_NAMED
    )


def _add_trials(verb: argparse._ActionsContainer, *, required: bool = False, help: str = _SEVERAL) -> None:
    more: dict[str, Any] = {"required": True} if required else {}  # not known to a group of options
    verb.add_argument("-T", "--trial_id", "--trial-id", action="append", metavar="TRIAL", help=help, **more)


class _Once(argparse.Action):
    """Option that may be given only once. Otherwise the last value would silently replace the others."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        if getattr(namespace, self.dest) is not None:
            raise argparse.ArgumentError(self, "is given twice, but this command takes one trial at a time")
        setattr(namespace, self.dest, values)


def _add_checkpoint(verb: argparse.ArgumentParser, what: str) -> None:
    verb.add_argument("--checkpoint", metavar="ATTEMPT.NUMBER", help=f"{what} (default: the newest)")


def _add_attempt(verb: argparse.ArgumentParser, more: str = "") -> None:
    verb.add_argument(
        "--attempt",
        type=count,
        metavar="N",
        help=f"the N-th attempt of the trial ({more}default: the latest)",
    )
    verb.add_argument(
        "--member",
        type=count,
        metavar="N",
        help=f"member N of a trial on several hosts ({more}default: 0, the leader)",
    )


def _tensorboard(group: Verbs[Parser]) -> None:
    start = add_verb(
        group,
        "start",
        "tensorboard:start",
        "start TensorBoard over files in $NNI_OUTPUT_DIR/tensorboard",
        about="Browsers that are signed in show TensorBoard at the printed address.\n"
        "The experiment's server runs until its TensorBoards are stopped, even if no\n"
        "experiment is open there any more.",
        examples=(
            "nnictl tensorboard start",
            "nnictl tensorboard start ab12cd34 -T 12",
            "nnictl tensorboard start ab12cd34 --trial_id 0,3,7",
        ),
    )
    add_id(start)
    _add_trials(start, help=f"{_SEVERAL} (default: all trials that were started)")
    listed = add_verb(
        group,
        "list",
        "tensorboard:list_all",
        "list the TensorBoards of an experiment",
        examples=("nnictl tensorboard list", "nnictl tensorboard list ab12cd34 --json"),
    )
    add_id(listed)
    stop = add_verb(
        group,
        "stop",
        "tensorboard:stop",
        "stop one TensorBoard of an experiment, or all of them",
        examples=("nnictl tensorboard stop", "nnictl tensorboard stop ab12cd34 kX3f9"),
    )
    add_id(stop)
    stop.add_argument(
        "task",
        nargs="?",
        metavar="TASK",
        help='the TensorBoard, as "tensorboard list" shows it (default: all)',
    )
