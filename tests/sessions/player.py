"""Play a session on a broker, and record what came back after each step.

A step ends when nothing moves any more. The player cannot see that, so it asks: each channel of the
session with `channel.flow(active=true)`, which changes nothing and is answered in turn, and each
queue with a passive declaration on a channel of its own. A message that dies goes from queue to
queue, so this is done twice. A quorum queue answers before its log has all that it was sent, so
where there is one, the player asks until the answers stay the same for a while.
"""

import contextlib
import re
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from http import HTTPStatus
from itertools import chain, zip_longest
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from pamqp import base, body, commands, header

from tests.sessions.by_hand import HEARTBEAT, MOST, content_frames, wrong_frames
from tests.sessions.managing import Ask, forget_policies, shown_answer
from tests.sessions.steps import CHANNELS, EXCHANGES, QUEUES, Step
from tests.sessions.wire import ClosedError, Wire, properties_of, shown

Basic, Channel, Confirm, Connection = (
    commands.Basic,
    commands.Channel,
    commands.Confirm,
    commands.Connection,
)
Exchange, Queue, Tx = commands.Exchange, commands.Queue, commands.Tx

Record = list[dict[str, list[str]]]
"""For each step, what came back on each channel, as text."""

ASKING: Final = 100
"""From this number on, a connection has a channel for each queue it asks; no session uses them."""

_ROUNDS: Final = 2
_QUIET_ROUNDS: Final = 3
_QUIET_S: Final = 0.025
_MAX_ROUNDS: Final = 40
_WITH_CONTENT: Final = (Basic.Deliver, Basic.GetOk, Basic.Return)
_NUMBER_TYPE: Final = re.compile(
    r"(type '?|got |unacceptable_type,|_in_header,\"\w+\",|[\[,]\{|>>,)"
    r"(?:(byte|short|signedint|long|unsigned\w+)|float|double)\b"
)
"""Ours does not keep which of AMQP's types of numbers an argument had."""

_BROKEN: Final = re.compile(r",\\n +")
"""Where RabbitMQ breaks the line of a long term in a reason."""

_GENERATED: Final = re.compile(r"amq\.(gen|ctag)-[\w-]+")
_REPLY_TO: Final = "amq.rabbitmq.reply-to"
_ADDRESS: Final = re.compile(r"amq\.rabbitmq\.reply-to\.(?!none)[^'\" )]+")
"""Where an answer to one consumer of direct replies goes."""


@dataclass(slots=True)
class _Content:
    method: Any
    top: header.ContentHeader | None = None
    parts: list[bytes] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        return self.top is not None and sum(map(len, self.parts)) >= self.top.body_size


@dataclass(slots=True)
class _ChannelState:
    """What a client remembers of an open channel."""

    unacked: list[int] = field(default_factory=list)
    consumers: list[str] = field(default_factory=list)
    content: _Content | None = None
    silent_tags: set[str] = field(default_factory=set)


class Player:
    """Two connections to one broker, opened when a step needs them.

    Args:
        url: of a vhost that nobody else uses.
        connect: opens a connection to it.
        pass_time: lets seconds pass.
        at_once: nothing comes later than it is asked for.
        ask: makes requests to its management API.
    """

    def __init__(
        self,
        url: str,
        connect: Callable[[str], Wire] = Wire,
        pass_time: Callable[[float], None] = time.sleep,
        *,
        at_once: bool = False,
        ask: Ask | None = None,
    ) -> None:
        self._at_once = at_once
        self._ask_api = ask
        self._url = url
        self._connect = connect
        self._pass_time = pass_time
        vhost = unquote(urlsplit(url).path.removeprefix("/")) or "/"
        self._vhost_in_path = quote(vhost, safe="")
        self._names: dict[str, str] = {
            f"in vhost {mark}{vhost}{mark}": "in vhost <vhost>" for mark in ("'", "\\'")
        }
        self._wires: dict[int, Wire] = {}
        self._channels: dict[tuple[int, int], _ChannelState] = {}
        self._queues = set(QUEUES)
        self._asking: set[tuple[int, int]] = set()
        self._seen: dict[str, list[str]] = {}
        self._no_ack: dict[tuple[int, int], set[str]] = {}
        self._addresses: list[str] = []
        self._get_no_ack = False
        self._is_patient = False
        self._users: dict[int, str] = {}
        self._got: tuple[header.ContentHeader, bytes] | None = None
        self._counts: dict[tuple[int, int], str] = {}  # of each queue, as its channel told last

    def play(self, steps: list[Step]) -> Record:
        """Play a session in an empty vhost, and leave it empty."""
        record: Record = []
        self._is_patient = not self._at_once and any(
            "x-queue-type" in step.arguments.get("arguments", ()) for step in steps
        )
        try:
            for step in steps:
                self._seen = {}
                self._play(step)
                record.append(self._seen)
        finally:
            self.clean()
        return record

    def clean(self) -> None:
        """Close everything, and delete what sessions create."""
        for wire in self._wires.values():
            wire.close()
        self._wires, self._channels, self._asking = {}, {}, set()
        if self._ask_api is not None:
            forget_policies(self._ask_api, self._vhost_in_path)
        wire = self._connect(self._url)
        wire.send(1, Channel.Open())
        for name in sorted(self._queues):
            wire.send(1, Queue.Delete(queue=name))
            self._answer(wire, Queue.DeleteOk)
        for name in EXCHANGES:
            wire.send(1, Exchange.Delete(exchange=name))
            self._answer(wire, Exchange.DeleteOk)
        for source in ("amq.topic", "amq.headers", "amq.fanout"):
            for target in EXCHANGES:
                with contextlib.suppress(ClosedError):
                    wire.send(1, Exchange.Unbind(destination=target, source=source))
                    self._answer(wire, Exchange.UnbindOk)
        wire.close()

    @staticmethod
    def _answer(wire: Wire, kind: type) -> None:
        _, received = wire.receive()
        if isinstance(received, Channel.Close):
            wire.send(1, Channel.CloseOk(), Channel.Open())
            wire.receive()
        elif isinstance(received, Channel.OpenOk):
            Player._answer(wire, kind)
        elif not isinstance(received, kind):
            raise ClosedError(shown(received))

    # -- a step

    def _play(self, step: Step) -> None:
        try:
            self._open(step.connection, step.channel)
            getattr(self, "_" + step.op)(step.connection, step.channel, **step.arguments)
        except ClosedError:
            self._lost(step.connection)
        self._settle_down()

    def _open(self, connection: int, channel: int) -> _ChannelState:
        if connection not in self._wires:
            self._wires[connection] = self._connect(self._url_of(connection))
            self._note(connection, 0, "opened")
        if (connection, channel) not in self._channels:
            self._channels[connection, channel] = _ChannelState()
            self._no_ack[connection, channel] = set()
            self._call(connection, channel, Channel.Open())
        return self._channels[connection, channel]

    def _url_of(self, connection: int) -> str:
        user = self._users.get(connection)
        if user is None:
            return self._url
        parts = urlsplit(self._url)
        where = parts.netloc.rpartition("@")[2]
        return parts._replace(netloc=f"{user}:{user}@{where}").geturl()

    def _call(self, connection: int, channel: int, *frames: base.Frame) -> None:
        self._wires[connection].send(channel, *frames)

    def _settle_down(self) -> None:
        for _ in range(_ROUNDS):
            self._ask()
        if self._is_patient:
            self._wait_until_quiet()
        self._ask(of_queues=False)

    def _wait_until_quiet(self) -> None:
        seen, quiet = "", 0
        for _ in range(_MAX_ROUNDS):
            self._pass_time(_QUIET_S)
            self._ask()
            now = f"{self._seen} {self._counts}"
            quiet = quiet + 1 if now == seen else 0
            if quiet == _QUIET_ROUNDS:
                return
            seen = now

    def _ask(self, *, of_queues: bool = True) -> None:
        """Ask all channels and, on each connection, all queues; wait for the answers.

        An exclusive queue answers its owner alone, and one that is missing closes the channel that
        asks: each queue has a channel of its own for that.
        """
        asked = {connection: self._ask_one(connection, of_queues) for connection in self._wires}
        for connection, due in asked.items():
            if not due:
                continue
            self._until(connection, partial(_answered, due))

    def _ask_one(self, connection: int, of_queues: bool) -> set[int]:
        wire = self._wires[connection]
        asked = {number for owner, number in self._channels if owner == connection}
        for number in sorted(asked):
            wire.send(number, Channel.Flow(True))
        for number, name in enumerate(sorted(self._queues) if of_queues else (), ASKING):
            if (connection, number) not in self._asking:
                self._asking.add((connection, number))
                wire.send(number, Channel.Open())
            wire.send(number, Queue.Declare(queue=name, passive=True))
            asked.add(number)
        return asked

    def _until(self, connection: int, is_answered: Callable[[int, Any], bool]) -> None:
        """Take frames of a connection until all is answered, or it ends."""
        try:
            while connection in self._wires:
                number, received = self._wires[connection].receive()
                self._take(connection, number, received)
                if is_answered(number, received):
                    return
        except ClosedError:
            self._lost(connection)

    # -- what comes back

    def _take(self, connection: int, number: int, received: Any) -> None:
        if number >= ASKING:
            self._counts[connection, number] = shown(received)
            if isinstance(received, Channel.Close):
                self._wires[connection].send(number, Channel.CloseOk())
                self._asking.discard((connection, number))
            return
        if isinstance(received, Connection.Close):
            self._note(connection, 0, self._shown(received))
            self._wires[connection].send(0, Connection.CloseOk())
            self._wires[connection].close()
            raise ClosedError
        if isinstance(received, Channel.FlowOk):
            return
        state = self._channels.get((connection, number))
        if state is None:
            said = self._shown(received) if isinstance(received, base.Frame) else "content"
            self._note(connection, number, f"unexpected {said}")
            return
        if isinstance(received, header.ContentHeader | body.ContentBody):
            self._take_content(connection, number, state, received)
            return
        if isinstance(received, _WITH_CONTENT):
            state.content = _Content(received)
            return
        self._note_method(connection, number, state, received)

    def _note_method(
        self, connection: int, number: int, state: _ChannelState, received: Any
    ) -> None:
        if isinstance(received, Queue.DeclareOk):
            self._name(received.queue, "queue")
        if isinstance(received, Basic.ConsumeOk):
            tag = received.consumer_tag or ""
            self._name(tag, "consumer")
            state.consumers.append(tag)
            if "" in state.silent_tags:
                state.silent_tags.discard("")
                state.silent_tags.add(tag)
        if isinstance(received, Basic.Cancel | Basic.CancelOk):
            with contextlib.suppress(ValueError):
                state.consumers.remove(received.consumer_tag or "")
        self._note(connection, number, self._shown(received))
        if isinstance(received, Channel.Close):
            self._wires[connection].send(number, Channel.CloseOk())
            del self._channels[connection, number]
        if isinstance(received, Channel.CloseOk):
            del self._channels[connection, number]

    def _take_content(
        self,
        connection: int,
        number: int,
        state: _ChannelState,
        received: header.ContentHeader | body.ContentBody,
    ) -> None:
        content = state.content
        assert content is not None, received
        if isinstance(received, header.ContentHeader):
            content.top = received
        else:
            content.parts.append(received.value)
        if not content.is_complete:
            return
        state.content = None
        assert content.top is not None
        method = content.method
        is_unacked = (
            method.consumer_tag not in state.silent_tags
            if isinstance(method, Basic.Deliver)
            else isinstance(method, Basic.GetOk) and not self._get_no_ack
        )
        if is_unacked:
            state.unacked.append(method.delivery_tag)
        self._got = content.top, b"".join(content.parts)
        payload = b"".join(content.parts).decode()
        sizes = [len(part) for part in content.parts]
        found = properties_of(content.top)
        address = found.get("reply_to", "")
        if _ADDRESS.fullmatch(address) and address not in self._names:
            self._names[address] = f"<address {len(self._names)}>"
            self._addresses.append(address)
        properties = self._plain(found)
        text = f"{self._shown(method)} {properties} {payload[:8]!r} {sizes}"
        self._note(connection, number, text)

    def _lost(self, connection: int) -> None:
        """A connection has ended."""
        wire = self._wires.pop(connection, None)
        if wire is None:
            return
        wire.close()
        self._note(connection, 0, "closed")
        self._asking = {key for key in self._asking if key[0] != connection}
        for key in [key for key in self._channels if key[0] == connection]:
            del self._channels[key]

    def _note(self, connection: int, number: int | str, text: str) -> None:
        self._seen.setdefault(f"{connection}/{number}", []).append(text)

    def _name(self, generated: str | None, kind: str) -> None:
        if generated and _GENERATED.fullmatch(generated) and generated not in self._names:
            self._names[generated] = f"<{kind} {len(self._names)}>"
            if kind == "queue":
                self._queues.add(generated)

    def _shown(self, method: base.Frame) -> str:
        return self._replaced(shown(method))

    def _replaced(self, text: str) -> str:
        text = _NUMBER_TYPE.sub(lambda found: found[1] + ("int" if found[2] else "real"), text)
        text = _BROKEN.sub(",", text)
        for generated, name in self._names.items():
            text = text.replace(generated, name)
        return _GENERATED.sub(r"<a name of the broker>", text)

    def _plain(self, value: Any) -> Any:
        match value:
            case datetime():
                return "<time>"
            case dict():
                items = sorted(
                    (self._replaced(str(name)), self._plain(each)) for name, each in value.items()
                )
                return dict(items)
            case list():
                return [self._plain(each) for each in value]
            case str():
                return self._replaced(value)
        return value

    # -- what a step does

    def _burst(self, connection: int, channel: int, steps: list[Any]) -> None:
        for op, arguments in steps:
            getattr(self, "_" + op)(connection, channel, **arguments)

    def _reply(
        self,
        connection: int,
        channel: int,
        which: int,
        properties: dict[str, Any],
        body: str,
        *,
        mandatory: bool,
    ) -> None:
        addresses = [*self._addresses, _REPLY_TO, f"{_REPLY_TO}.none"]
        method = Basic.Publish(routing_key=addresses[which % len(addresses)], mandatory=mandatory)
        self._wires[connection].publish(channel, method, properties, body.encode())

    def _wait(self, _connection: int, _channel: int, seconds: float) -> None:
        self._pass_time(seconds)

    def _declare_queue(self, connection: int, channel: int, **arguments: Any) -> None:
        self._call(connection, channel, Queue.Declare(**arguments))

    def _declare_exchange(self, connection: int, channel: int, **arguments: Any) -> None:
        self._call(connection, channel, Exchange.Declare(**arguments))

    def _bind(
        self,
        connection: int,
        channel: int,
        destination: str,
        source: str,
        *,
        to_exchange: bool,
        **rest: Any,
    ) -> None:
        method = (
            Exchange.Bind(destination=destination, source=source, **rest)
            if to_exchange
            else Queue.Bind(queue=destination, exchange=source, **rest)
        )
        self._call(connection, channel, method)

    def _unbind(
        self,
        connection: int,
        channel: int,
        destination: str,
        source: str,
        *,
        to_exchange: bool,
        nowait: bool,
        **rest: Any,
    ) -> None:
        method = (
            Exchange.Unbind(destination=destination, source=source, nowait=nowait, **rest)
            if to_exchange
            else Queue.Unbind(queue=destination, exchange=source, **rest)
        )
        self._call(connection, channel, method)

    def _publish(
        self,
        connection: int,
        channel: int,
        exchange: str,
        routing_key: str,
        properties: dict[str, Any],
        body: str,
        *,
        mandatory: bool,
    ) -> None:
        method = Basic.Publish(exchange=exchange, routing_key=routing_key, mandatory=mandatory)
        self._wires[connection].publish(channel, method, properties, body.encode())

    def _pieces(
        self,
        connection: int,
        channel: int,
        routing_key: str,
        sizes: list[int],
        *,
        mandatory: bool,
        heartbeats: bool,
    ) -> None:
        method = Basic.Publish(routing_key=routing_key, mandatory=mandatory)
        frames = content_frames(channel, method, sizes)
        self._wires[connection].send_bytes((HEARTBEAT if heartbeats else b"").join(frames))

    def _both(
        self, connection: int, _channel: int, routing_keys: list[str], sizes: list[int]
    ) -> None:
        contents = []
        for number, key, size in zip(CHANNELS, routing_keys, sizes, strict=True):
            self._open(connection, number)
            parts = [min(MOST, size - at) for at in range(0, size, MOST)]
            contents.append(content_frames(number, Basic.Publish(routing_key=key), parts))
        turns = chain.from_iterable(zip_longest(*contents, fillvalue=b""))
        self._wires[connection].send_bytes(b"".join(turns))

    def _republish(
        self, connection: int, channel: int, exchange: str, routing_key: str, *, mandatory: bool
    ) -> None:
        if self._got is None:
            return
        top, payload = self._got
        method = Basic.Publish(exchange=exchange, routing_key=routing_key, mandatory=mandatory)
        self._wires[connection].publish(channel, method, properties_of(top), payload)

    def _method(self, connection: int, channel: int, name: str, fields: dict[str, Any]) -> None:
        kind, _, method = name.partition(".")
        one = getattr(getattr(commands, kind), method)(**fields)
        self._call(connection, 0 if kind == "Connection" else channel, one)

    def _permit(
        self,
        connection: int,
        _channel: int,
        user: str,
        rules: dict[str, str],
        topics: dict[str, str] | None,
    ) -> None:
        assert self._ask_api is not None
        self._lost(connection)
        self._users[connection] = user
        where = f"{self._vhost_in_path}/{user}"
        self._ask_api("PUT", f"users/{user}", {"password": user, "tags": ""})
        self._ask_api("PUT", f"permissions/{where}", rules)
        self._ask_api("DELETE", f"topic-permissions/{where}", None)
        if topics is not None:
            self._ask_api("PUT", f"topic-permissions/{where}", topics)

    def _wrong_frame(self, connection: int, channel: int, kind: str) -> None:
        self._wires[connection].send_bytes(wrong_frames(channel, kind))

    def _http(self, connection: int, _channel: int, method: str, path: str, document: Any) -> None:
        assert self._ask_api is not None
        answer = self._ask_api(method, path.format(vhost=self._vhost_in_path), document)
        self._note(connection, "http", self._replaced(shown_answer(*answer)))

    def _end_connection(self, _connection: int, _channel: int, which: int) -> None:
        assert self._ask_api is not None
        if which not in self._wires:
            return
        name = quote(self._wires[which].name, safe="")
        status, rounds = HTTPStatus.NOT_FOUND, _MAX_ROUNDS
        while status == HTTPStatus.NOT_FOUND and rounds:  # RabbitMQ's API knows it a while later
            status = HTTPStatus(self._ask_api("DELETE", f"connections/{name}", None)[0])
            rounds -= 1
            self._pass_time(10 * _QUIET_S)
        self._note(which, "http", str(status.value))
        if status == HTTPStatus.NO_CONTENT:
            self._until(which, lambda _number, _received: False)

    def _consume(
        self, connection: int, channel: int, *, only: bool = False, **arguments: Any
    ) -> None:
        if only and self._channels[connection, channel].consumers:
            return
        if arguments["no_ack"]:
            self._channels[connection, channel].silent_tags.add(arguments["consumer_tag"])
        if arguments.get("nowait"):
            self._channels[connection, channel].consumers.append(arguments["consumer_tag"])
        self._call(connection, channel, Basic.Consume(**arguments))

    def _cancel(self, connection: int, channel: int, which: int, *, nowait: bool) -> None:
        state = self._channels[connection, channel]
        tag = state.consumers[which % len(state.consumers)] if state.consumers else "none"
        self._call(connection, channel, Basic.Cancel(consumer_tag=tag, nowait=nowait))
        if nowait and state.consumers:
            state.consumers.remove(tag)

    def _get(self, connection: int, channel: int, queue: str, *, no_ack: bool) -> None:
        self._get_no_ack = no_ack
        self._call(connection, channel, Basic.Get(queue=queue, no_ack=no_ack))

    def _settle(
        self, connection: int, channel: int, kind: str, which: int, *, multiple: bool, requeue: bool
    ) -> None:
        state = self._channels[connection, channel]
        if not state.unacked:
            return
        tag = state.unacked[which % len(state.unacked)]
        if multiple:
            state.unacked = [each for each in state.unacked if each > tag]
        else:
            state.unacked.remove(tag)
        self._settle_tag(connection, channel, kind, tag, multiple=multiple, requeue=requeue)

    def _settle_tag(
        self, connection: int, channel: int, kind: str, tag: int, *, multiple: bool, requeue: bool
    ) -> None:
        match kind:
            case "ack":
                method: base.Frame = Basic.Ack(tag, multiple)
            case "nack":
                method = Basic.Nack(tag, multiple, requeue)
            case _:
                method = Basic.Reject(tag, requeue)
        if tag == 0 and multiple:
            self._channels[connection, channel].unacked.clear()
        self._call(connection, channel, method)

    def _qos(self, connection: int, channel: int, **arguments: Any) -> None:
        self._call(connection, channel, Basic.Qos(**arguments))

    def _recover(self, connection: int, channel: int, *, requeue: bool, is_async: bool) -> None:
        if requeue:
            self._channels[connection, channel].unacked.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of the method, in AMQP
            method = Basic.RecoverAsync(requeue) if is_async else Basic.Recover(requeue)
        self._call(connection, channel, method)

    def _purge(self, connection: int, channel: int, **arguments: Any) -> None:
        self._call(connection, channel, Queue.Purge(**arguments))

    def _delete_queue(self, connection: int, channel: int, **arguments: Any) -> None:
        self._call(connection, channel, Queue.Delete(**arguments))

    def _delete_exchange(self, connection: int, channel: int, **arguments: Any) -> None:
        self._call(connection, channel, Exchange.Delete(**arguments))

    def _confirm(self, connection: int, channel: int, **arguments: Any) -> None:
        self._call(connection, channel, Confirm.Select(**arguments))

    def _transaction(self, connection: int, channel: int, kind: str) -> None:
        methods = {"select": Tx.Select(), "commit": Tx.Commit(), "rollback": Tx.Rollback()}
        self._call(connection, channel, methods[kind])
        if kind == "commit":  # RabbitMQ takes nothing else of the channel until it has committed
            self._until(
                connection,
                lambda number, received: (
                    number == channel and isinstance(received, Tx.CommitOk | Channel.Close)
                ),
            )

    def _close_channel(self, connection: int, channel: int) -> None:
        self._call(connection, channel, Channel.Close(200, "", 0, 0))
        self._until(
            connection,
            lambda number, received: (
                number == channel and isinstance(received, Channel.CloseOk | Channel.Close)
            ),
        )

    def _close_connection(self, connection: int, channel: int, *, abruptly: bool) -> None:
        if abruptly:
            self._wires[connection].close()
            self._lost(connection)
            return
        self._call(connection, 0, Connection.Close(200, "", 0, 0))
        while True:
            number, received = self._wires[connection].receive()
            if isinstance(received, Connection.CloseOk):
                self._lost(connection)
                return
            self._take(connection, number, received)

    def _error(self, connection: int, channel: int, kind: str) -> None:
        match kind:
            case "immediate":
                method = Basic.Publish(exchange="", routing_key="q0", immediate=True)
                self._wires[connection].publish(channel, method, {}, b"x")
            case "open_twice":
                self._call(connection, channel, Channel.Open())
            case "flow_off":
                self._call(connection, channel, Channel.Flow(False))
            case "no_exchange":
                method = Basic.Publish(exchange="missing", routing_key="q0")
                self._wires[connection].publish(channel, method, {}, b"x")
            case "no_queue":
                self._call(connection, channel, Basic.Get(queue="missing"))
            case _:
                self._call(connection, channel, Exchange.Declare(exchange="amq.mine"))


def _answered(due: set[int], number: int, received: Any) -> bool:
    """Whether all that is due has been answered, now that a frame came."""
    if isinstance(received, Channel.FlowOk | Channel.Close | Queue.DeclareOk) and (
        number >= ASKING or not isinstance(received, Queue.DeclareOk)
    ):
        due.discard(number)
    return not due
