"""Generator of ``docs/reference/nnictl.md`` and ``nnimgr.md``: one section per command of the parsers.

It reads the parser's actions, because the text that argparse prints differs between versions of Python.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from nnimgr.cli.parsers import nnictl_parser
from nnimgr.server.main import _parser as server_parser
from tests.reference.markdown import Table, code, page

__all__ = ["commands", "nnictl_page", "server_page"]

_NNICTL = """\
Every command of `nnictl`. The exit code is 0 if the command did what it was asked, 1 after a failure, 2 after
a wrong option and 130 after Ctrl-C. An option may be shortened to a unique beginning. The last line of most
errors is a command: one that mends the error, or the help of the command that was typed.

- An experiment (`ID`) is named by its id, the unique beginning of its id, or its name. Without a name, the
  command takes the running experiment, or else the newest that no user stopped while it ran. A command
  that changes an experiment takes the running one, or else the one that is DONE, if there is just one.
- A trial (`TRIAL`) is named by its number, its id, or the unique beginning of its id.
- If a name is ambiguous, the candidates are listed.

## Terminals and pipes

A terminal gets tables and sentences that fit its width; commands to copy are not broken. In a pipe or a
file, these verbs print what NNI prints, so programs made for NNI's `nnictl` work:

| verb | in a terminal | in a pipe |
| --- | --- | --- |
| `trial ls`, `experiment show`, `experiment status` | a table or lines | NNI's JSON |
| `config show` | YAML | NNI's JSON |
| `experiment list` | a table | NNI's lines, `Id: ...    Name: ...` |
| `experiment export` without `-t` and `-f` | a table | NNI's JSON |
| `log trial -T TRIAL` | the log (`--path`: the path) | `id:... path:...` (`--file stdout`: the log) |
| `log trial` | a table of the trials' folders | `id:... path:...` for each trial |
| `stop`, `update`, `experiment import`, `delete` | what has changed | `Update trialnum success!` and so on |
| `algo list` | a table | NNI's table |
| `create`, `resume`, `view` | the time of the day, then the sentence | NNI's lines with date and time |

In a pipe without `--json`, `trial ls --head N` and `--tail N` list the N largest and the N smallest results,
as in NNI. On a terminal and with `--json`, they list the N best and the N worst trials by the experiment's
goal. A warning says so if the two differ.

Use `--json` in new programs: it has more fields than NNI's JSON. Every verb has it.

A step that takes longer than a second is named on standard error, also with `--json`.

## Options of all commands

- `--json` (all commands): print one JSON value and nothing else.
- `-h`, `--help` (all commands): show the arguments.
- `-v`, `--version` (`nnictl` itself): show the version."""

_SERVER = """\
Serves the experiments of one port until it is told to stop. `nnictl create` starts such a server by itself.
You need this command only for a server that runs all the time: see
[deploy/README.md](../../deploy/README.md). `nnimgr --version` shows the version.

These variables are read as well:

- `NNIMGR_HOME`: the folder of all experiments and of the token (default: `~/nni-experiments`).
- `NNIMGR_LOG_LEVEL`: `debug`, `info`, `warning` or `error`, if `--log-level` is not given.
- `NNIMGR_KEEPERS_LISTEN`, `NNIMGR_KEEPERS_URL`, `NNIMGR_KEEPERS_CA`: as the options of these names."""

_EVERYWHERE = ("help", "json", "version")


def nnictl_page() -> str:
    """Return the page of the commands of ``nnictl``."""
    return page("nnictl", _NNICTL, *_sections(nnictl_parser()))


def server_page() -> str:
    """Return the page of the command that starts a server."""
    return page("nnimgr serve", _SERVER, *_sections(server_parser()))


def _sections(root: argparse.ArgumentParser) -> list[str]:
    """Return the paragraphs of every command below a parser."""
    parts = []
    for name, parser, aliases in commands(root):
        parts += [f"## {name}", parser.description or "", f"    {' '.join([name, *_usage(parser)])}"]
        if aliases:
            parts.append(f"Also: {', '.join(map(code, aliases))}.")
        table = Table("argument", "description", "values", "default")
        for action in _actions(parser):
            table.add(_spelled(action), _help(action), _values(action), _default(action))
        if _actions(parser):
            parts.append(str(table))
        parts.append(_examples(parser))
    return [part for part in parts if part]


def _examples(parser: argparse.ArgumentParser) -> str:
    """Return the examples of a command as a paragraph, or "" if it has none."""
    lines = (parser.epilog or "").splitlines()[1:]
    return "\n".join(["Examples:", "", *(f"    {line.strip()}" for line in lines)]) if lines else ""


def commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser, list[str]]]:
    """Yield every command below a parser: its full name, its parser and its other names."""
    for group in _groups(parser):
        for child in dict.fromkeys(group.choices.values()):
            if _groups(child):
                yield from commands(child)
            else:
                names = [name for name, named in group.choices.items() if named is child]
                yield child.prog, child, names[1:]


def _groups(parser: argparse.ArgumentParser) -> list[argparse._SubParsersAction[argparse.ArgumentParser]]:
    return [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the arguments of one command: positional ones first, without hidden ones."""
    shown = [
        action
        for action in parser._actions
        if action.dest not in _EVERYWHERE and action.help != argparse.SUPPRESS
    ]
    return sorted(shown, key=lambda action: bool(action.option_strings))


def _usage(parser: argparse.ArgumentParser) -> list[str]:
    """Return the arguments as a usage line shows them: [optional], one of (A | B)."""
    grouped = {
        id(each): group for group in parser._mutually_exclusive_groups for each in group._group_actions
    }
    words: dict[int, str] = {}
    for action in _actions(parser):
        group = grouped.get(id(action))
        if group is None:
            words[id(action)] = _word(action) if action.required else f"[{_word(action)}]"
        else:
            choice = " | ".join(map(_word, group._group_actions))
            words[id(group)] = f"({choice})" if group.required else f"[{choice}]"
    return list(words.values())


def _word(action: argparse.Action) -> str:
    value = _value(action)
    if not action.option_strings:
        return f"{value} ..." if action.nargs == "*" else value
    return f"{action.option_strings[0]} {value}".strip()


def _value(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    return str(action.metavar or action.dest.upper())


def _spelled(action: argparse.Action) -> str:
    names = ", ".join(map(code, action.option_strings)) or code(_value(action))
    value = _value(action) if action.option_strings else ""
    return f"{names} {code(value)}" if value else names


def _help(action: argparse.Action) -> str:
    text = (action.help or "") % {"default": action.default}
    return f"(required) {text}".strip() if action.required and action.option_strings else text


def _values(action: argparse.Action) -> str:
    return ", ".join(code(str(choice)) for choice in action.choices or ())


def _default(action: argparse.Action) -> str:
    """Return the default, unless the help text shows it or there is none."""
    if not action.default or action.default == argparse.SUPPRESS or "default" in (action.help or ""):
        return ""
    return code(str(action.default))
