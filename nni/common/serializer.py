"""NNI's import path of ``trace``, ``dump`` and ``load``."""

from nni._trace import (
    PayloadTooLarge,
    Traceable,
    dump,
    is_traceable,
    is_wrapped_with_trace,
    load,
    trace,
)

__all__ = [
    "PayloadTooLarge",
    "SerializableObject",
    "Traceable",
    "dump",
    "is_traceable",
    "is_wrapped_with_trace",
    "load",
    "trace",
]

SerializableObject = Traceable
