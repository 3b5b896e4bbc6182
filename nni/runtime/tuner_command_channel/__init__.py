"""The commands between NNI's manager and a tuner under their import path in NNI 3."""

from nni.runtime.tuner_command_channel.channel import TunerCommandChannel
from nni.runtime.tuner_command_channel.command_type import CommandType, TunerIncomingCommand

__all__ = ["CommandType", "TunerCommandChannel", "TunerIncomingCommand"]
