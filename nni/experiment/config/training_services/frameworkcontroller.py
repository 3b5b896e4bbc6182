"""The configuration classes of FrameworkController under their import path in NNI."""

from nni.experiment.config.training_services.platforms import (
    FrameworkAttemptCompletionPolicy,
    FrameworkControllerConfig,
    FrameworkControllerRoleConfig,
)

__all__ = ["FrameworkAttemptCompletionPolicy", "FrameworkControllerConfig", "FrameworkControllerRoleConfig"]
