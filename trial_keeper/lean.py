"""Named tuples without ``typing``, which would cost every keeper 0.7 MiB of memory."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    import collections

    class _Meta(type):
        """Metaclass that makes a named tuple of each class with annotated fields.

        Methods of the class are kept.
        """

        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = list(body["__annotations__"])
            defaults = [body[field] for field in fields if field in body]
            made = collections.namedtuple(name, fields, defaults=defaults, module=body["__module__"])
            for key, value in body.items():
                if key not in fields and key not in ("__annotations__", "__module__"):
                    setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_Meta):
        """Base class of named tuples, like ``typing.NamedTuple``.

        The annotations of its subclasses must be strings.
        """
