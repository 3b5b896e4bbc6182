"""The functions ``nni.trace``, ``nni.dump`` and ``nni.load``: JSON text that describes how objects were
created.

Needs only the standard library, on Python 3.8 or newer. An object whose class cannot be imported is pickled,
with cloudpickle if that is installed. The text has the same format as in NNI.
"""

from __future__ import annotations

import base64
import copy
import functools
import importlib
import inspect
import json
import os
import pickle
import sys
import types
import warnings

from nni._values import REST, decode_plain, encode_plain, strip_comments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    T = TypeVar("T")

__all__ = [
    "PayloadTooLarge",
    "Traceable",
    "dump",
    "is_traceable",
    "is_wrapped_with_trace",
    "load",
    "named_symbol",
    "symbol_name",
    "trace",
]

_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)
_PLAIN = (str, int, float, list, tuple, dict, set)  # as in NNI, dump writes their values even if traced


class PayloadTooLarge(Exception):
    """Error: the pickle of an object is larger than ``pickle_size_limit``."""


# ---- trace ------------------------------------------------------------------------------------------------


class _Noted:
    """Attribute of a traced object that is stored in its ``__dict__`` as ``name``.

    Subclasses of a traced class have the attribute, but their instances need not store it.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, made: Any, owner: Any = None) -> Any:
        if made is None:
            return self
        if self._name not in made.__dict__:
            raise AttributeError(
                f"{type(made).__name__} does not store how its objects were created: apply nni.trace to it"
            )
        return made.__dict__[self._name]

    def __set__(self, made: Any, value: Any) -> None:
        made.__dict__[self._name] = value


class Traceable:
    """Description of how an object was created: its class or function, and the arguments.

    A traced object has the attributes of this class. An instance of this class itself is only the
    description, without an object.
    """

    trace_symbol = _Noted("_nni_symbol")  # class or function that created the object
    trace_args = _Noted("_nni_args")  # list of the arguments that were passed by position
    trace_kwargs = _Noted("_nni_kwargs")  # dictionary of those that were passed by name

    def __init__(self, symbol: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
        _remember(self, symbol, args, kwargs)

    def trace_copy(self) -> Traceable:
        """Return a copy of the description that can be changed.

        The ``get`` of the copy creates another object.
        """
        return Traceable(self.trace_symbol, list(self.trace_args), dict(self.trace_kwargs))

    def get(self) -> Any:
        """Return the object. If this is only a description of an object, create the object."""
        if type(self) is Traceable:
            return trace(self.trace_symbol)(*self.trace_args, **self.trace_kwargs)
        return self


_MEMBERS = ("trace_symbol", "trace_args", "trace_kwargs", "trace_copy", "get")


def _remember(made: Any, symbol: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
    made.__dict__.update(_nni_symbol=symbol, _nni_args=args, _nni_kwargs=kwargs)


def is_traceable(obj: Any, must_be_instance: bool = False) -> bool:
    """Return whether the object stores how it was created (see ``trace``)."""
    if must_be_instance and isinstance(obj, type):
        return False
    return all(hasattr(obj, name) for name in _MEMBERS[:4])


def is_wrapped_with_trace(cls_or_func: Any) -> bool:
    """Return whether ``trace`` was applied to this class or function."""
    return getattr(cls_or_func, "_traced", False) is True and (
        not isinstance(cls_or_func, type) or "_traced" in cls_or_func.__dict__
    )


def trace(cls_or_func: Any = None, *, kw_only: bool = True, inheritable: bool = False) -> Any:
    """Make the objects of a class or function store how they were created, so that ``dump`` can describe
    them.

    ``kw_only``: store arguments by name where possible. ``inheritable``: also apply to instances of
    subclasses. If the variable NNI_TRACE_FLAG is "disable", return the argument unchanged. Raise TypeError if
    the argument is neither a class nor a function.
    """
    if os.environ.get("NNI_TRACE_FLAG", "").lower() == "disable":
        return cls_or_func

    def wrap(found: Any) -> Any:
        if is_wrapped_with_trace(found):
            return found
        if isinstance(found, type):
            return _trace_class(found, kw_only, inheritable)
        if isinstance(found, _FUNCTIONS):
            return _trace_function(found, kw_only)
        raise TypeError(f"{found!r} is neither a class nor a function")

    return wrap if cls_or_func is None else wrap(cls_or_func)


def _trace_class(cls: Any, kw_only: bool, inheritable: bool) -> Any:
    """Return a class whose instances store how they were created.

    If ``trace`` decorates the definition of ``cls``, change and return ``cls`` itself. Otherwise other code
    may use ``cls`` already, so return a subclass.
    """
    original = cls.__init__
    made = cls
    if _is_known(cls):
        members = {
            "__module__": cls.__module__,
            "__wrapped__": cls,
            "__reduce__": lambda self: (_made_again, (cls, kw_only, inheritable, self.__dict__)),
        }
        made = type(cls.__name__, (cls,), members)

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        positional, named = _arguments(original, args, kwargs, kw_only, skip=1)
        original(self, *map(_unwrapped, positional), **{key: _unwrapped(v) for key, v in named.items()})
        if inheritable or type(self) is made:
            _remember(self, cls, positional, named)

    made.__init__ = init
    _make_traceable(made)
    made._traced = True
    return made


def _is_known(cls: Any) -> bool:
    """Return whether the class is already available in its module. While a decorator runs, it is not."""
    found = sys.modules.get(cls.__module__)
    for name in cls.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is cls


def _made_again(cls: Any, kw_only: bool, inheritable: bool, state: dict[str, Any]) -> Any:
    """Create an instance of a traced class from its pickled attributes ``state``."""
    traced = _trace_class(cls, kw_only, inheritable)
    made = traced.__new__(traced)
    made.__dict__.update(state)
    return made


def _trace_function(function: Any, kw_only: bool) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        positional, named = _arguments(function, args, kwargs, kw_only)
        result = function(*map(_unwrapped, positional), **{key: _unwrapped(v) for key, v in named.items()})
        if result is None:
            return Traceable(function, positional, named)
        if isinstance(result, (*_FUNCTIONS, types.ModuleType, type)):
            raise TypeError(f"{result!r} cannot store how it was created")
        if not hasattr(result, "__dict__"):
            kind = type(result)
            result = _make_traceable(type(kind.__name__, (kind,), {}))(result)
        elif not is_traceable(result):
            _make_traceable(type(result))
        _remember(result, function, positional, named)
        return result

    call._traced = True  # type: ignore[attr-defined]
    return call


def _make_traceable(cls: type) -> type:
    for name in _MEMBERS:
        setattr(cls, name, Traceable.__dict__[name])
    return cls


def _arguments(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], kw_only: bool, *, skip: int = 0
) -> tuple[list[Any], dict[str, Any]]:
    """Return the positional and the named arguments of a call.

    With ``kw_only``, name the positional ones if possible. Generators are replaced by lists.
    """
    positional, named = list(args), dict(kwargs)
    if kw_only:
        try:
            names = list(inspect.signature(function).parameters.values())[skip:]
        except ValueError:  # written in C, and without a signature
            names = []
        kinds = [parameter.kind for parameter in names[: len(args)]]
        if len(kinds) == len(args) and all(kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for kind in kinds):
            positional = []
            named = {parameter.name: value for parameter, value in zip(names, args)}
            named.update(kwargs)
    return [*map(_listed, positional)], {key: _listed(value) for key, value in named.items()}


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, types.GeneratorType) else value


def _unwrapped(value: Any) -> Any:
    """Return the value to pass to the traced function.

    Containers are copied; a placeholder is replaced by the value that it represents.
    """
    if hasattr(value, "_unwrap_parameter"):
        value = value._unwrap_parameter()
    return copy.copy(value) if isinstance(value, (dict, list, set)) else value


# ---- dump -------------------------------------------------------------------------------------------------


def dump(
    obj: Any,
    fp: Any = None,
    *,
    use_trace: bool = True,
    pickle_size_limit: int = 4096,
    allow_nan: bool = True,
    **json_kwargs: Any,
) -> str:
    """Return nearly any value as JSON text. Also write the text to ``fp``, a file or a path, if given.

    ``json_kwargs`` are passed to ``json.dumps``. Raise PayloadTooLarge if a pickle is too large, and
    TypeError or ValueError if a value cannot be converted.
    """

    def encode(value: Any) -> Any:
        traced = is_traceable(value, must_be_instance=True) and not isinstance(value, _PLAIN)
        if use_trace and traced:
            return _encode_traced(value, pickle_size_limit)
        plain = encode_plain(value)
        if plain is not REST:
            return plain
        if hasattr(value, "_dump") and hasattr(value, "_load") and not isinstance(value, type):
            return {**value._dump(), "__instance_type__": symbol_name(type(value), pickle_size_limit)}
        if isinstance(value, (type, *_FUNCTIONS)):
            return {"__nni_type__": symbol_name(value, pickle_size_limit)}
        if hasattr(value, "__dict__") or hasattr(value, "__slots__"):
            return {"__nni_obj__": _pickled(value, pickle_size_limit)}
        raise TypeError(f"{value!r} of type {type(value).__name__} has no JSON form")

    text = json.dumps(_walk(obj, encode), allow_nan=allow_nan, **json_kwargs)
    if isinstance(fp, (str, os.PathLike)):
        with open(fp, "w", encoding="utf-8") as file:
            file.write(text)
    elif fp is not None:
        fp.write(text)
    return text


def _walk(value: Any, encode: Callable[[Any], Any]) -> Any:
    """Return a value as plain JSON values, with ``encode`` applied to all values of other types.

    This is done before ``json`` sees the value, because ``json`` would itself write traced lists and numbers.
    """
    kind = type(value)
    if kind in (str, int, float, bool, type(None)):
        return value
    if kind in (list, tuple):
        return [_walk(item, encode) for item in value]
    if isinstance(value, dict):
        return {key: _walk(item, encode) for key, item in value.items()}
    encoded = encode(value)
    return encoded if type(encoded) is kind else _walk(encoded, encode)


def _encode_traced(value: Any, limit: int) -> dict[str, Any]:
    found: dict[str, Any] = {"__symbol__": symbol_name(value.trace_symbol, limit)}
    if value.trace_args:
        found["__args__"] = value.trace_args
    if value.trace_kwargs:
        found["__kwargs__"] = value.trace_kwargs
    return found


def symbol_name(symbol: Any, pickle_size_limit: int = 4096) -> str:
    """Return ``path:module.name`` for a class or function that can be imported, else ``bytes:`` with its
    pickle.
    """
    path = f"{symbol.__module__}.{symbol.__name__}"
    if symbol.__module__ != "__main__":
        try:
            found = _imported(path)
        except (ImportError, AttributeError):
            found = None
        if found is not None and _bare(found) is _bare(symbol):
            return f"path:{path}"
    return f"bytes:{_pickled(symbol, pickle_size_limit)}"


def _bare(symbol: Any) -> Any:
    return getattr(symbol, "__wrapped__", symbol) if getattr(symbol, "_traced", False) else symbol


def _pickled(value: Any, limit: int) -> str:
    try:
        dumps = importlib.import_module("cloudpickle").dumps
    except ImportError:
        dumps = pickle.dumps
    content = dumps(value)
    if len(content) > limit > 0:
        raise PayloadTooLarge(
            f"the pickle of {value!r:.100} has {len(content)} bytes, more than pickle_size_limit ({limit}): "
            "apply nni.trace to its class, or raise the limit"
        )
    return base64.b64encode(content).decode()


# ---- load -------------------------------------------------------------------------------------------------


def load(
    string: str | None = None,
    *,
    fp: Any = None,
    preserve_order: bool = False,
    ignore_comments: bool = True,
    **json_kwargs: Any,
) -> Any:
    """Return the value that a text from ``dump`` describes, given as ``string`` or in the file ``fp``.

    Traced objects are created again. Use this function only for text that you trust, because the text may
    contain pickles. Raise ValueError if the text is not valid JSON.
    """
    if string is None:
        if isinstance(fp, (str, os.PathLike)):
            with open(fp, encoding="utf-8") as file:
                string = file.read()
        elif fp is not None:
            string = fp.read()
    text: Any = string.decode() if isinstance(string, bytes) else string
    if not isinstance(text, str):
        raise TypeError("nni.load() has nothing to load: give a text, or a file as fp")
    try:
        return json.loads(text, object_hook=_decode, **json_kwargs)
    except ValueError:
        stripped = strip_comments(text) if ignore_comments else text
        if stripped == text:
            raise
        return json.loads(stripped, object_hook=_decode, **json_kwargs)


def _decode(found: dict[str, Any]) -> Any:
    if "__symbol__" in found:
        symbol = trace(named_symbol(found["__symbol__"]))
        return symbol(*found.get("__args__", ()), **found.get("__kwargs__", {}))
    if "__instance_type__" in found:
        rest = {key: value for key, value in found.items() if key != "__instance_type__"}
        return named_symbol(found["__instance_type__"])._load(**rest)
    if "__nni_type__" in found:
        return named_symbol(found["__nni_type__"])
    if "__nni_obj__" in found:
        return _unpickled(found["__nni_obj__"])
    return decode_plain(found)


def named_symbol(name: str) -> Any:
    """Return the class or function for a name that ``symbol_name`` has returned."""
    if name.startswith("bytes:"):
        return _unpickled(name[len("bytes:") :])
    return _imported(name[len("path:") :] if name.startswith("path:") else name)


def _imported(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _unpickled(text: str) -> Any:
    try:
        return pickle.loads(base64.b64decode(text))  # noqa: S301  # what NNI does; see ``load``
    except TypeError:
        warnings.warn(
            "a pickle cannot be loaded; it may be from another version of Python",
            RuntimeWarning,
            stacklevel=2,
        )
        raise
