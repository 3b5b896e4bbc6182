"""The functions ``trace``, ``dump`` and ``load`` under their import path in NNI."""

from nni._trace import (
    PayloadTooLarge,
    Traceable,
    dump,
    is_traceable,
    is_wrapped_with_trace,
    load,
    trace,
)
from nni._trace import named_symbol as import_cls_or_func_from_hybrid_name
from nni._trace import symbol_name as get_hybrid_cls_or_func_name

__all__ = [
    "PayloadTooLarge",
    "SerializableObject",
    "Traceable",
    "dump",
    "get_hybrid_cls_or_func_name",
    "import_cls_or_func_from_hybrid_name",
    "is_traceable",
    "is_wrapped_with_trace",
    "load",
    "trace",
]

SerializableObject = Traceable
