"""The help of ``nnictl``, and what it suggests after a mistyped word."""

from __future__ import annotations

import shlex

import pytest

from nnimgr.cli.main import main
from nnimgr.cli.parsers import nnictl_parser
from nnimgr.index import Index
from tests.cli.fake import FakeServer
from tests.reference.commands import commands

VERBS = {name: parser for name, parser, _ in commands(nnictl_parser())}


@pytest.mark.parametrize("name", list(VERBS))
def test_every_verb_has_examples_that_it_takes(name: str) -> None:
    text = VERBS[name].epilog or ""
    title, *examples = text.splitlines()
    assert title == "examples:" and examples
    for example in examples:
        assert len(example) <= 80
        words = shlex.split(example.replace('eval "$(', "").replace(')"', ""), comments=True)
        for mark in ("|", ">"):
            words = words[: words.index(mark)] if mark in words else words
        assert words[0] == "nnictl"
        assert nnictl_parser().parse_args(words[1:]).prog == name


@pytest.mark.parametrize("name", ["nnictl", *VERBS])
def test_help_fits_a_terminal_of_80_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    parser = nnictl_parser() if name == "nnictl" else VERBS[name]
    assert max(map(len, parser.format_help().splitlines())) <= 80


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("nnictl create", "with the prefix a/b, /api/v1/nni becomes /a/b/api/v1/nni"),
        (
            "nnictl log trial",
            "the path of the trial's folder instead of the log (without -T: of every trial)",
        ),
        ("nnictl log stdout", "the path of the log instead of the log"),
    ],
)
def test_help_that_was_not_understood(name: str, plain: str) -> None:
    assert plain in " ".join(VERBS[name].format_help().split())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("crate", "there is no command 'crate'; did you mean \"nnictl create\"?\n  See: nnictl --help"),
        ("trial lst", "there is no command 'lst'; did you mean \"nnictl trial ls\"?"),
        ("Trial ls", 'did you mean "nnictl trial"?'),
        ("frobnicate", "there is no command 'frobnicate'\n  See: nnictl --help"),
        ("list", 'did you mean "nnictl experiment list"?'),
        ("pause -T 3", 'did you mean "nnictl trial pause"?'),
        ("start", 'did you mean "nnictl create"?'),
        ("webui open", "there is no command 'open'; its commands are: url"),
        ("create exp.yml", 'required: -c/--config; did you mean "nnictl create --config exp.yml"?'),
        ("trial stop abc 3", 'did you mean "nnictl trial stop abc -T 3"?'),
        ("update trialnum 30", 'did you mean "nnictl update trialnum --value 30"?'),
        ("update trialnum -p 80", "arguments are required: -v/--value\n"),
        ("update trialnum", "arguments are required: -v/--value\n"),
        ("top --tiem=3", 'there is no option --tiem=3; did you mean "--time"?\n  See: nnictl top --help'),
        ("experiment export -t cvs", "must be one of json, csv, not 'cvs'; did you mean \"csv\"?"),
        ("experiment list extra", "one argument too many: extra"),
        ("log trial bad 3", 'one argument too many: 3; did you mean "nnictl log trial bad -T 3"?'),
        ("log trial bad -T 3 -f", 'there is no option -f; did you mean "--follow"?'),
        ("log trial bad -T 3 -n 5", 'there is no option -n; did you mean "--tail"?'),
        ("experiment save bad -f x.zip", "there is no option -f\n"),
        ("experiment show bad -j", 'there is no option -j; did you mean "--json"?'),
        ("log trial bad 3 --path", 'did you mean "nnictl log trial bad --path -T 3"?'),
        ("log trial bad 3 -T 4", "one argument too many: 3\n"),
        (
            "trial note slow -T 2 hello",
            'many: hello; did you mean "nnictl trial note slow -T 2 --text hello"?',
        ),
        (
            "trial note slow -T 2 hello all",
            "did you mean \"nnictl trial note slow -T 2 --text 'hello all'\"?",
        ),
        ("trial note slow -T 2 --clear help", "one argument too many: help"),
        ("trial tag pz -T 0 hi", 'did you mean "nnictl trial tag pz -T 0 --add hi"?'),
        ("trial tag pz -T 0 a b", 'did you mean "nnictl trial tag pz -T 0 --add a --add b"?'),
        ("trial tag pz -T 0 --remove a b", 'did you mean "nnictl trial tag pz -T 0 --remove a --add b"?'),
        ("trial fork pz -T 0 lr=1", 'did you mean "nnictl trial fork pz -T 0 --set lr=1"?'),
        ("trial checkpoint pin pz -T 0 1.2", 'nnictl trial checkpoint pin pz -T 0 --checkpoint 1.2"?'),
        ("trial get pz -T 0 model.pt", 'did you mean "nnictl trial get pz -T 0 --file model.pt"?'),
        (
            "trial get pz -T 0 --file m.pt x",
            'did you mean "nnictl trial get pz -T 0 --file m.pt --output x"?',
        ),
        ("log trial pz -T 0 stderr", 'did you mean "nnictl log trial pz -T 0 --file stderr"?'),
        ("experiment export pz x.csv", 'did you mean "nnictl experiment export pz --filename x.csv"?'),
        ("experiment save pz x.zip", 'did you mean "nnictl experiment save pz --path x.zip"?'),
        ("trial retry pz -T 0 failed", 'one argument too many: failed; did you mean "--failed"?'),
        ("completion bsh", "must be one of bash, zsh, fish, not 'bsh'; did you mean \"bash\"?"),
        ("log trial 3", "there is no experiment '3'; did you mean \"nnictl log trial -T 3\"?"),
        ("log trial 3 --tail 5", 'did you mean "nnictl log trial --tail 5 -T 3"?'),
        ("tensorboard start 3", 'did you mean "nnictl tensorboard start -T 3"?'),
        ("trial retry 3", 'required; did you mean "nnictl trial retry -T 3"?'),
        ("trial tag 3 --add x", 'did you mean "nnictl trial tag --add x -T 3"?'),
        ("stop trial 3", 'did you mean "nnictl trial stop -T 3"?'),
        ("show trial 3", 'did you mean "nnictl trial show -T 3"?'),
        ("experiment stop", 'did you mean "nnictl stop"?'),
        ("experiment stop abc --save", 'did you mean "nnictl stop abc --save"?'),
        ("experiment log", 'did you mean "nnictl log"?'),
        ("experiment trial ls --head 3", 'did you mean "nnictl trial ls --head 3"?'),
        ("trial log -T 1", 'did you mean "nnictl log trial -T 1"?'),
        ("trial checkpoint stop abc -T 1", 'did you mean "nnictl trial stop abc -T 1"?'),
        ("trial export abc", 'did you mean "nnictl experiment export abc"?'),
        ("experiment ls", 'did you mean "nnictl experiment list"?'),
        (
            "trial delete -T 3",
            "there is no command 'delete': single trials are not deleted. To end a trial: nnictl trial",
        ),
        (
            "trial add lr=1 n=2",
            'required: -T/--trial_id; did you mean "nnictl trial add -T TRIAL --set lr=1 --set n=2',
        ),
        (
            "trial add -T 1 lr=1",
            "there is no experiment 'lr=1'; did you mean \"nnictl trial add -T 1 --set lr=1\"?",
        ),
        ("trial fork -T 1 {}", 'did you mean "nnictl trial fork -T 1 --set NAME=VALUE"?'),
        ("experiment export a.csv", '; did you mean "nnictl experiment export --filename a.csv"?'),
        ("trial export -T 3", "there is no command 'export'; did you mean \"nnictl experiment export\"?"),
        ("trial nothing", "there is no command 'nothing'; its commands are: ls, show, "),
        ("completion ksh", "must be one of bash, zsh, fish, not 'ksh'\n"),
        ("help", 'did you mean "nnictl --help"?'),
        ("log -T 3", 'a command is missing before -T; did you mean "nnictl log trial -T 3"?'),
        ("trial -T 3", "a command is missing before -T; the commands with -T are: show, "),
        ("--prot 80 list", "there is no option --prot\n"),
        ("--prot 80", 'there is no option --prot; did you mean "--port", after the command?'),
        ("--port 80", "a command is missing before --port; the commands with --port are: create, "),
        ("--port 80", " and others\n"),
        ("--prot 80 trial ls", 'there is no option --prot; did you mean "--port", after the command?'),
        ("--frobnicate trial ls", "there is no option --frobnicate\n  See: nnictl --help"),
        ("--port 80 trial ls", 'options come after the command: "nnictl trial ls --port 80"\n'),
        ("--port=80 trial ls", 'options come after the command: "nnictl trial ls --port=80"\n'),
        ("--json list --all", 'options come after the command: "nnictl experiment list --all --json"\n'),
        ("trial -p 80 ls abc", 'options come after the command: "nnictl trial ls abc -p 80"\n'),
        ("--json trail ls", "there is no command 'trail'; did you mean \"nnictl trial\"?"),
        ("trial -p 80 lst", "there is no command 'lst'; options come after the command\n"),
        ("experiment tag", "arguments are required: ID\n"),
        ("trial help", 'did you mean "nnictl trial --help"?'),
        ("trial retry --faild", 'there is no option --faild; did you mean "--failed"?'),
        ("create --confg exp.yml", 'there is no option --confg; did you mean "--config"?'),
        ("trial get 3", "the following arguments are required: -T/--trial_id, --file\n"),
    ],
)
def test_a_mistyped_word_gets_a_suggestion(words: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words.split())
    assert caught.value.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("update concurrency abc", 'add it: "nnictl update concurrency abc --value VALUE"'),
        ("trial stop syn", 'add it: "nnictl trial stop syn -T TRIAL"'),
        ("trial files syn", 'add it: "nnictl trial files syn -T TRIAL"'),
    ],
)
def test_an_experiment_is_not_taken_for_a_missing_value(
    server: FakeServer, words: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("abcdef")
    Index(server.home).update("abcdef", name="syn")
    with pytest.raises(SystemExit):
        main(words.split())
    assert told in capsys.readouterr().err


def test_a_number_that_begins_the_id_of_an_experiment_is_not_taken_for_a_trial(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("3abc")
    assert main(["log", "trial", "3"]) == 0


def test_a_group_without_a_command_shows_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["trial"])
    assert caught.value.code == 2
    told = capsys.readouterr().err
    assert "\n    retry (rerun)" in told and told.endswith("nnictl trial: error: a command is missing\n")
