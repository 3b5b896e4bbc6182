"""Functions that start experiments, named as in NNI's command line."""

from nni.tools.nnictl._verbs import verb

__all__ = ["create_experiment", "resume_experiment", "view_experiment"]

create_experiment = verb(
    "create",
    config="--config",
    port="--port",
    debug="--debug",
    url_prefix="--url_prefix",
    foreground="--foreground",
)
resume_experiment = verb(
    "resume",
    "id",
    port="--port",
    debug="--debug",
    foreground="--foreground",
    experiment_dir="--experiment_dir",
)
view_experiment = verb("view", "id", port="--port", experiment_dir="--experiment_dir")
