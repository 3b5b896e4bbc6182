"""The command line of ``nnictl``: verbs, options, and exit codes."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from nnimgr import __version__
from nnimgr.cli.terminal import CliError, Terminal

__all__ = ["main"]

Verb = Callable[[argparse.Namespace, Terminal], int]
_Number = TypeVar("_Number", int, float)

_INTERRUPTED = 130
_NNIS_ALONE = frozenset(
    {"jupyter-extension", "load", "package", "platform", "save", "ss_gen", "trainingservice"}
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Return the exit code, which is 0 only if the command has succeeded."""
    _open_what_is_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names and results may have letters that the locale lacks
            stream.reconfigure(errors="backslashreplace")
    parsed = _parser().parse_args(arguments)
    terminal = Terminal(as_json=getattr(parsed, "json", False))
    try:
        if not sys.platform.startswith("linux"):
            raise CliError(f"nnimgr runs on Linux only, not on {sys.platform}.")
        code = _load(parsed.verb)(parsed, terminal)
        sys.stdout.flush()
        return code
    except CliError as error:
        terminal.fail(error)
        return error.code
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:  # the reader of our output has closed the pipe
        _drop_output()
        return 1
    except OSError as error:  # for example, a full disk
        with contextlib.suppress(OSError):
            terminal.fail(CliError(f"{error.filename or 'The output'} cannot be used: {error.strerror}."))
        _drop_output()
        return 1


def _open_what_is_closed() -> None:
    """Open standard streams that the shell has closed, so that other files do not take their numbers."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))


def _drop_output() -> None:
    """Redirect output to /dev/null, because the rest of our buffers cannot be written."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _load(verb: str) -> Verb:
    """Return the function of "module:name" in this package."""
    import importlib

    module, _, name = verb.partition(":")
    function: Verb = getattr(importlib.import_module(f"nnimgr.cli.{module}"), name)
    return function


class _Parser(argparse.ArgumentParser):
    """Reports NNI's commands that do not exist here, and accepts shortened options, as NNI does."""

    def _get_option_tuples(self, option_string: str) -> Any:
        """Return the options that match a shortened one. Two spellings of an option count once."""
        found: Any = super()._get_option_tuples(option_string)
        return list({id(action): (action, *rest) for action, *rest in found}.values())

    def error(self, message: str) -> NoReturn:
        _, _, wanted = message.partition("invalid choice: ")
        command = wanted.partition(" ")[0].strip("'")
        if command in _NNIS_ALONE:
            message = f"{self.prog} {command} is a command of NNI that is not here"
        super().error(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="nnictl", description="Run and watch experiments.")
    parser.add_argument("-v", "--version", action="version", version=__version__)
    parser.set_defaults(verb="hello:hint")
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_lifecycle(verbs)
    _add_experiment(verbs)
    _add_update(verbs)
    _add_trial(verbs)
    _add_log(verbs)
    _add_machine(verbs)
    _add_algo(verbs)
    _add_trainingservice(verbs)
    config = _group(verbs, "config", "look at configurations")
    _add_id(_verb(config, "show", "stored:show_config", "show the configuration of an experiment"))
    doctor = _verb(verbs, "doctor", "doctor:doctor", "check every machine of a configuration")
    doctor.add_argument("-c", "--config", required=True, metavar="FILE")
    webui = _group(verbs, "webui", "open the web page")
    _add_id(_verb(webui, "url", "webui:url", "print an address that signs a browser in, once"))
    hello = _verb(verbs, "hello", "hello:hello", "copy an example experiment into this directory")
    hello.add_argument("--directory", default="nni_hello_hpo", help="where to (default: %(default)s)")
    return parser


if TYPE_CHECKING:
    _Verbs = argparse._SubParsersAction[_Parser]


def _verb(
    verbs: _Verbs, name: str, target: str, summary: str, *, aliases: Sequence[str] = ()
) -> argparse.ArgumentParser:
    verb = verbs.add_parser(
        name, help=summary, description=summary[0].upper() + summary[1:] + ".", aliases=aliases
    )
    verb.set_defaults(verb=target)
    verb.add_argument("--json", action="store_true", help="print one JSON value and nothing else")
    return verb


def _group(verbs: _Verbs, name: str, summary: str) -> _Verbs:
    group = verbs.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
    return group.add_subparsers(title="commands", metavar="COMMAND", required=True)


def _add_lifecycle(verbs: _Verbs) -> None:
    create = _verb(verbs, "create", "create:create", "start a new experiment")
    create.add_argument(
        "-c", "--config", required=True, metavar="FILE", help="the experiment's configuration"
    )
    create.add_argument("--id", dest="experiment_id", help="an id of your own for the experiment")
    create.add_argument("--dry-run", action="store_true", help="show what would start, and start nothing")
    create.add_argument("-d", "--debug", action="store_true", help="set the experiment's log level to debug")
    create.add_argument(
        "-u",
        "--url_prefix",
        "--url-prefix",
        metavar="PREFIX",
        help="what stands before NNI's routes, such as a/b",
    )
    _add_port(create)
    _add_foreground(create)
    _add_no_token(create)
    resume = _verb(verbs, "resume", "create:resume", "go on with a stopped or finished experiment")
    _add_brought(resume)
    resume.add_argument("-d", "--debug", action="store_true", help=argparse.SUPPRESS)
    _add_foreground(resume)
    _add_no_token(resume)
    view = _verb(verbs, "view", "create:view", "show a stopped experiment, without running it")
    _add_brought(view)
    _add_no_token(view)
    stop = _verb(verbs, "stop", "stop:stop", "stop experiments and their trials")
    stop.add_argument(
        "id", nargs="?", metavar="ID", help="the beginning of an id will do; with a * at its end, of several"
    )
    stop.add_argument("-a", "--all", action="store_true", help="stop all experiments")
    stop.add_argument("--detach", action="store_true", help="leave the trials running until a resume")
    _add_port(stop, help="the experiments of this port")
    top = _verb(verbs, "top", "watch:top", "watch an experiment")
    top.add_argument("id", nargs="?", metavar="ID", help="without it all that run")
    top.add_argument("-t", "--time", type=_seconds, metavar="S", help="seconds between two pictures")
    _add_port(top)


def _add_experiment(verbs: _Verbs) -> None:
    group = _group(verbs, "experiment", "look at experiments")
    listed = _verb(group, "list", "experiments:list_all", "list experiments")
    listed.add_argument("--all", action="store_true", help="the stopped and the archived ones, too")
    for name, summary in (("show", "show an experiment"), ("status", "show an experiment's status")):
        _add_id(_verb(group, name, f"experiments:{name}", summary))
    tag = _verb(group, "tag", "experiments:tag", "note tags on an experiment, for lists of them")
    tag.add_argument("id", metavar="ID")
    tag.add_argument("tags", nargs="*", metavar="TAG", help="without any: it has none any more")
    archive = _verb(group, "archive", "experiments:archive", "leave an ended experiment out of lists")
    archive.add_argument("id", metavar="ID")
    archive.add_argument("--undo", action="store_true", help="list it again")
    delete = _verb(group, "delete", "experiments:delete", "delete stopped experiments and all their files")
    delete.add_argument("id", nargs="?", metavar="ID")
    delete.add_argument("-a", "--all", action="store_true", help="all experiments")
    delete.add_argument(
        "--leave-unreachable",
        "--leave_unreachable",
        action="store_true",
        help="also if something has to be left on a machine; say what",
    )
    delete.add_argument("-y", "--yes", action="store_true", help="do not ask")
    load = _verb(group, "import", "results:import_data", "give the tuner results from elsewhere")
    _add_id(load)
    load.add_argument("-f", "--filename", required=True, metavar="FILE", help="as export writes them")
    pareto = _verb(group, "pareto", "pareto:pareto", "list the trials that no other one beats")
    _add_id(pareto)
    pareto.add_argument("--filter", default="", help="only of trials that match, such as status:SUCCEEDED")
    export = _verb(group, "export", "results:export", "export the results of an experiment's trials")
    _add_id(export)
    export.add_argument("-t", "--type", choices=("json", "csv"), default="json")
    export.add_argument("-f", "--filename", metavar="FILE", help="write there (default: standard output)")
    export.add_argument("-i", "--intermediate", action="store_true", help="with intermediate results")


def _add_update(verbs: _Verbs) -> None:
    group = _group(verbs, "update", "change an experiment while it runs")
    space = _verb(group, "searchspace", "update:searchspace", "change the search space")
    _add_id(space)
    space.add_argument("-f", "--filename", required=True, metavar="FILE", help="the new one, in JSON or YAML")
    space.add_argument("--constraints", metavar="FILE", help="and a list of other constraints on it")
    constraints = _verb(group, "constraints", "update:constraints", "change the constraints on the space")
    _add_id(constraints)
    constraints.add_argument("-f", "--filename", required=True, metavar="FILE", help="a list of them")
    tuner = _verb(
        group, "tuner", "tuner:replace", "go on with another tuner, which is given the whole history"
    )
    _add_id(tuner)
    tuner.add_argument(
        "-f", "--filename", required=True, metavar="FILE", help="the new one, or exp.yml with it"
    )
    for name, summary in (
        ("concurrency", "how many trials run at once"),
        ("duration", "how long it may run in all, such as 30m or 2h"),
        ("trialnum", "how many trials there may be in all"),
    ):
        verb = _verb(group, name, f"update:{name}", summary)
        _add_id(verb)
        verb.add_argument("-v", "--value", required=True)


def _add_machine(verbs: _Verbs) -> None:
    group = _group(verbs, "machine", "the machines that an experiment's trials run on")
    _add_id(_verb(group, "ls", "machines:list_all", "list them"))
    add = _verb(group, "add", "machines:add", "use more machines")
    _add_id(add)
    add.add_argument("-f", "--filename", metavar="FILE", help="a machineList, or one machine")
    add.add_argument("--host", help="a name or an address, or a host of ~/.ssh/config")
    add.add_argument("--user", help="on that machine")
    add.add_argument("--ssh-port", type=_port, metavar="PORT", help="of its SSH server (default: 22)")
    add.add_argument("--ssh-key-file", metavar="FILE", help="a private key of yours")
    drain = _verb(group, "drain", "machines:drain", "place nothing more on a machine")
    drain.add_argument("machine", metavar="MACHINE", help="as ls shows it, or its host")
    _add_id(drain)
    drain.add_argument("--undo", action="store_true", help="place trials there again")
    remove = _verb(group, "remove", "machines:remove", "drain a machine, and use it no longer")
    remove.add_argument("machine", metavar="MACHINE", help="as ls shows it, or its host")
    _add_id(remove)
    remove.add_argument(
        "--force", action="store_true", help="stop its trials; they run again on other machines"
    )


def _add_trainingservice(verbs: _Verbs) -> None:
    group = _group(verbs, "trainingservice", "training services of your own, by name")
    for name in ("register", "unregister"):
        verb = _verb(group, name, f"trainingservice:{name}", f"{name} one")
        verb.add_argument("--package", required=True, metavar="P", help="its module, as import takes it")
    _verb(group, "list", "trainingservice:list_all", "list all, built in, installed and registered")


def _add_algo(verbs: _Verbs) -> None:
    group = _group(verbs, "algo", "tuners and assessors of your own, by name")
    register = _verb(group, "register", "algo:register", "register algorithms", aliases=("reg",))
    register.add_argument(
        "-m", "--meta_path", "--meta-path", required=True, metavar="FILE", help="their description"
    )
    unregister = _verb(group, "unregister", "algo:unregister", "unregister one", aliases=("unreg",))
    unregister.add_argument("name", metavar="NAME")
    _verb(group, "show", "algo:show", "show one").add_argument("name", metavar="NAME")
    _verb(group, "list", "algo:list_all", "list all algorithms, built in and registered")


def _add_trial(verbs: _Verbs) -> None:
    group = _group(verbs, "trial", "look at trials, and end them")
    listed = _verb(group, "ls", "trials:list_all", "list the trials of an experiment")
    _add_id(listed)
    some = listed.add_mutually_exclusive_group()
    some.add_argument("--head", type=_count, metavar="N", help="the N with the largest results")
    some.add_argument("--tail", type=_count, metavar="N", help="the N with the smallest results")
    kill = _verb(group, "kill", "trials:kill", "stop a trial")
    _add_id(kill)
    kill.add_argument("-T", "--trial_id", "--trial-id", required=True, metavar="TRIAL")
    lost = _verb(group, "lost", "trials:lost", "say that an UNKNOWN trial's machine will not come back")
    lost.add_argument("trial_id", metavar="TRIAL")
    _add_id(lost)
    lost.add_argument("-y", "--yes", action="store_true", help="do not ask")
    rerun = _verb(group, "rerun", "trials:rerun", "run failed trials again, as new trials in their place")
    _add_id(rerun)
    which = rerun.add_mutually_exclusive_group(required=True)
    which.add_argument("--failed", action="store_true", help="all that have failed and were not run again")
    which.add_argument("-T", "--trial_id", "--trial-id", action="append", metavar="TRIAL", help="this one")
    files = _verb(group, "files", "files:list_all", "list the files that a trial has written")
    get = _verb(group, "get", "files:get", "fetch one of them")
    for verb in (files, get):
        _add_id(verb)
        verb.add_argument("trial_id", metavar="TRIAL")
        verb.add_argument("--attempt", type=_count, metavar="N", help="not the latest attempt, but this one")
    get.add_argument("path", metavar="PATH", help="as files lists it")
    get.add_argument(
        "-o", "--output", metavar="FILE", help="where to (default: its name, in this directory; -: print it)"
    )


def _add_log(verbs: _Verbs) -> None:
    group = _group(verbs, "log", "read logs")
    for name in ("stdout", "stderr"):
        log = _verb(group, name, f"logs:{name}", f"read the {name} log of an experiment")
        _add_id(log)
        part = log.add_mutually_exclusive_group()
        part.add_argument("-H", "--head", type=_count, metavar="N", help="the first N lines")
        part.add_argument("-T", "--tail", type=_count, metavar="N", help="the last N lines")
        part.add_argument("--path", action="store_true", help="where the log is")
    trial = _verb(group, "trial", "logs:trial", "find or read what trials print")
    _add_id(trial)
    trial.add_argument("-T", "--trial_id", "--trial-id", metavar="TRIAL")
    trial.add_argument("--follow", action="store_true", help="print it until the trial ends (needs -T)")
    trial.add_argument(
        "--tail", type=_count, metavar="N", help="begin with the last N lines of what is there (needs -T)"
    )
    trial.add_argument("--file", choices=("stdout", "stderr", "trial.log"), help="print this file (needs -T)")


def _add_id(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("id", nargs="?", metavar="ID", help="may be left out if only one experiment runs")
    _add_port(verb)


def _add_port(verb: argparse.ArgumentParser, help: str = "the server's port") -> None:
    verb.add_argument("-p", "--port", type=_port, help=help)


def _add_brought(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("id", nargs="?", metavar="ID")
    verb.add_argument(
        "-e",
        "--experiment_dir",
        "--experiment-dir",
        metavar="DIR",
        help="its folder, if it is from elsewhere",
    )
    _add_port(verb)


def _add_foreground(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "-f", "--foreground", action="store_true", help="watch until the end, then stop; Ctrl-C stops, too"
    )


def _add_no_token(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--no-token",
        action="store_true",
        help="start a server that needs no token, for clients of NNI: anyone on this machine can steer it",
    )


def _port(text: str) -> int:
    return _number(text, int, least=1, most=65_535, rule="a port is a number from 1 to 65535")


def _seconds(text: str) -> float:
    return _number(text, float, least=0.1, most=3600, rule="must be from 0.1 to 3600 seconds")


def _count(text: str) -> int:
    return _number(text, int, least=1, most=sys.maxsize, rule="must be a number of at least 1")


def _number(text: str, read: Callable[[str], _Number], *, least: float, most: float, rule: str) -> _Number:
    try:
        number = read(text)
    except ValueError:
        number = None
    if number is None or not least <= number <= most:
        raise argparse.ArgumentTypeError(f"{rule}, not {text!r}")
    return number


if __name__ == "__main__":
    sys.exit(main())
