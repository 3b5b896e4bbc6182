"""NNI's connection for commands over a WebSocket."""

from nni.runtime.command_channel.websocket.channel import WsChannelClient

__all__ = ["WsChannelClient"]
