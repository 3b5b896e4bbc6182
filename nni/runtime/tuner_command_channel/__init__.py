"""NNI 3's import path of the commands between manager and tuner."""

from nni.runtime.tuner_command_channel.channel import TunerCommandChannel
from nni.runtime.tuner_command_channel.command_type import CommandType, TunerIncomingCommand

__all__ = ["CommandType", "TunerCommandChannel", "TunerIncomingCommand"]
