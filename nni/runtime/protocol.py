"""NNI 2's import path of the commands between manager and tuner."""

from nni.runtime.tuner_command_channel.legacy import (
    CommandType,
    _get_out_file,
    _set_in_file,
    _set_out_file,
    receive,
    send,
)

__all__ = ["CommandType", "_get_out_file", "_set_in_file", "_set_out_file", "receive", "send"]
