"""NNI's import path of TPE."""

from nnimgr.tuners.tpe import TpeTuner
from nnimgr.tuners.tpe_arguments import TpeArguments

__all__ = ["TpeArguments", "TpeTuner"]
