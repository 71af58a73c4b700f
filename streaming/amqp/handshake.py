"""How a client is let in: what it sends before it has a vhost, and what it is answered.

    stage      what the client sends    what it is answered
    HEADER     the protocol header      start
    START      start-ok                 tune; REFUSED if it may not log in
    TUNE       tune-ok
    OPENING    open                     open-ok
    OPEN

Here are no frames, no clock and no socket: methods go in and come out, and whoever is not let in is
refused with an AmqpError. How long it may take, and how a refused client is told, says
`connection.py`.
"""

from enum import Enum, auto
from typing import Any, Final, NamedTuple, Protocol

from streaming.amqp import methods as m
from streaming.amqp.errors import ACCESS_REFUSED, NOT_ALLOWED, AmqpError, error, reply_text
from streaming.amqp.frames import MIN_FRAME_SIZE
from streaming.amqp.login import Client, User, mechanisms
from streaming.amqp.reply_to import ReplyConsumers
from streaming.amqp.vhosts import OpenVhost

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
_PROTOCOL_HEADERS: Final = (PROTOCOL_HEADER, b"AMQP\x01\x01\x00\x09")
"""What a client may begin with: RabbitMQ takes AMQP 0-9 as if it were 0-9-1."""

_HEADER_SIZE: Final = len(PROTOCOL_HEADER)


class Stage(Enum):
    """How far a client has come."""

    HEADER = auto()
    START = auto()
    TUNE = auto()
    OPENING = auto()
    OPEN = auto()
    REFUSED = auto()


_EXPECTED: Final[dict[Stage, type[m.Method]]] = {
    Stage.START: m.ConnectionStartOk,
    Stage.TUNE: m.ConnectionTuneOk,
    Stage.OPENING: m.ConnectionOpen,
}


class Limits(NamedTuple):
    """What both sides keep to.

    Attributes:
        channel_max: the number of channels.
        frame_max: the size of the largest frame, in bytes.
        heartbeat_s: how often each is to be heard of; 0 for no heartbeats.
    """

    channel_max: int
    frame_max: int
    heartbeat_s: int


OFFERED: Final = Limits(channel_max=2047, frame_max=131_072, heartbeat_s=60)


class Doorkeeper(Protocol):
    """What the handshake asks of the server."""

    server_properties: dict[str, Any]

    def login(self, mechanism: str, response: bytes, client: Client) -> User:
        """Let a client in; AmqpError 403 if it is refused."""

    def open_vhost(self, name: str, user: User) -> tuple[OpenVhost, ReplyConsumers]:
        """The vhost that a user opens; AmqpError 530 if it may not."""


class Handshake:
    """The way of one client from the protocol header to its vhost.

    Attributes:
        client: where it comes from.
        stage: how far it has come.
        client_properties: what the client says of itself.
        mechanism: how it logged in.
        user: who it is; without a name until it has logged in.
        limits: what was agreed; until then what is offered, without heartbeats.
        opened: its vhost; None until it has opened one.
    """

    def __init__(self, doorkeeper: Doorkeeper, client: Client) -> None:
        self.stage = Stage.HEADER
        self.client_properties: dict[str, Any] = {}
        self.mechanism = ""
        self.user = User("")
        self.limits = OFFERED._replace(heartbeat_s=0)
        self.opened: tuple[OpenVhost, ReplyConsumers] | None = None
        self._doorkeeper = doorkeeper
        self.client = client
        self._header = b""  # as much of it as has come

    @property
    def is_agreed(self) -> bool:
        """Whether the client is let in and the limits are agreed: it is told what is wrong."""
        return self.stage in {Stage.OPENING, Stage.OPEN}

    def has_capability(self, name: str) -> bool:
        """Whether the client says that it can do something."""
        capabilities = self.client_properties.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(name) is True

    def take_header(self, data: bytes) -> tuple[m.ConnectionStart | None, bytes]:
        """Take bytes until the protocol header is whole; another protocol is refused.

        Returns:
            What it is answered, and what follows the header.
        """
        self._header += data
        header, rest = self._header[:_HEADER_SIZE], self._header[_HEADER_SIZE:]
        if len(header) < _HEADER_SIZE:
            return None, b""
        if header not in _PROTOCOL_HEADERS:
            self.stage = Stage.REFUSED
            return None, b""
        self._header = b""
        self.stage = Stage.START
        properties = self._doorkeeper.server_properties
        offered = mechanisms(self.client)
        return m.ConnectionStart(server_properties=properties, mechanisms=offered), rest

    def expects(self, method: m.Method) -> bool:
        """Whether this is the client's next step."""
        return type(method) is _EXPECTED.get(self.stage)

    def take(self, method: m.Method) -> m.Method | None:
        """Take the method that is expected; return what it is answered.

        Raises:
            AmqpError: 502 or 530, it is not let in.
        """
        match method:
            case m.ConnectionStartOk():
                return self._log_in(method)
            case m.ConnectionTuneOk():
                self.limits = _agreed(method)
                self.stage = Stage.OPENING
                return None
            case m.ConnectionOpen():
                return self._open(method)
        raise AssertionError(method)

    def _log_in(self, method: m.ConnectionStartOk) -> m.Method | None:
        self.client_properties = method.client_properties
        self.mechanism = method.mechanism
        if method.mechanism not in mechanisms(self.client).decode().split():
            raise error(NOT_ALLOWED, f"unknown authentication mechanism '{method.mechanism}'")
        try:
            self.user = self._doorkeeper.login(method.mechanism, method.response, self.client)
        except AmqpError as refusal:
            if refusal.code != ACCESS_REFUSED:
                raise
            self.stage = Stage.REFUSED
            if not self.has_capability("authentication_failure_close"):
                return None
            return m.ConnectionClose(refusal.code, reply_text(refusal.text))
        self.stage = Stage.TUNE
        return m.ConnectionTune(*OFFERED)

    def _open(self, method: m.ConnectionOpen) -> m.ConnectionOpenOk:
        try:
            self.opened = self._doorkeeper.open_vhost(method.virtual_host, self.user)
        except AmqpError as failure:
            failure.method = method.ids
            raise
        self.stage = Stage.OPEN
        return m.ConnectionOpenOk()


def _agreed(answer: m.ConnectionTuneOk) -> Limits:
    """What a client makes of the offer; 530: more than that, or no room for a method."""
    for what, asked, least, most in (
        ("frame_max", answer.frame_max, MIN_FRAME_SIZE, OFFERED.frame_max),
        ("channel_max", answer.channel_max, 1, OFFERED.channel_max),
    ):
        if not least <= asked <= most:
            text = f"negotiated {what} = {asked} is not between {least} and {most}"
            raise error(NOT_ALLOWED, text)
    return Limits(answer.channel_max, answer.frame_max, answer.heartbeat)
