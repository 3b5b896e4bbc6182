"""The built-in algorithms: their names, where they live, and which ``classArgs`` they take.

Nothing here imports an algorithm, so that a configuration is read fast.
"""

from nnimgr.dispatcher.builtins.advisors import ADVISORS
from nnimgr.dispatcher.builtins.assessors import ASSESSORS
from nnimgr.dispatcher.builtins.builtin import Builtin
from nnimgr.dispatcher.builtins.tuners import TUNERS

__all__ = ["BUILTINS", "Builtin"]

BUILTINS = (*TUNERS, *ADVISORS, *ASSESSORS)
