"""NNI's import path of the configuration of FrameworkController."""

from nni.experiment.config.training_services.platforms import (
    FrameworkAttemptCompletionPolicy,
    FrameworkControllerConfig,
    FrameworkControllerRoleConfig,
)

__all__ = ["FrameworkAttemptCompletionPolicy", "FrameworkControllerConfig", "FrameworkControllerRoleConfig"]
