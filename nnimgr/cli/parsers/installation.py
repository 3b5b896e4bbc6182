"""Parsers of the verbs about this installation: machines, servers, algorithms and platforms."""

from __future__ import annotations

from nnimgr.cli.parsers.base import Parser, Verbs, add_group, add_id, add_verb, port

__all__ = ["SHELLS", "add"]

_MACHINE = 'the machine, as "machine ls" shows it, or its host'
SHELLS = ("bash", "zsh", "fish")


def add(verbs: Verbs[Parser]) -> None:
    _machine(add_group(verbs, "machine", "list, add and remove an experiment's machines"))
    _algo(add_group(verbs, "algo", "register tuners, assessors and schedulers of your own"))
    _trainingservice(add_group(verbs, "trainingservice", "register training services of your own"))
    doctor = add_verb(
        verbs,
        "doctor",
        "doctor:doctor",
        "check every machine of a configuration, or show what differs from NNI",
        examples=("nnictl doctor --config exp.yml", "nnictl doctor --nni --config config.yml"),
    )
    doctor.add_argument(
        "-c", "--config", required=True, metavar="FILE", help="the configuration of an experiment"
    )
    doctor.add_argument(
        "--nni",
        action="store_true",
        help="show, line by line, what nnimgr does differently from NNI; no machine is checked",
    )
    webui = add_group(verbs, "webui", "show the address of the dashboard")
    add_id(
        add_verb(
            webui,
            "url",
            "webui:url",
            "print an address of the dashboard, which signs a browser in once",
            examples=("nnictl webui url", "nnictl webui url --port 8081"),
        )
    )
    hello = add_verb(
        verbs,
        "hello",
        "hello:hello",
        "write an example experiment into a new folder",
        examples=("nnictl hello", "nnictl hello --directory my_experiment"),
    )
    hello.add_argument(
        "--directory", default="nni_hello_hpo", help="the folder for the example (default: %(default)s)"
    )
    completion = add_verb(
        verbs,
        "completion",
        "completion:completion",
        "print the shell code that completes commands and ids",
        about="Add the line for your shell to the file that this shell reads at its start.",
        examples=(
            'eval "$(nnictl completion bash)"      # in ~/.bashrc',
            'eval "$(nnictl completion zsh)"       # in ~/.zshrc',
            "nnictl completion fish | source       # in ~/.config/fish/config.fish",
        ),
    )
    completion.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"one of {', '.join(SHELLS)}")


def _machine(group: Verbs[Parser]) -> None:
    add_id(
        add_verb(
            group,
            "ls",
            "machines:list_all",
            "list the machines of an experiment",
            examples=("nnictl machine ls",),
        ),
        to_change=True,
    )
    more = add_verb(
        group,
        "add",
        "machines:add",
        "add machines to an experiment",
        examples=("nnictl machine add --host gpu7 --user me", "nnictl machine add --filename machines.yml"),
    )
    add_id(more, to_change=True)
    more.add_argument("-f", "--filename", metavar="FILE", help="a machineList, or one machine")
    more.add_argument("--host", help="a name or an address, or a host of ~/.ssh/config")
    more.add_argument("--user", help="the account on that machine")
    more.add_argument(
        "--ssh-port", type=port, metavar="PORT", help="the port of the machine's SSH server (default: 22)"
    )
    more.add_argument("--ssh-key-file", metavar="FILE", help="a private key of yours")
    drain = add_verb(
        group,
        "drain",
        "machines:drain",
        "place no more trials on a machine",
        examples=("nnictl machine drain gpu7", "nnictl machine drain gpu7 --undo"),
    )
    drain.add_argument("machine", metavar="MACHINE", help=_MACHINE)
    add_id(drain, to_change=True)
    drain.add_argument("--undo", action="store_true", help="place trials on the machine again")
    remove = add_verb(
        group,
        "remove",
        "machines:remove",
        "drain a machine, then remove it from the experiment",
        examples=("nnictl machine remove gpu7", "nnictl machine remove gpu7 --force"),
    )
    remove.add_argument("machine", metavar="MACHINE", help=_MACHINE)
    add_id(remove, to_change=True)
    remove.add_argument(
        "--force", action="store_true", help="stop the machine's trials; they run again on other machines"
    )


def _algo(group: Verbs[Parser]) -> None:
    register = add_verb(
        group,
        "register",
        "algo:register",
        "register tuners, assessors and schedulers",
        aliases=("reg",),
        examples=("nnictl algo register --meta_path my_tuner.yml",),
    )
    register.add_argument(
        "-m",
        "--meta_path",
        "--meta-path",
        required=True,
        metavar="FILE",
        help="the description of the algorithms",
    )
    unregister = add_verb(
        group,
        "unregister",
        "algo:unregister",
        "unregister an algorithm",
        aliases=("unreg",),
        examples=("nnictl algo unregister MyTuner",),
    )
    unregister.add_argument("name", metavar="NAME", help="the algorithm's name")
    show = add_verb(group, "show", "algo:show", "show an algorithm", examples=("nnictl algo show TPE",))
    show.add_argument("name", metavar="NAME", help="the algorithm's name")
    add_verb(
        group,
        "list",
        "algo:list_all",
        "list all algorithms, built in and registered",
        examples=("nnictl algo list",),
    )


def _trainingservice(group: Verbs[Parser]) -> None:
    for name in ("register", "unregister"):
        verb = add_verb(
            group,
            name,
            f"trainingservice:{name}",
            f"{name} a training service",
            examples=(f"nnictl trainingservice {name} --package my_service",),
        )
        verb.add_argument(
            "--package", required=True, metavar="P", help="the name of the module that has the service"
        )
    add_verb(
        group,
        "list",
        "trainingservice:list_all",
        "list all training services: built in, installed and registered",
        examples=("nnictl trainingservice list",),
    )
