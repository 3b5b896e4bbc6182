"""The TPE tuner under its import path in NNI."""

from nnimgr.tuners.tpe import TpeTuner
from nnimgr.tuners.tpe_arguments import TpeArguments

__all__ = ["TpeArguments", "TpeTuner"]
