"""The built-in assessors."""

from __future__ import annotations

from nnimgr.dispatcher.arguments import integer, optimize_mode
from nnimgr.dispatcher.builtins.builtin import Builtin

__all__ = ["ASSESSORS"]

ASSESSORS = (
    Builtin(
        role="assessor",
        name="Medianstop",
        target="nnimgr.assessors.medianstop:MedianstopAssessor",
        arguments={"optimize_mode": optimize_mode, "start_step": integer(at_least=0)},
        aliases=("MedianstopAssessor",),
    ),
)
