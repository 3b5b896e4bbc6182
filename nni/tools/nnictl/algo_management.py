"""Functions that register, unregister and list algorithms, named as in NNI."""

from nni.tools.nnictl._verbs import verb

__all__ = ["algo_list", "algo_reg", "algo_show", "algo_unreg"]

algo_reg = verb("algo register", meta_path="--meta")
algo_unreg = verb("algo unregister", "name")
algo_show = verb("algo show", "name")
algo_list = verb("algo list")
