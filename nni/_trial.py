"""Functions for trials, such as ``nni.get_next_parameter``.

They exchange files with the experiment, as in NNI. Every trial imports this module, so the module avoids slow
imports such as ``json`` and ``re``. The environment variables ``NNI_*`` are read when a function is called.
If ``NNI_PLATFORM`` is not set, the trial runs outside an experiment: it gets no parameters, and its results
go to standard output.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

__all__ = [
    "get_current_parameter",
    "get_experiment_id",
    "get_next_parameter",
    "get_next_parameters",
    "get_sequence_id",
    "get_trial_id",
    "report_final_result",
    "report_intermediate_result",
]

LOG_FORMAT = ("[%(asctime)s] %(levelname)s (%(name)s) %(message)s", "%Y-%m-%d %H:%M:%S")

_STANDALONE = "STANDALONE"  # the parameter_id, experiment and trial of a program that runs alone
_LIMIT = 1_000_000
_FIRST_LOOK_S = 0.01
_LAST_LOOK_S = 0.5
_CONSTANTS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class _Decoder:
    """Options that the C scanner of the module ``json`` reads."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = _CONSTANTS.__getitem__


def _loads(text: str) -> Any:
    """Return the value of a JSON text. Raise ValueError if the text is not exactly one JSON document."""
    text = text.strip(" \t\n\r")
    try:
        from _json import make_scanner

        scan: Callable[[str, int], tuple[Any, int]] = make_scanner(_Decoder)  # type: ignore[arg-type]
    except (ImportError, AttributeError):  # a Python other than CPython
        import json

        return json.loads(text)
    try:
        value, end = scan(text, 0)
    except StopIteration as error:
        raise ValueError(f"no JSON at character {error.value}") from None
    if end != len(text):
        raise ValueError(f"more than one JSON document: the first ends at character {end}")
    return value


def _string_encoder() -> Callable[[str], str]:
    try:
        from _json import encode_basestring_ascii
    except ImportError:
        from json.encoder import py_encode_basestring_ascii as encode_basestring_ascii
    encoder: Callable[[str], str] = encode_basestring_ascii
    return encoder


_quote = _string_encoder()


def _dumps(value: Any) -> str:
    """Return a value as JSON text in the format of NNI: ``", "`` and ``": "`` as separators, floats by repr,
    ASCII only, NaN and Infinity allowed.

    Numpy scalars become plain numbers, arrays become ``{"__ndarray__": ...}``, and dates, sets, paths and the
    like have such a form, too. Raise TypeError for a value of another type.
    """
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, str):
        return _quote(value)
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, dict):
        return "{" + ", ".join([f"{_quote(_key(key))}: {_dumps(item)}" for key, item in value.items()]) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join([_dumps(item) for item in value]) + "]"
    return _dumps_other(value)


def _float(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return float.__repr__(value)


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, (bool, int, float)):
        return _dumps(key)
    raise TypeError(f"the key {key!r} of a metric must be a string or a number, not {type(key).__name__}")


def _dumps_other(value: Any) -> str:
    """Return numpy's scalars and arrays, and dates, paths, sets and the like, as JSON text in NNI's form.

    Raise TypeError for a value that has no such form.
    """
    if hasattr(value, "dtype") and hasattr(value, "item") and not getattr(value, "shape", True):
        return _dumps(value.item())
    from nni._values import REST, encode_plain  # imported only for such values

    found = encode_plain(value)
    if found is REST:
        raise TypeError(f"a metric of type {type(value).__name__} cannot be written as JSON")
    return _dumps(found)


class Trial:
    """State of the trial in this process: its parameters, and how many intermediate results were reported."""

    def __init__(self) -> None:
        self._record: dict[str, Any] | None = None
        self._sequence = 0
        self._index = 0
        self._metrics: int | None = None
        self._silent = False
        self._logs = False
        self._told = False  # True: the reason why this process does not report was printed
        self._channel: Any = None  # channel that the user has set instead of files
        self._looked = False  # True: the environment was searched for such a channel
        self._rank = 0, ""  # pid, and what other_rank() has returned in that process

    def get_next_parameter(self, default: Any = None) -> Any:
        """Return the trial's parameters: a dict with the names in the search space.

        Outside an experiment, as with ``python train.py``, return ``default``. If that is None, return ``{}``
        and warn.

        Call this function once. A second call returns None and forgets the parameters, unless the experiment
        is multi-phase. Then a further call waits for the next parameter set. It returns None if no set
        follows.
        """
        channel = self.custom_channel()
        if channel is not None:
            self._record = channel.receive_parameter()
        elif _standalone():
            if default is None:
                warn_standalone(3)
            self._record = {"parameter_id": _STANDALONE, "parameters": {} if default is None else default}
        else:
            self._record = self.receive()
        return None if self._record is None else self._record["parameters"]

    def receive(self) -> dict[str, Any] | None:
        """Wait for the next parameter set from the experiment. Return its record, a dict with
        ``parameters``.

        If this is not the first call, return None at once, unless the experiment is multi-phase.
        """
        self._keep_log()
        self._index += 1
        if self._index > 1 and os.environ.get("MULTI_PHASE") not in ("true", "True"):
            if self._index == 2:
                self._mention()
            return None
        return self._receive(self._index - 1)

    def get_current_parameter(self, tag: Any = None) -> Any:
        """Return the last result of ``get_next_parameter``, or its value for the parameter ``tag``.

        Raise KeyError if there is no such parameter.
        """
        if self._record is None:
            return None
        parameters = self._record["parameters"]
        return parameters if tag is None else parameters[tag]

    def report_intermediate_result(self, metric: Any) -> None:
        """Report an intermediate result: a number, a dict with a number under ``default``, or any
        JSON value.
        """
        self._report("report_intermediate_result", "PERIODICAL", self._sequence, metric)
        self._sequence += 1

    def report_final_result(self, metric: Any) -> None:
        """Report the trial's final result: a number, or a dict with a number under ``default``."""
        self._report("report_final_result", "FINAL", 0, metric)

    def _report(self, caller: str, kind: str, sequence: int, metric: Any) -> None:
        record = self._record
        if record is None and os.environ.get("NNI_PLATFORM") is not None:
            end = "; its last call returned None: there was no further parameter set" if self._index else ""
            raise AssertionError(f"nni.get_next_parameter() needs to be called before {caller}{end}")
        channel = self.custom_channel()
        if channel is not None:
            channel.send_metric(
                type=kind,
                parameter_id=record["parameter_id"] if record else None,
                trial_job_id=os.environ.get("NNI_TRIAL_JOB_ID"),
                sequence=sequence,
                value=metric,
            )
        elif record is None or record["parameter_id"] == _STANDALONE:
            self.say_result(kind, sequence, metric)
        else:
            self.send_metric(kind, record["parameter_id"], get_trial_id(), sequence, metric)

    def send_metric(
        self, kind: str, parameter_id: Any, trial_job_id: str, sequence: int, metric: Any
    ) -> None:
        """Append a result to the metrics file.

        Do nothing if this process is not the first of a distributed trial.
        """
        pid = os.getpid()
        if self._rank[0] != pid:  # reading the environment takes longer than all else
            self._rank = pid, other_rank()
        if self._rank[1]:
            self._keep_silent(self._rank[1])
            return
        self._keep_log()
        self._send(_frame(kind, parameter_id, trial_job_id, sequence, metric))

    def checkpoint_frames(self, fields: str, metric: Any) -> list[str]:
        """Return the records that report a checkpoint, and first an intermediate result unless it is None.

        ``fields``: the fields of the checkpoint, as the inner text of a JSON object.
        """
        name = get_trial_id()
        texts = [f'{{"type": "CHECKPOINT", "trial_job_id": {_quote(name)}, {fields}}}']
        if metric is not None:
            record = self._record
            assert record is not None, "nni.get_next_parameter() needs to be called before save_checkpoint"
            texts.insert(0, _frame("PERIODICAL", record["parameter_id"], name, self._sequence, metric))
        return texts

    def send_checkpoint(self, frames: list[str]) -> None:
        """Report a saved checkpoint with one write. ``frames``: result of ``checkpoint_frames``."""
        self._keep_log()
        self._send(*frames)
        self._sequence += len(frames) - 1

    def overwrite_intermediate_seq(self, value: int) -> None:
        """Set the sequence number for the next intermediate result."""
        self._sequence = value

    def use_channel(self, channel: Any) -> None:
        """Exchange parameters and results over a ``TrialCommandChannel``.

        If ``channel`` is None, use files as usual.
        """
        self._channel, self._looked = channel, False

    def custom_channel(self) -> Any:
        """Return the ``TrialCommandChannel`` that the user has set in place of files, or None.

        If NNI_TRIAL_COMMAND_CHANNEL names its class as ``import://module.Class``, create the object first.
        """
        if self._channel is None and not self._looked:
            self._looked = True
            url = os.environ.get("NNI_TRIAL_COMMAND_CHANNEL", "")
            if url.startswith("import://"):
                import importlib

                module, _, name = url[len("import://") :].rpartition(".")
                self._channel = getattr(importlib.import_module(module), name)()
        return self._channel

    def _keep_silent(self, rank: str) -> None:
        """Print once why this process of a distributed trial does not report results."""
        if not self._told:
            self._told = True
            sys.stderr.write(
                f"nni: this process is not the first of its trial ({rank}), so its results are not reported. "
                "To report them too, set NNIMGR_REPORT_ALL_RANKS=1.\n"
            )

    def _keep_log(self) -> None:
        """Print the trial's log messages, from level INFO up, unless the trial sets up logging itself at any
        time.

        Trials that were written for NNI rely on this. Do nothing if the trial has not loaded ``logging``,
        because loading it takes time.
        """
        if self._logs or "logging" not in sys.modules:
            return
        self._logs = True
        import logging

        root = logging.getLogger()
        if not root.handlers:
            handler = logging.StreamHandler(sys.stdout)
            handler.setFormatter(logging.Formatter(*LOG_FORMAT))
            logging.lastResort = handler
            root.setLevel(min(root.level, logging.INFO))

    def _send(self, *texts: str) -> None:
        """Write one record for each text to the metrics file with one system call, so that records of several
        processes do not mix.
        """
        frames = b""
        for text in texts:
            payload = text.encode("ascii") + b"\n"
            if len(payload) >= _LIMIT:
                lengths = f"{len(payload)} bytes; the limit is {_LIMIT - 1} bytes"
                raise AssertionError(f"Metric too long: {lengths}")
            frames += b"ME%06d" % len(payload) + payload
        if self._metrics is None:
            self._metrics = _open_metrics(os.path.join(os.environ["NNI_SYS_DIR"], ".nni", "metrics"))
        count = os.write(self._metrics, frames)
        if count != len(frames):
            self._retract(count)

    def _retract(self, count: int) -> NoReturn:
        """Remove the partly written record at the end of the metrics file, and raise OSError.

        Without this, all later records would be unreadable. The record stays if another process has written
        after it.
        """
        assert self._metrics is not None
        end = os.lseek(self._metrics, 0, os.SEEK_CUR)
        if os.fstat(self._metrics).st_size == end:
            os.ftruncate(self._metrics, end - count)
        raise OSError(28, f"{os.strerror(28)}: the metric could not be written")

    def _receive(self, index: int) -> dict[str, Any]:
        name = f"parameter_{index}.cfg" if index else "parameter.cfg"
        path = os.path.join(os.environ["NNI_SYS_DIR"], name)
        text = _text(path)
        if text is None:
            self._request(index)
            if not index:
                sys.stderr.write(
                    f"nni: waiting for {path}, which does not exist. Did the trial clear its folder before "
                    "it called nni.get_next_parameter()?\n"
                )
        pause = _FIRST_LOOK_S
        while not text:  # poll, because there is no event for a new file
            time.sleep(pause)
            pause = min(_LAST_LOOK_S, pause * 1.5)
            text = _text(path)
        record: dict[str, Any] = _loads(text)
        return record

    def _request(self, index: int) -> None:
        self._send(
            f'{{"trial_job_id": {_quote(get_trial_id())}, "type": "REQUEST_PARAMETER", "sequence": 0, '
            f'"parameter_index": {index}}}'
        )

    def _mention(self) -> None:
        """Report to the experiment that this trial has requested a second parameter set.

        The trial is not multi-phase, so the experiment sends no set, and only adds a note to the trial.
        """
        try:
            self._request(1)
        except OSError:  # the note is optional
            return

    def silence(self) -> None:
        """Stop printing results of a trial that runs outside an experiment."""
        self._silent = True

    def say_result(self, kind: str, sequence: int, metric: Any) -> None:
        """Print a result of a trial that runs outside an experiment, and log it if logging is set up."""
        if self._silent:
            return
        index = "" if kind == "FINAL" else f"  (Index {sequence})"
        sentence = f"{'Final' if kind == 'FINAL' else 'Intermediate'} result: {metric}{index}"
        printed = False
        if "logging" in sys.modules:
            import logging

            handlers = logging.getLogger().handlers
            log = logging.getLogger("nni")
            if handlers:
                log.setLevel(log.level or logging.INFO)
                log.info(sentence)
                printed = any(handler.get_name() == "nni" for handler in handlers)
        if not printed:  # by nni.enable_global_logging
            sys.stdout.write(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}] INFO (nni) {sentence}\n")
            sys.stdout.flush()


def warn_standalone(depth: int = 1) -> None:
    """Warn that the trial has no parameters. The warning names the line ``depth`` calls up the stack."""
    import warnings

    warnings.warn(
        "Running trial code without runtime.\n"
        "There is no experiment, so get_next_parameter() returns {}.\n"
        "To run the trial alone, pass parameters:\n"
        '  get_next_parameter(default={"lr": 0.1})',
        RuntimeWarning,
        stacklevel=depth,
    )


def _frame(kind: str, parameter_id: Any, trial_job_id: str, sequence: int, metric: Any) -> str:
    return (
        f'{{"parameter_id": {_dumps(parameter_id)}, "trial_job_id": {_quote(trial_job_id)}, '
        f'"type": "{kind}", "sequence": {sequence}, "value": {_quote(_dumps(metric))}}}'
    )


def other_rank() -> str:
    """Return the environment variable that shows that this process is not the first of its trial, such as
    "RANK=1".

    Return "" if it is the first. torchrun, Slurm and Open MPI start one process for each rank. Since all of
    them report the same results, only those of rank 0 count.
    """
    if os.environ.get("NNIMGR_REPORT_ALL_RANKS") == "1":
        return ""
    for name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"):
        rank = os.environ.get(name, "")
        if rank.isdigit() and int(rank):
            return f"{name}={rank}"
    return ""


def _standalone() -> bool:
    return os.environ.get("NNI_PLATFORM") in (None, "unittest")


def _open_metrics(path: str) -> int:
    """Open the metrics file for appending. Create its directory if the trial has deleted it."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o644)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return os.open(path, flags, 0o644)


def _text(path: str) -> str | None:
    """Return the content of a text file, or None if the file does not exist."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


def get_experiment_id() -> str:
    """Return the experiment's id, or ``STANDALONE`` outside an experiment."""
    return os.environ.get("NNI_EXP_ID", _STANDALONE)


def get_trial_id() -> str:
    """Return the trial's id, or ``STANDALONE`` outside an experiment."""
    return os.environ.get("NNI_TRIAL_JOB_ID", _STANDALONE)


def get_sequence_id() -> int:
    """Return the trial's number in its experiment, counted from 0. Return 0 outside an experiment."""
    return int(os.environ.get("NNI_TRIAL_SEQ_ID", "0"))


def get_trial_seed() -> int:
    """Return the seed for the trial's random numbers: from 1 if the trial confirms another one, else 0."""
    return int(os.environ.get("NNI_TRIAL_SEED", "0"))


_trial = Trial()
checkpoint_frames = _trial.checkpoint_frames
send_checkpoint = _trial.send_checkpoint
get_next_parameter = _trial.get_next_parameter
get_next_parameters = _trial.get_next_parameter
get_current_parameter = _trial.get_current_parameter
report_intermediate_result = _trial.report_intermediate_result
report_final_result = _trial.report_final_result
silence = _trial.silence
overwrite_intermediate_seq = _trial.overwrite_intermediate_seq
use_channel = _trial.use_channel
custom_channel = _trial.custom_channel
say_result = _trial.say_result
