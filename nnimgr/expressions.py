"""Expressions over parameter names, such as ``batch_size * width`` or ``2 if model == 'large' else 1``.

Expressions use Python's grammar. They are parsed with ``ast`` and compiled to closures of the few operations
below. No text is ever run as code, and the cost of one evaluation is bounded. Evaluation goes from left to
right, as in Python.

Standard library only, because tuners' processes evaluate constraints, which are expressions, for every set.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from nnimgr import spelling
from nnimgr.constraint_values import (
    ARITHMETIC,
    COMPARISONS,
    FUNCTIONS,
    Absent,
    Fault,
    as_bool,
    as_number,
    compared,
    item_of,
    shown,
)
from nnimgr.search_space import Choice, Nested, Space

__all__ = ["Condition", "Expression", "ExpressionError", "Names", "names_of"]

Names = Mapping[str, Any]  # parameter -> parameters nested in it (empty: none; None: unknown)

_Value = Callable[[Any], Any]
_Path = tuple[str, ...]

_LONGEST = 1000  # most characters of an expression
_MOST_NAMED = 8  # most parameters that an error names
_DEEPEST = 40


class ExpressionError(ValueError):
    """Error: an expression cannot be used, or has no value. The message is one sentence.

    ``nearest``: the text that the user probably meant, in the syntax of expressions.
    """

    def __init__(self, sentence: str, *, nearest: str | None = None) -> None:
        super().__init__(sentence)
        self.nearest = nearest


class Expression:
    """Expression over the parameters of a set. The constructor raises ExpressionError.

    ``names``: names of parameters that the expression may use. None: all names are accepted.
    """

    def __init__(self, text: str, names: Names | None = None) -> None:
        self.text = text.strip()
        compiler = _Compiler(names)
        self._evaluate = self._compiled(compiler, _tree(self.text))
        self._used = compiler.used

    def _compiled(self, compiler: _Compiler, tree: ast.expr) -> _Value:
        return compiler.value(tree, 0)

    def value(self, parameters: Any) -> Any:
        """Return the value for a parameter set.

        Raise ExpressionError if it has none, and Absent if it needs a parameter that the set does not have.
        """
        try:
            return self._evaluate(parameters)
        except OverflowError:
            raise ExpressionError("a number becomes too large") from None
        except ZeroDivisionError:
            raise ExpressionError("a number is divided by zero") from None
        except (Fault, ArithmeticError, TypeError, ValueError, LookupError) as error:
            raise ExpressionError(str(error)) from error

    def uses_parameters(self) -> bool:
        return bool(self._used)

    def given(self, parameters: Any) -> str:
        """Return the values of the parameters in the expression as a text, such as ``width = 512``."""
        found = []
        for path, get in self._used.items():
            try:
                found.append(f"{_written(path)} = {shown(get(parameters))}")
            except Absent:
                continue
        return ", ".join(found)


class Condition(Expression):
    """Expression that is true or false."""

    def _compiled(self, compiler: _Compiler, tree: ast.expr) -> _Value:
        return compiler.truth(tree, 0)


def names_of(space: Space) -> Names:
    """Return the names of parameters that expressions may use in this search space."""
    return {name: _below(spec) for name, spec in space.parameters}


def _below(spec: Any) -> Names:
    found: dict[str, Any] = {}
    if isinstance(spec, Nested):
        found["_name"] = {}
        for _, inner in spec.options:
            _merge(found, names_of(inner))
    elif isinstance(spec, Choice):
        for option in spec.options:
            if isinstance(option, Mapping):
                _merge(found, {str(key): None for key in option})
    return found


def _merge(found: dict[str, Any], more: Names) -> None:
    for name, below in more.items():
        if isinstance(below, Mapping) and isinstance(found.get(name), Mapping):
            merged = dict(found[name])
            _merge(merged, below)
            found[name] = merged
        else:
            found[name] = below


# Parsing and checking of the text


def _tree(text: str) -> ast.expr:
    if not text:
        raise ExpressionError("is empty")
    if len(text) > _LONGEST:
        raise ExpressionError(f"has {len(text):,} characters, and may have {_LONGEST:,}")
    try:
        return ast.parse(text.replace("\n", " "), mode="eval").body
    except SyntaxError as error:
        where = f"character {error.offset}" if error.offset else "its end"
        raise ExpressionError(f"cannot be read at {where}: {_hint(text, error)}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ExpressionError(f"cannot be read: {error or 'it is nested too deeply'}") from None


def _hint(text: str, error: SyntaxError) -> str:
    for wrong, right in (("&&", "and"), ("||", "or"), ("!", "not")):
        if wrong in text.replace("!=", ""):
            return f"write {right} for {wrong}"
    if re.search(r"[^=<>!]=[^=]", text):
        return "write == for ="
    return error.msg


class _Compiler:
    """Compiler that turns the syntax tree of an expression into a closure, which evaluates a parameter set.

    ``used``: path of each parameter in the expression -> function that returns its value in a parameter set.
    """

    def __init__(self, names: Names | None) -> None:
        self._names = names
        self.used: dict[_Path, _Value] = {}

    def truth(self, node: ast.expr, depth: int) -> _Value:
        """Compile an expression to a closure that returns True or False for a parameter set."""
        _check_depth(depth)
        match node:
            case ast.BoolOp(op=op, values=values):
                parts = tuple(self.truth(value, depth + 1) for value in values)
                return _every(parts) if isinstance(op, ast.And) else _some(parts)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self.truth(operand, depth + 1)
                return lambda p: not inner(p)
            case ast.Compare():
                return self._comparison(node, depth)
            case ast.IfExp():
                return self._either(node, self.truth, depth)
            case ast.Constant(value=bool() as constant):
                return lambda p: constant
        path = self._path(node)
        if path is None:
            raise ExpressionError(f"{ast.unparse(node)} is neither true nor false; write a comparison")
        value, name = self._parameter(node), _written(path)
        return lambda p: as_bool(value(p), name)

    def value(self, node: ast.expr, depth: int) -> _Value:
        """Compile an expression to a closure that returns any value for a parameter set."""
        _check_depth(depth)
        match node:
            case ast.Constant(value=str() | int() | float() | None as constant):
                return lambda p: constant
            case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
                return self._list(items, depth)
            case ast.BoolOp() | ast.Compare() | ast.UnaryOp(op=ast.Not()):
                return self.truth(node, depth)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self.value(operand, depth + 1)
                return lambda p: -as_number(inner(p))
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                inner = self.value(operand, depth + 1)
                return lambda p: as_number(inner(p))
            case ast.BinOp():
                return self._arithmetic(node, depth)
            case ast.IfExp():
                return self._either(node, self.value, depth)
        if self._path(node) is not None:
            return self._parameter(node)
        match node:
            case ast.Subscript(value=base, slice=index):
                held, at = self.value(base, depth + 1), self.value(index, depth + 1)
                return lambda p: item_of(held(p), at(p))
            case ast.Call():
                return self._call(node, depth)
        raise ExpressionError(f"{ast.unparse(node)} is not allowed in an expression")

    def _list(self, items: list[ast.expr], depth: int) -> _Value:
        parts = [self.value(item, depth + 1) for item in items]
        if all(isinstance(item, ast.Constant) for item in items):
            constant = [part(None) for part in parts]
            return lambda p: constant
        return lambda p: [part(p) for part in parts]

    def _either(self, node: ast.IfExp, compile_one: Callable[[ast.expr, int], _Value], depth: int) -> _Value:
        test = self.truth(node.test, depth + 1)
        yes, no = compile_one(node.body, depth + 1), compile_one(node.orelse, depth + 1)
        return lambda p: yes(p) if test(p) else no(p)

    def _comparison(self, node: ast.Compare, depth: int) -> _Value:
        operands = [self.value(operand, depth + 1) for operand in (node.left, *node.comparators)]
        tests = [COMPARISONS[type(op)] for op in node.ops]
        if len(tests) == 1:
            (left, right), (test,) = operands, tests
            return lambda p: compared(test, left(p), right(p))
        rest = list(zip(tests, operands[1:], strict=True))

        def chained(p: Any) -> bool:
            x = operands[0](p)
            for test, operand in rest:
                y = operand(p)
                if not compared(test, x, y):
                    return False
                x = y
            return True

        return chained

    def _arithmetic(self, node: ast.BinOp, depth: int) -> _Value:
        operation = ARITHMETIC.get(type(node.op))
        if operation is None:
            raise ExpressionError(
                f"{ast.unparse(node)} is not supported; the operators are + - * / // % ** and, "
                "between conditions, and, or, not"
            )
        left, right = self.value(node.left, depth + 1), self.value(node.right, depth + 1)
        return lambda p: operation(as_number(left(p)), as_number(right(p)))

    def _call(self, node: ast.Call, depth: int) -> _Value:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        function, least, most = FUNCTIONS.get(name, (None, 0, 0))
        if function is None:
            near = spelling.nearest(name, FUNCTIONS, cutoff=0.5)
            raise ExpressionError(
                f"there is no function {ast.unparse(node.func)}, only {', '.join(FUNCTIONS)}", nearest=near
            )
        if node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
            raise ExpressionError(f"{name} takes plain arguments only")
        if not least <= len(node.args) <= most:
            wanted = {(1, 1): "one argument", (1, 2): "one or two arguments"}.get((least, most), "numbers")
            raise ExpressionError(f"{name} takes {wanted}, not {len(node.args)} arguments")
        call: Callable[..., Any] = function
        arguments = [self.value(argument, depth + 1) for argument in node.args]
        if len(arguments) == 1:
            only = arguments[0]
            return lambda p: call(only(p))
        return lambda p: call(*[argument(p) for argument in arguments])

    # Methods that turn the names of parameters into functions

    def _path(self, node: ast.expr) -> _Path | None:
        """Return the names that lead to the parameter in this expression, or None if it is no parameter."""
        match node:
            case ast.Name(id=name):
                return (name,)
            case (
                ast.Attribute(value=base, attr=name)
                | ast.Subscript(value=base, slice=ast.Constant(value=str() as name))
            ):
                above = self._path(base)
                return None if above is None else (*above, name)
            case ast.Call(func=ast.Name(id="param"), args=[ast.Constant(value=str() as name)], keywords=[]):
                return (name,)
        return None

    def _parameter(self, node: ast.expr) -> _Value:
        path = self._path(node)
        assert path is not None
        if self._names is not None:
            _check_path(path, self._names)
        get = self.used.get(path) or _getter(path)
        self.used[path] = get
        return get


def _check_depth(depth: int) -> None:
    if depth > _DEEPEST:
        raise ExpressionError("is nested too deeply")


def _check_path(path: _Path, names: Names) -> None:
    known: Names = names
    for index, name in enumerate(path):
        if name not in known:
            above = path[:index]
            if not above:
                raise _unknown(name, names)
            near = spelling.nearest(name, known, cutoff=0.5)
            nearest = None if near is None else _written((*above, near))
            raise ExpressionError(f"{_written(above)} has no parameter {name} in it", nearest=nearest)
        below = known[name]
        if below is None:
            return
        known = below


def _getter(path: _Path) -> _Value:
    name, rest = path[0], path[1:]
    written = _written(path)

    def get(p: Any) -> Any:
        try:
            value = p[name]
        except (LookupError, TypeError):
            raise Absent(written) from None
        for key in rest:
            if not isinstance(value, Mapping) or key not in value:
                raise Absent(written)
            value = value[key]
        if (
            value.__class__ is dict and "_name" in value
        ):  # a nested choice counts as the name of the chosen option
            return value["_name"]
        return value

    return get


def _written(path: _Path) -> str:
    """Return the name of a parameter as it is written in expressions."""
    name, *rest = path
    text = name if name.isidentifier() else f'param("{name}")'
    return text + "".join(f".{each}" if each.isidentifier() else f'["{each}"]' for each in rest)


# Closures that evaluate parts of an expression


def _every(parts: tuple[_Value, ...]) -> _Value:
    def every(p: Any) -> bool:
        for part in parts:
            if not part(p):
                return False
        return True

    return every


def _unknown(name: str, names: Names) -> ExpressionError:
    """Build the error for an unknown name in an expression.

    It suggests the name that was probably meant. If there is none, it shows the parameters and says that text
    needs quotes.
    """
    sentence = f"the search space has no parameter {name}"
    nearest: str | None = {"true": "True", "false": "False", "none": "None"}.get(name.lower())
    nearest = nearest or next(
        (_written((top, name)) for top, below in names.items() if name in (below or ())), None
    )
    if nearest is None and (near := spelling.nearest(name, names, cutoff=0.5)) is not None:
        nearest = _written((near,))
    if nearest is None:
        more = ", ..." if len(names) > _MOST_NAMED else ""
        known = ", ".join(islice(names, _MOST_NAMED)) + more
        sentence += f"; its parameters are {known}. If {name} is a text, it needs quotes"
    return ExpressionError(sentence, nearest=nearest)


def _some(parts: tuple[_Value, ...]) -> _Value:
    def some(p: Any) -> bool:
        for part in parts:
            if part(p):
                return True
        return False

    return some
