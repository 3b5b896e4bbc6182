"""Parsers of the verbs that read experiments, and of the verbs that change them."""

from __future__ import annotations

from nnimgr.cli.parsers.base import DEFAULT_EXPERIMENT, Parser, Verbs, add_group, add_id, add_port, add_verb

__all__ = ["add"]

_NAMED = "the experiment: its id, the beginning of its id, or its name"


def add(verbs: Verbs[Parser]) -> None:
    group = add_group(verbs, "experiment", "list, show, export, tag and delete experiments")
    _read(group)
    _label(group)
    _results(group)
    _archives(group)
    _update(add_group(verbs, "update", "change an experiment's limits, search space or tuner"))
    config = add_group(verbs, "config", "show configurations")
    add_id(
        add_verb(
            config,
            "show",
            "stored:show_config",
            "show the configuration of an experiment",
            about="A terminal gets YAML, a pipe gets JSON as NNI prints it.",
            examples=("nnictl config show ab12cd34",),
        )
    )


def _read(group: Verbs[Parser]) -> None:
    listed = add_verb(
        group,
        "list",
        "experiments:list_all",
        "list experiments",
        about="A terminal gets a table, a pipe gets lines as NNI prints them.",
        examples=("nnictl experiment list", "nnictl experiment list --all --json"),
    )
    listed.add_argument("--all", action="store_true", help="also list stopped and archived experiments")
    add_id(
        add_verb(
            group,
            "show",
            "experiments:show",
            "show an experiment's status, limits, command and folder",
            about="A terminal gets a summary, a pipe gets JSON as NNI prints it.",
            examples=("nnictl experiment show", "nnictl experiment show ab12cd34 --json"),
        )
    )
    add_id(
        add_verb(
            group,
            "status",
            "experiments:status",
            "show the status, the best trial and the last failure of an experiment",
            about="It also shows errors of the tuner and the assessor, and what is unusual now.\n"
            "A terminal gets sentences, a pipe gets JSON as NNI prints it.",
            examples=("nnictl experiment status", "nnictl experiment status ab12cd34 --json"),
        )
    )


def _label(group: Verbs[Parser]) -> None:
    tag = add_verb(
        group,
        "tag",
        "experiments:tag",
        "show the tags of an experiment, add tags or remove them",
        examples=(
            "nnictl experiment tag ab12cd34",
            "nnictl experiment tag ab12cd34 baseline resnet",
            "nnictl experiment tag ab12cd34 --clear",
        ),
    )
    tag.add_argument("id", metavar="ID", help=_NAMED)
    tag.add_argument(
        "tags", nargs="*", default=(), metavar="TAG", help="a tag to add (default: show the tags)"
    )
    tag.add_argument("--clear", action="store_true", help="first remove the present tags")
    archive = add_verb(
        group,
        "archive",
        "experiments:archive",
        "hide a finished experiment",
        examples=("nnictl experiment archive ab12cd34", "nnictl experiment archive ab12cd34 --undo"),
    )
    archive.add_argument("id", metavar="ID", help=_NAMED)
    archive.add_argument("--undo", action="store_true", help="list it again")
    delete = add_verb(
        group,
        "delete",
        "experiments:delete",
        "delete stopped experiments and all their files",
        examples=("nnictl experiment delete ab12cd34", "nnictl experiment delete --all --yes"),
    )
    delete.add_argument("id", nargs="?", metavar="ID", help=_NAMED)
    delete.add_argument("-a", "--all", action="store_true", help="all experiments")
    delete.add_argument(
        "--leave-unreachable",
        "--leave_unreachable",
        action="store_true",
        help="delete even if files on unreachable machines cannot be removed, and list them",
    )
    delete.add_argument("-y", "--yes", action="store_true", help="do not ask")


def _results(group: Verbs[Parser]) -> None:
    load = add_verb(
        group,
        "import",
        "importing:import_trials",
        "import results into an experiment, or trials of another program",
        about=(
            "\n--filename FILE [ID]\n"
            "    The tuner of the running experiment ID learns from the results in a JSON\n"
            '    file that "experiment export" has written.\n'
            "--from KIND SOURCE --to ID\n"
            "    The tuner of the running experiment ID learns from the results of another\n"
            "    program.\n"
            "--from KIND SOURCE\n"
            "    The trials of another program become a new experiment, which is stopped.\n"
            "    If you give --config now, you can resume it later."
        ),
        examples=(
            "nnictl experiment import --filename results.json",
            "nnictl experiment import --from csv results.csv --to ab12cd34",
            "nnictl experiment import --from optuna sqlite:///study.db --config exp.yml",
            "nnictl experiment import --from ray ~/ray_results/train --to ab12cd34",
        ),
    )
    load.add_argument(
        "id",
        nargs="?",
        metavar="ID|SOURCE",
        help="with --from: the file, folder or URL to read; else the experiment (default: the running one)",
    )
    add_port(load)
    what = load.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "-f", "--filename", metavar="FILE", help='JSON with results, as "experiment export" writes it'
    )
    what.add_argument(
        "--from", dest="kind", choices=("csv", "nni", "optuna", "ray", "wandb"), help="the kind of the source"
    )
    load.add_argument("--to", metavar="ID", help="the experiment whose tuner gets the results")
    load.add_argument(
        "--config", metavar="FILE", help="the configuration with which the new experiment can be continued"
    )
    load.add_argument(
        "--metric", action="append", metavar="NAME", help="the number that is the result; may be repeated"
    )
    load.add_argument("--parameters", metavar="NAME,NAME", help="the columns of a table that are parameters")
    load.add_argument("--study", metavar="NAME", help="the Optuna study, if the storage has several")
    load.add_argument(
        "--goal",
        choices=("maximize", "minimize"),
        help="which results are better (default: as the source says)",
    )
    pareto = add_verb(
        group,
        "pareto",
        "pareto:pareto",
        "list the best trials by several objectives (Pareto set)",
        about="A trial is left out if another one is at least as good in every objective, and\n"
        "better in one.",
        examples=("nnictl experiment pareto", "nnictl experiment pareto --filter 'ms<5'"),
    )
    add_id(pareto)
    pareto.add_argument(
        "--filter", default="", help="consider only trials that match, such as status:SUCCEEDED"
    )
    _export(group)


def _export(group: Verbs[Parser]) -> None:
    export = add_verb(
        group,
        "export",
        "results:export",
        "export the results of an experiment's trials",
        about="Only SUCCEEDED trials are exported. Trials that were stopped early, have failed\n"
        "or were canceled are left out, even if they have a result.\n"
        "Without --type and --filename, a terminal gets a table and a pipe gets JSON.\n\n"
        'As in NNI, JSON has each result as a text, such as "0.93", and the list\n'
        '"intermediate" ends with the final result.',
        examples=(
            "nnictl experiment export",
            "nnictl experiment export --filename results.csv",
            "nnictl experiment export ab12cd34 --intermediate > results.json",
        ),
    )
    add_id(export)
    export.add_argument(
        "-t",
        "--type",
        choices=("json", "csv"),
        help="the format (default: csv for a file whose name ends with .csv, else json)",
    )
    export.add_argument("-f", "--filename", metavar="FILE", help="the file (default: standard output)")
    export.option_of_words = "--filename"
    export.add_argument("-i", "--intermediate", action="store_true", help="with intermediate results")


def _archives(group: Verbs[Parser]) -> None:
    saved = add_verb(
        group,
        "save",
        "archives:save",
        "save an experiment as one file",
        about="The experiment may be running. Passwords and the environment are not saved.",
        examples=(
            "nnictl experiment save ab12cd34",
            "nnictl experiment save ab12cd34 --path backup.zip --saveCodeDir",
        ),
    )
    saved.add_argument("id", nargs="?", metavar="ID", help=f"{_NAMED} ({DEFAULT_EXPERIMENT})")
    saved.add_argument(
        *("-p", "--path"),
        metavar="FILE",
        help="a file that ends in .zip, or a folder, which is created if missing (default: this directory)",
    )
    saved.add_argument("-s", "--saveCodeDir", action="store_true", help="also save the trial code")
    saved.option_of_words = "--path"
    loaded = add_verb(
        group,
        "load",
        "archives:load",
        "load an experiment from a saved file",
        examples=(
            "nnictl experiment load --path nni_experiment_ab12cd34.zip",
            "nnictl experiment load --path backup.zip --codeDir my_code",
        ),
    )
    loaded.add_argument("-p", "--path", metavar="FILE", required=True, help="the saved file")
    loaded.add_argument(
        "-c",
        "--codeDir",
        metavar="DIR",
        help="directory for the trial code, from which trials will run",
    )
    loaded.add_argument(
        "-l", "--logDir", metavar="DIR", help="the folder in which the experiment's folder is created"
    )
    loaded.add_argument("-s", "--searchSpacePath", metavar="FILE", help="write the search space to this file")


def _update(group: Verbs[Parser]) -> None:
    space = add_verb(
        group,
        "searchspace",
        "update:searchspace",
        "change the search space",
        examples=("nnictl update searchspace --filename search_space.yml",),
    )
    add_id(space, to_change=True)
    space.add_argument(
        "-f",
        "--filename",
        required=True,
        metavar="FILE",
        help="the new search space, or an exp.yml that has it",
    )
    space.add_argument("--constraints", metavar="FILE", help="new constraints on the search space, as a list")
    constraints = add_verb(
        group,
        "constraints",
        "update:constraints",
        "change the constraints on the search space",
        examples=("nnictl update constraints --filename constraints.yml",),
    )
    add_id(constraints, to_change=True)
    constraints.add_argument(
        "-f",
        "--filename",
        required=True,
        metavar="FILE",
        help="a list of the new constraints, or an exp.yml that has it",
    )
    tuner = add_verb(
        group,
        "tuner",
        "tuner:replace",
        "continue with another tuner, which gets the whole history",
        examples=("nnictl update tuner --filename exp.yml",),
    )
    add_id(tuner, to_change=True)
    tuner.add_argument(
        "-f", "--filename", required=True, metavar="FILE", help="the new tuner, or an exp.yml that has it"
    )
    rules = add_verb(
        group,
        "stopwhen",
        "update:stopwhen",
        "change the rules that end the experiment",
        examples=("nnictl update stopwhen --filename exp.yml",),
    )
    add_id(rules, to_change=True)
    rules.add_argument(
        "-f",
        "--filename",
        required=True,
        metavar="FILE",
        help="the new stopWhen, or an exp.yml that has it; an empty file removes all rules",
    )
    for name, summary, value, help in (
        ("concurrency", "change how many trials run at the same time", "4", "the number of slots"),
        ("duration", "change the limit of the running time", "2h", "the limit, such as 30m or 2h"),
        ("trialnum", "change the limit of the number of trials", "100", "the limit, such as 100"),
        (
            "priority",
            "change which experiment gets free machines first",
            "10",
            "a whole number from -1000 to 1000, at first 0; the highest comes first",
        ),
    ):
        verb = add_verb(
            group, name, f"update:{name}", summary, examples=(f"nnictl update {name} --value {value}",)
        )
        add_id(verb, to_change=True)
        verb.add_argument("-v", "--value", required=True, help=help)
