"""Functions that register, unregister and list training services, named as in NNI."""

from nni.tools.nnictl._verbs import verb

__all__ = ["list_services", "register", "unregister"]

register = verb("trainingservice register", package="--package")
unregister = verb("trainingservice unregister", package="--package")
list_services = verb("trainingservice list")
