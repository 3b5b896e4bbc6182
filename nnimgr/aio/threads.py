"""Makes methods to await from methods of the synchronous Python API, with the same arguments and types."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

__all__ = ["Wrapper", "each", "function", "in_thread", "method", "own", "read"]

P = ParamSpec("P")
S = TypeVar("S")
R = TypeVar("R")
T = TypeVar("T")

_Awaited = Coroutine[Any, Any, T]


class Wrapper(Generic[S]):
    """Base class of the objects of this API. ``of``: the object of the synchronous API."""

    def __init__(self, of: S) -> None:
        self.of = of

    def __repr__(self) -> str:
        return f"<aio.{type(self).__name__}>"  # without a request, which would block the event loop

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show in IPython what the synchronous object shows, also if this asks the server."""
        printer.text(repr(self.of))


async def in_thread(work: Callable[[], R], *, unused: Callable[[R], object] | None = None) -> R:
    """Call ``work`` in a thread of its own, and return its result.

    If the caller is canceled, the thread runs on, and ``unused`` is called with the result. The thread is a
    daemon, so it does not keep the program from exiting.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[R] = loop.create_future()

    def deliver(result: R) -> None:
        if not future.cancelled():
            future.set_result(result)
        elif unused is not None:
            _start(lambda: unused(result))

    def run() -> None:
        try:
            answer = functools.partial(deliver, work())
        except BaseException as error:
            answer = functools.partial(_fail, future, error)
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            loop.call_soon_threadsafe(answer)

    _start(run)
    try:
        return await future
    except asyncio.CancelledError:
        if unused is not None and future.done() and not future.cancelled() and future.exception() is None:
            result = future.result()  # which has come in the same moment
            _start(lambda: unused(result))
        raise


def _start(work: Callable[[], object]) -> None:
    run = functools.partial(contextvars.copy_context().run, work)
    threading.Thread(target=run, name="nnimgr-aio", daemon=True).start()


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.cancelled():
        future.set_exception(error)


async def each(items: Iterator[R]) -> AsyncIterator[R]:
    """Yield the items of an iterator. Each is waited for in a thread."""
    end = object()
    while (item := await in_thread(lambda: next(items, end))) is not end:
        yield item  # type: ignore[misc]


def _same(result: Any) -> Any:
    return result


@overload
def function(of: Callable[P, R]) -> Callable[P, _Awaited[R]]: ...


@overload
def function(of: Callable[P, R], returns: Callable[[R], T]) -> Callable[P, _Awaited[T]]: ...


def function(of: Callable[P, Any], returns: Callable[[Any], Any] = _same) -> Callable[P, _Awaited[Any]]:
    """Return the function as one to await. ``returns``: class of this API for its result."""

    @functools.wraps(of)
    async def awaited(*args: P.args, **kwargs: P.kwargs) -> Any:
        return returns(await in_thread(functools.partial(of, *args, **kwargs)))

    return awaited


class _Method(Generic[S, P, T]):
    """Method to await. ``of``: the method of the synchronous class."""

    def __init__(self, of: Callable[Concatenate[S, P], Any], returns: Callable[[Any], T]) -> None:
        self.of, self._returns = of, returns
        self.__doc__ = of.__doc__

    def __get__(self, instance: Wrapper[S] | None, owner: type[object]) -> Callable[P, _Awaited[T]]:
        if instance is None:  # of the class, for example for its documentation
            return self.of  # type: ignore[return-value]
        return function(functools.partial(self.of, instance.of), self._returns)


@overload
def method(of: Callable[Concatenate[S, P], R]) -> _Method[S, P, R]: ...


@overload
def method(of: Callable[Concatenate[S, P], R], returns: Callable[[R], T]) -> _Method[S, P, T]: ...


def method(of: Callable[Concatenate[S, P], Any], returns: Callable[[Any], Any] = _same) -> _Method[S, P, Any]:
    """Return a method of a synchronous class as one to await.

    ``returns``: class of this API for its result.
    """
    return _Method(of, returns)


@overload
def read(of: Callable[[S], R]) -> _Method[S, [], R]: ...


@overload
def read(of: Callable[[S], R], returns: Callable[[R], T]) -> _Method[S, [], T]: ...


def read(of: Any, returns: Callable[[Any], Any] = _same) -> _Method[Any, [], Any]:
    """Return a property of a synchronous class, which reads from the server, as a method to await."""
    return _Method(_getter(of), returns)


class _Own(Generic[S, R]):
    """Property that needs no call to the server."""

    def __init__(self, of: Callable[[S], R]) -> None:
        self.of = of
        self.__doc__ = of.__doc__

    def __get__(self, instance: Wrapper[S] | None, owner: type[object]) -> R:
        if instance is None:  # of the class, for example for its documentation
            return self  # type: ignore[return-value]
        return self.of(instance.of)


def own(of: Callable[[S], R]) -> _Own[S, R]:
    """Return a property of a synchronous class, which needs no call to the server."""
    return _Own(_getter(of))


def _getter(of: Any) -> Any:
    """Return the function of a property. For type checkers, a property of a class is its function."""
    return of.fget if isinstance(of, property) else of.func
