"""NNI's channel over which a trial gets parameters and sends results.

A script or test may replace it by its own.
"""

from __future__ import annotations

import os

from nni import _trial
from nni.runtime.trial_command_channel.base import ParameterRecord, TrialCommandChannel

__all__ = [
    "ParameterRecord",
    "TrialCommandChannel",
    "get_default_trial_command_channel",
    "set_default_trial_command_channel",
]


_default: TrialCommandChannel | None = None  # the channel that the environment variables describe


def set_default_trial_command_channel(channel: TrialCommandChannel | None = None) -> TrialCommandChannel:
    """Make this process get parameters and report results over ``channel``. Return the channel.

    None restores the channel that the environment variables of the trial describe.
    """
    _trial.use_channel(None if channel is _default else channel)
    return get_default_trial_command_channel()


def get_default_trial_command_channel() -> TrialCommandChannel:
    """Return the channel over which this process gets parameters and reports results.

    Raise TypeError if NNI_TRIAL_COMMAND_CHANNEL names a class that is not a TrialCommandChannel.
    """
    global _default
    channel = _trial.custom_channel()
    if channel is None:
        channel = _default = _default or _built_in()
    if not isinstance(channel, TrialCommandChannel):
        raise TypeError(f"{channel!r} is not a TrialCommandChannel")
    return channel


def _built_in() -> TrialCommandChannel:
    if os.environ.get("NNI_PLATFORM") in (None, "unittest"):
        from nni.runtime.trial_command_channel.standalone import StandaloneTrialCommandChannel

        return StandaloneTrialCommandChannel()
    from nni.runtime.trial_command_channel.local_legacy import LocalLegacyTrialCommandChannel

    return LocalLegacyTrialCommandChannel()
