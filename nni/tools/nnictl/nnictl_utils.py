"""Functions behind the subcommands of NNI's command line, for programs that import them.

``args`` are parsed arguments: objects with attributes such as ``id``, ``port`` and ``all``. Functions print a
message where NNI prints one. Functions that only print run ``nnictl``, and return its exit code.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from nni.tools.nnictl import url_utils
from nni.tools.nnictl._verbs import verb
from nni.tools.nnictl.common_utils import (
    detect_process,
    get_yml_content,
    print_error,
    print_normal,
    show,
)
from nni.tools.nnictl.config_utils import Config, Experiments
from nni.tools.nnictl.constants import EXPERIMENT_DETAIL_FORMAT, REST_TIME_OUT
from nni.tools.nnictl.rest_utils import check_response, check_rest_server_quick, rest_delete, rest_get
from nnimgr.store.location import database_path

__all__ = [
    "check_experiment_id",
    "check_rest",
    "convert_time_stamp_to_date",
    "experiment_clean",
    "experiment_list",
    "experiment_status",
    "export_trials_data",
    "get_config",
    "get_config_filename",
    "get_experiment_dir",
    "get_experiment_port",
    "get_experiment_status",
    "get_experiment_time",
    "get_time_interval",
    "get_yml_content",
    "list_experiment",
    "load_experiment",
    "log_stderr",
    "log_stdout",
    "log_trial",
    "monitor_experiment",
    "parse_ids",
    "save_experiment",
    "stop_experiment",
    "trial_kill",
    "trial_ls",
    "update_experiment",
    "webui_url",
]

_STOPPED = "STOPPED"

stop_experiment = verb("stop", "id", port="--port", all="--all")
experiment_clean = verb("experiment delete", "id", all="--all")
export_trials_data = verb(
    "experiment export", "id", type="--type", path="--filename", intermediate="--intermediate"
)
log_stdout = verb("log stdout", "id", tail="--tail", head="--head", path="--path")
log_stderr = verb("log stderr", "id", tail="--tail", head="--head", path="--path")
log_trial = verb("log trial", "id", trial_id="--trial_id")
webui_url = verb("webui url", "id")
monitor_experiment = verb("top", time="--time")
save_experiment = verb("experiment save", "id", path="--path", saveCodeDir="--saveCodeDir")
load_experiment = verb("experiment load", path="--path", codeDir="--codeDir", logDir="--logDir")


# ---- list of experiments ----------------------------------------------------------------------------------


def update_experiment() -> None:
    """Set the status STOPPED for NNI's own experiments whose manager process has ended.

    Experiments of nnimgr are left unchanged, because they continue when their server is started again.
    """
    index = Experiments()
    for key, entry in index.get_all_experiments().items():
        ours = database_path(Path(entry.get("logDir") or "") / key).exists()
        if not ours and entry.get("status") != _STOPPED and not detect_process(entry.get("pid")):
            index.update_experiment(key, "status", _STOPPED)


def check_experiment_id(args: Any, update: bool = True) -> str | None:
    """Return the id in ``args`` if an experiment with this id exists, else None.

    If ``args`` has no id, return the id of the only running experiment, or None if none runs. If several
    run, list them and exit with code 1.
    """
    if update:
        update_experiment()
    entries = Experiments().get_all_experiments()
    if args.id:
        if args.id in entries:
            return str(args.id)
        print_error(f"Id not correct: there is no experiment {args.id}.")
        return None
    running = _running(entries)
    if not running:
        print_error("There is no experiment running.")
        return None
    if len(running) > 1:
        _several(running)
    return next(iter(running))


def parse_ids(args: Any) -> list[str] | None:
    """Return the ids of the experiments that ``nnictl stop`` would stop for these arguments: ``id``, ``port``
    and ``all``.

    An id may be shortened to a unique beginning, or end with ``*``. Return None if the id is ambiguous or no
    experiment was ever run.
    """
    update_experiment()
    entries = Experiments().get_all_experiments()
    if not entries:
        print_normal("Experiment is not running...")
        return None
    running = _running(entries)
    if args.all:
        return list(running)
    if args.port is not None:
        found = [key for key, entry in running.items() if str(entry.get("port")) == str(args.port)]
        if args.id and found and args.id not in found:
            print_error(f"Experiment {args.id} does not run on port {args.port}.")
            sys.exit(1)
        found = [args.id] if args.id in found else found
    elif not args.id:
        if len(running) > 1:
            _several(running)
        found = list(running)
    elif args.id in running:
        found = [args.id]
    else:
        found = [key for key in running if key.startswith(args.id.removesuffix("*"))]
        if len(found) > 1 and not args.id.endswith("*"):
            print_error(f"{args.id} is ambiguous, please choose {' '.join(found)}")
            return None
    if not found:
        print_error("There are no experiments matched, please set correct experiment id or port.")
    return found


def get_config_filename(args: Any) -> str:
    """Return the id of the experiment that ``args`` names. Exit with code 1 if there is no such
    experiment.
    """
    experiment_id = check_experiment_id(args)
    if experiment_id is None:
        print_error("Please set correct experiment id.")
        sys.exit(1)
    return experiment_id


def get_experiment_port(args: Any) -> Any:
    """Return the server's port for the experiment that ``args`` names.

    Exit with code 1 if there is no such experiment.
    """
    return Experiments().get_all_experiments()[get_config_filename(args)].get("port")


def get_experiment_dir(args: Any) -> str:
    """Return the directory of the experiment that ``args`` names.

    Exit with code 1 if there is no such experiment.
    """
    experiment_id = get_config_filename(args)
    return f"{Experiments().get_all_experiments()[experiment_id].get('logDir', '')}/{experiment_id}"


def experiment_list(args: Any) -> list[str]:
    """Print the experiments that are not stopped, or all experiments if ``args.all`` is set.

    Return their ids.
    """
    update_experiment()
    entries = Experiments().get_all_experiments()
    if not entries:
        print_normal("Cannot find experiments.")
        sys.exit(1)
    chosen = entries if args.all else _running(entries)
    show("".join(map(_line, chosen.values())))
    return list(chosen)


def get_config(args: Any) -> None:
    """Print the stored configuration of the experiment that ``args`` names."""
    experiment_id = get_config_filename(args)
    directory = Experiments().get_all_experiments()[experiment_id].get("logDir", "")
    show(json.dumps(Config(experiment_id, directory).get_config(), indent=4))


def _running(entries: Mapping[str, Any]) -> dict[str, Any]:
    return {key: entry for key, entry in entries.items() if entry.get("status") != _STOPPED}


def _several(running: Mapping[str, Any]) -> NoReturn:
    print_error("There are multiple experiments, please set the experiment id...")
    show("".join(map(_line, running.values())))
    sys.exit(1)


def _line(entry: Mapping[str, Any]) -> str:
    names = ("id", "experimentName", "status", "port", "platform")
    times = [_local(entry.get(name), "%Y-%m-%d %H:%M:%S") for name in ("startTime", "endTime")]
    return EXPERIMENT_DETAIL_FORMAT % (*(entry.get(name, "N/A") for name in names), *times)


# ---- the REST API -----------------------------------------------------------------------------------------


def get_experiment_time(port: int | str) -> tuple[Any, Any]:
    """Return start and end of the experiment of the server on a port, in milliseconds since 1970.

    An unknown time is None.
    """
    response = rest_get(url_utils.experiment_url(port), REST_TIME_OUT)
    content = json.loads(response.text) if check_response(response) else {}
    return content.get("startTime"), content.get("endTime")


def get_experiment_status(port: int | str) -> str | None:
    """Return the status of the experiment of the server on a port, or None if no server responds."""
    ready, response = check_rest_server_quick(port)
    return json.loads(response.text).get("status") if ready else None


def check_rest(args: Any) -> bool:
    """Print and return whether the server responds for the experiment that ``args`` names."""
    running, _ = check_rest_server_quick(get_experiment_port(args))
    print_normal(f"Restful server is {'' if running else 'not '}running...")
    return running


def trial_ls(args: Any) -> Any:
    """Print and return the trials of an experiment.

    If ``args.head`` or ``args.tail`` is set, these are only that number of trials, with the largest or
    smallest results.
    """
    if args.head and args.tail:
        print_error("Head and tail cannot be set at the same time.")
        return None
    content = _read(args, url_utils.TRIAL_JOBS_API)
    if content is None:
        return None
    if args.head or args.tail:
        content = sorted((trial for trial in content if trial.get("finalMetricData")), key=_result)
        content = content[::-1][: args.head] if args.head else content[: args.tail]
    content = [convert_time_stamp_to_date(trial) for trial in content]
    _show(content)
    return content


def trial_kill(args: Any) -> bool:
    """Cancel the trial ``args.trial_id``. Return whether this succeeded."""
    response = rest_delete(f"{_api(args)}{url_utils.TRIAL_JOBS_API}/{args.trial_id}", REST_TIME_OUT)
    if not check_response(response):
        print_error(f"Trial {args.trial_id} was not canceled.")
    return check_response(response)


def list_experiment(args: Any) -> Any:
    """Print and return the configuration and state (NNI's "profile") of the experiment that ``args``
    names.
    """
    content = _read(args, url_utils.EXPERIMENT_API)
    if content is not None:
        _show(convert_time_stamp_to_date(content))
    return content


def experiment_status(args: Any) -> bool:
    """Print the status of the experiment that ``args`` names. Return whether its server responds."""
    content = _read(args, url_utils.CHECK_STATUS_API)
    if content is not None:
        _show(content)
    return content is not None


def convert_time_stamp_to_date(content: dict[str, Any]) -> dict[str, Any]:
    """Replace the times in the dict of an experiment or trial by readable text. Return the dict."""
    for name in ("startTime", "endTime"):
        if content.get(name):
            content[name] = _local(content[name], "%Y/%m/%d %H:%M:%S")
    return content


def get_time_interval(time1: Any, time2: Any) -> str:
    """Return the time between two times as a text such as "0d 1h 2m 3s", or "N/A" if one is unknown.

    Both are given in milliseconds since 1970.
    """
    try:
        seconds = int((time2 - time1) / 1000)
    except TypeError:
        return "N/A"
    minutes, hours = seconds // 60, seconds // 3600
    return f"{hours // 24}d {hours % 24}h {minutes % 60}m {seconds % 60}s"


def _api(args: Any) -> str:
    """Return the base URL of NNI's REST API for the experiment that ``args`` names.

    If the server runs several experiments, the URL contains the experiment's id.
    """
    entries = Experiments().get_all_experiments()
    entry = entries[get_config_filename(args)]
    port, prefix = entry.get("port"), entry.get("prefixUrl")
    beside = [each for each in _running(entries).values() if str(each.get("port")) == str(port)]
    below = f"/{prefix}" if prefix else ""
    if len(beside) > 1:
        below += f"/e/{entry['id']}"
    return f"{url_utils.BASE_URL}:{port}{below}{url_utils.API_ROOT_URL}"


def _read(args: Any, api: str) -> Any:
    """Return the JSON at the path ``api`` of the REST API, for the experiment that ``args`` names.

    Print an error and return None if the server does not respond or refuses.
    """
    response = rest_get(_api(args) + api, REST_TIME_OUT)
    if not check_response(response):
        print_error("Restful server is not running..." if response is None else response.text)
        return None
    return json.loads(response.text)


def _result(trial: Mapping[str, Any]) -> float:
    value = json.loads(json.loads(trial["finalMetricData"][0]["data"]))
    return float(value["default"] if isinstance(value, dict) else value)


def _show(content: Any) -> None:
    show(json.dumps(content, indent=4, sort_keys=True, separators=(",", ":")))


def _local(at: Any, form: str) -> str:
    """Return a time in milliseconds since 1970 as text in local time. Return any other value as text."""
    if not isinstance(at, int):
        return str(at)
    return datetime.fromtimestamp(at // 1000, UTC).astimezone().strftime(form)
