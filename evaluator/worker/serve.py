"""The loop of a worker: one request, one reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from archives.evaluation import Status
from evaluator.wire import Channel, ChannelClosed, FrameError
from evaluator.worker.failures import Failure, describe

__all__ = ["Handler", "serve"]

Handler = Callable[[dict[str, Any]], dict[str, Any]]


def serve(
    channel: Channel,
    handlers: Mapping[str, Handler],
    explain: Callable[[Exception, dict[str, Any]], Failure],
) -> None:
    """Answer requests until the referee closes the channel.

    Args:
        channel: To the referee.
        handlers: What to do for each op; returns the reply's fields.
        explain: Turns an exception of a handler into a failure.
    """
    while True:
        try:
            request = channel.receive()
        except ChannelClosed:
            return
        try:
            reply = {"ok": True, **handlers[request["op"]](request)}
        except Failure as failure:
            reply = failure.reply()
        except Exception as error:  # noqa: BLE001 - candidate and problem code may raise anything
            reply = explain(error, request).reply()
        try:
            channel.send(reply)
        except FrameError as error:
            channel.send(_unsendable(error))
        except ChannelClosed:
            return


def _unsendable(error: FrameError) -> dict[str, Any]:
    failure = describe(error, file="", status=Status.RUNTIME_ERROR, reason="reply_too_large")
    return failure.reply()
