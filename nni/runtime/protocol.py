"""The commands between NNI's manager and a tuner under their import path in NNI 2."""

from nni.runtime.tuner_command_channel.legacy import (
    CommandType,
    _get_out_file,
    _set_in_file,
    _set_out_file,
    receive,
    send,
)

__all__ = ["CommandType", "_get_out_file", "_set_in_file", "_set_out_file", "receive", "send"]
