"""Imports go one way: trial_keeper <- training_services <- nnimgr <- nni; no module imports in a circle."""

from __future__ import annotations

import ast
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ("trial_keeper", "training_services", "nnimgr", "nni")
STANDARD_LIBRARY_ONLY = ("trial_keeper", "nni._trial", "nni._values")
NOT_IN_A_LOCAL_KEEPER = {
    *("email", "hashlib", "http.client", "logging", "queue", "random", "secrets", "shutil", "socket", "ssl"),
    *("subprocess", "tempfile", "typing", "urllib.parse", "dataclasses", "inspect"),
}
RULES_MAY_USE = {"nnimgr.rules", "nnimgr.objectives", "training_services.base"}
DATABASE_LIBRARIES = {"sqlite3", "sqlalchemy"}
QUERY = re.compile(r"\s*(SELECT|INSERT INTO|UPDATE \w+ SET|DELETE FROM|CREATE TABLE|PRAGMA) ")
NOT_IN_THE_RULES = {"asyncio", "time", "random", "os", "sqlalchemy", "threading", "pathlib"}


def modules() -> dict[str, Path]:
    found = {}
    for layer in LAYERS:
        for path in (ROOT / layer).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = path
    return found


MODULES = modules()


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imports(name: str, *, lazy: bool) -> Iterator[str]:
    """The modules that a module imports; ``lazy``: also those that its functions import."""
    path = MODULES[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    todo: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parts, base] if base else parts)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield full if full in MODULES else base
        elif not _is_type_checking(node):
            if not lazy and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            todo.extend(ast.iter_child_nodes(node))


@pytest.mark.parametrize("name", sorted(MODULES))
def test_imports_go_one_way(name: str) -> None:
    rank = LAYERS.index(name.split(".")[0])
    upward = {
        target
        for target in imports(name, lazy=True)
        if target.split(".")[0] in LAYERS and LAYERS.index(target.split(".")[0]) > rank
    }
    assert not upward, f"{name} imports upward: {sorted(upward)}"


def test_no_module_imports_in_a_circle() -> None:
    graph = {name: {t for t in imports(name, lazy=True) if t in MODULES} - {name} for name in MODULES}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        if name in trail:
            pytest.fail("circle: " + " -> ".join((*trail[trail.index(name) :], name)))
        if name in done:
            return
        for target in sorted(graph[name]):
            visit(target, (*trail, name))
        done.add(name)

    for name in sorted(graph):
        visit(name, ())


@pytest.mark.parametrize("name", sorted(n for n in MODULES if n.startswith(STANDARD_LIBRARY_ONLY)))
def test_the_trials_side_needs_nothing_but_the_standard_library(name: str) -> None:
    foreign = {
        target.split(".")[0]
        for target in imports(name, lazy=True)
        if target.split(".")[0] not in sys.stdlib_module_names
        and not target.startswith(STANDARD_LIBRARY_ONLY)
    }
    assert not foreign, f"{name} imports {sorted(foreign)}"


def test_a_keeper_on_the_servers_machine_loads_no_large_library() -> None:
    """There is one such keeper per open experiment: each MiB counts a hundred times."""
    show = "import sys; sys.path[:0] = sys.argv[1:]; import trial_keeper.keeper; print(*sys.modules)"
    command = [sys.executable, "-S", "-E", "-c", show, str(ROOT)]
    loaded = set(subprocess.run(command, capture_output=True, check=True, text=True).stdout.split())
    assert not loaded & NOT_IN_A_LOCAL_KEEPER


def test_a_server_starts_without_libraries_that_few_requests_need() -> None:
    show = "import sys; import nnimgr.server.process; print(*sys.modules)"
    command = [sys.executable, "-c", show]
    loaded = set(subprocess.run(command, capture_output=True, check=True, text=True, cwd=ROOT).stdout.split())
    assert not loaded & {"httpx", "numpy", "pathspec", "rich", "sqlalchemy.dialects.postgresql"}


def package(name: str) -> str:
    """Return the package that a module is in; one that is in none stands for itself."""
    parts = name.split(".")
    if parts[0] == "nni":
        return "nni"
    return ".".join(parts[: 3 if parts[:2] == ["nnimgr", "core"] else 2])


def test_no_package_imports_in_a_circle() -> None:
    graph: dict[str, set[str]] = {package(name): set() for name in MODULES}
    for name in MODULES:
        graph[package(name)] |= {package(t) for t in imports(name, lazy=True) if t in MODULES}
    assert list(graphlib.TopologicalSorter({name: graph[name] - {name} for name in graph}).static_order())


@pytest.mark.parametrize("name", sorted(n for n in MODULES if n.startswith("nnimgr.rules.")))
def test_the_rules_are_pure(name: str) -> None:
    used = set(imports(name, lazy=True))
    assert not {target.split(".")[0] for target in used} & NOT_IN_THE_RULES
    assert {package(target) for target in used if target in MODULES} <= RULES_MAY_USE


def test_one_module_knows_the_library_of_kubernetes() -> None:
    knowing = {
        name
        for name in MODULES
        if any(target.split(".")[0] == "kubernetes" for target in imports(name, lazy=True))
    }
    assert knowing == {"training_services.kubernetes.login"}
    assert "training_services.kubernetes.login" not in imports(
        "training_services.kubernetes.client", lazy=False
    )


@pytest.mark.parametrize("name", sorted(n for n in MODULES if not n.startswith("nnimgr.store")))
def test_queries_are_in_the_store_only(name: str) -> None:
    assert not {target.split(".")[0] for target in imports(name, lazy=True)} & DATABASE_LIBRARIES
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    assert not [text for text in texts if isinstance(text, str) and QUERY.match(text)]


@pytest.mark.parametrize(
    "name", ["nnimgr.store.bulk", "nnimgr.store.overview", "nnimgr.store.past", "nnimgr.store.sink_events"]
)
def test_what_must_start_quickly_reads_without_a_large_library(name: str) -> None:
    found: set[str] = set()
    todo = [name]
    while todo:
        for target in set(imports(todo.pop(), lazy=False)) - found:
            found.add(target)
            todo += [target] if target in MODULES else []
    assert "sqlalchemy" not in {target.split(".")[0] for target in found}


def test_modules_of_a_folder_differ_by_more_than_case() -> None:
    """On a file system that ignores case, an import would find either of them."""
    paths = {path.with_name(path.name.partition(".")[0]) for path in (ROOT / "webui" / "src").rglob("*.ts*")}
    assert len({str(path).lower() for path in paths}) == len(paths)
