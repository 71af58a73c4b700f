"""The limits of a connection: what the server offers, and what a client may make of it."""

from typing import Final, NamedTuple

from streaming.amqp.errors import NOT_ALLOWED, error
from streaming.amqp.frames import MIN_FRAME_SIZE
from streaming.amqp.methods import ConnectionTune, ConnectionTuneOk

CHANNEL_MAX: Final = 2047
FRAME_MAX: Final = 131_072
HEARTBEAT_S: Final = 60
OFFERED: Final = ConnectionTune(CHANNEL_MAX, FRAME_MAX, HEARTBEAT_S)


class Limits(NamedTuple):
    """What both sides keep to.

    Attributes:
        frame_max: the size of the largest frame, in bytes.
        channel_max: the number of channels.
        heartbeat_s: how often each is to be heard of; 0 for no heartbeats.
    """

    frame_max: int
    channel_max: int
    heartbeat_s: int


def agreed(answer: ConnectionTuneOk) -> Limits:
    """What a client makes of the offer.

    Raises:
        AmqpError: 530, it asks for more, as 0 does, or for frames into which no method fits.
    """
    for what, asked, least, most in (
        ("frame_max", answer.frame_max, MIN_FRAME_SIZE, FRAME_MAX),
        ("channel_max", answer.channel_max, 1, CHANNEL_MAX),
    ):
        if not least <= asked <= most:
            text = f"negotiated {what} = {asked} is not between {least} and {most}"
            raise error(NOT_ALLOWED, text)
    return Limits(answer.frame_max, answer.channel_max, answer.heartbeat)
