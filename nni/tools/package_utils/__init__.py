"""Functions that look up and create built-in and registered algorithms, named as in NNI."""

from nni.tools.package_utils.common import AlgoMeta
from nni.tools.package_utils.config_manager import (
    get_algo_meta,
    get_all_algo_meta,
    get_registered_algo_meta,
    register_algo_meta,
    unregister_algo_meta,
)
from nni.tools.package_utils.tuner_factory import (
    create_builtin_class_instance,
    create_customized_class_instance,
)

__all__ = [
    "AlgoMeta",
    "create_builtin_class_instance",
    "create_customized_class_instance",
    "get_algo_meta",
    "get_all_algo_meta",
    "get_registered_algo_meta",
    "register_algo_meta",
    "unregister_algo_meta",
]
