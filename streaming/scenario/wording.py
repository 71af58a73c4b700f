"""The wording of the story: steps, queue settings, and the route of a message."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from streaming.broker import commands
from streaming.broker.message import Envelope
from streaming.scenario.steps import Publish, Sleep, Step
from topology.declarations import Binding
from topology.policies import QueueSettings
from topology.routing.router import Hop, Router
from topology.values import Table, to_json

_SHOWN = 60


def quoted(text: str) -> str:
    """A body or name in quotes, truncated, with control characters escaped."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def counted(number: int, unit: str) -> str:
    """`1 message`, `2 messages`."""
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"


def exchange_words(name: str) -> str:
    """An exchange by name; the default exchange has none."""
    return f"exchange {quoted(name)}" if name else "the default exchange"


def keys_words(routing_keys: Iterable[str]) -> str:
    """`key 'a'`; with CC and BCC keys `keys 'a', 'b'`."""
    keys = [quoted(key) for key in routing_keys]
    return f"key {keys[0]}" if len(keys) == 1 else f"keys {', '.join(keys)}"


def table_words(table: Table) -> str:
    """A headers or arguments table, truncated."""
    try:
        text = msgspec.json.encode(to_json(table)).decode()
    except ValueError:  # a table that JSON could not distinguish from a special value
        text = repr(table)
    return text if len(text) <= 2 * _SHOWN else f"{text[: 2 * _SHOWN]}..."


# -- steps


def step_words(step: Step, body: str) -> str:
    """What a step does."""
    match step.action:
        case Publish() as publish:
            return _publish(publish, body)
        case Sleep():
            return "nothing"
        case commands.Get(queue=queue, count=count, message=message):
            most = "a message" if count == 1 else f"up to {count} messages"
            if message is not None:
                most = f"message {'/'.join(map(str, message))}"
            return f"get {most} from queue {quoted(queue)}{_automatic(step.action)}"
        case commands.Consume(queue=queue, label=label, prefetch=prefetch):
            room = f", prefetch {prefetch}" if prefetch else ""
            alone = ", exclusively" if step.action.exclusive else ""
            if step.action.arguments:
                alone += f" {table_words(step.action.arguments)}"
            what = f"consumer {quoted(label)} subscribes to queue {quoted(queue)}"
            return f"{what}{room}{_automatic(step.action)}{alone}"
        case commands.Qos(prefetch=prefetch, is_global=is_global, channel=channel):
            whom = "all consumers together" if is_global else "each new consumer"
            return f"prefetch of {whom} on channel {quoted(channel)}: {prefetch or 'no limit'}"
        case commands.Flow(active=active, channel=channel):
            return f"{'resume' if active else 'stop'} deliveries on channel {quoted(channel)}"
        case commands.Cancel(label=label):
            return f"cancel consumer {quoted(label)}"
        case commands.Ack() | commands.Reject() | commands.Nack():
            return _settlement(step.action)
        case commands.Settle():
            return _settlement_by_tag(step.action)
        case commands.Recover(channel=channel):
            return f"recover: requeue everything unacked on channel {quoted(channel)}"
        case commands.CloseChannel(channel=channel):
            return f"close channel {quoted(channel)}"
        case commands.CloseConnection(connection=connection):
            return f"close connection {quoted(connection)}"
        case commands.Depth(queue=queue):
            return f"how many messages are ready in queue {quoted(queue)}?"
        case commands.Check(steps=steps):
            return f"would any of {len(steps)} publishes and settlements be refused?"
        case _:
            return _administration(step)


def _publish(publish: Publish, body: str) -> str:
    publication = publish.publication
    where = f"{exchange_words(publication.exchange)} with key {quoted(publication.routing_key)}"
    properties = publish.properties
    more = [f"{name} {value}" for name, value in properties.items() if name != "expiration"]
    if "expiration" in properties:
        more.insert(0, f"expiring after {properties['expiration']} ms")
    if publish.headers is not None:
        more.append(f"headers {table_words(publish.headers)}")
    more += [flag for flag in ("mandatory", "immediate") if getattr(publish, flag)]
    return ", ".join([f"publish {body} to {where}", *more])


def _automatic(command: commands.Get | commands.Consume) -> str:
    return ", acknowledging automatically" if command.auto_ack else ""


def _settlement_by_tag(command: commands.Settle) -> str:
    tags = f"delivery tag {command.tag}"
    if command.multiple:
        tags = f"{tags} and every earlier delivery" if command.tag else "every delivery"
    elif command.last > command.tag:
        tags = f"delivery tags {command.tag} to {command.last}"
    because = f" because: {command.reason}" if command.reason else ""
    return f"{command.outcome} {tags} of channel {quoted(command.channel)}{because}"


def _settlement(command: commands.Settlement) -> str:
    words = [str(command.__struct_config__.tag), ", ".join(command.refs) or "nothing"]
    if getattr(command, "multiple", False):
        words.append("and every earlier delivery on its channel")
    if not isinstance(command, commands.Ack):
        words.append("and requeue" if command.requeue else "without requeue")
        if command.reason:
            words.append(f"because: {command.reason}")
    return " ".join(words)


def _administration(step: Step) -> str:
    action: Any = step.action
    match action:
        case commands.DeclareQueue():
            name = quoted(action.queue.name)
            return f"declare queue {name} {table_words(action.queue.arguments)}"
        case commands.DeclareExchange():
            exchange = action.exchange
            what = f"declare {exchange.type} exchange {quoted(exchange.name)}"
            return f"{what} {table_words(exchange.arguments)}" if exchange.arguments else what
        case commands.Bind():
            return f"bind {_binding(action.binding, 'to')}"
        case commands.Unbind():
            return f"unbind {_binding(action.binding, 'from')}"
        case commands.SetPolicy() | commands.SetOperatorPolicy():
            policy = action.policy
            what = (
                f"{_spaced(step.op)} {quoted(policy.name)} for names like {quoted(policy.pattern)}"
            )
            return f"{what}: {table_words(policy.definition)}"
        case commands.Purge() | commands.DeleteQueue():
            return f"{_spaced(step.op).replace(' queue', '')} queue {quoted(action.queue)}"
        case commands.DeleteExchange():
            return f"delete exchange {quoted(action.exchange)}"
        case commands.ClearPolicy() | commands.ClearOperatorPolicy():
            return f"{_spaced(step.op)} {quoted(action.name)}"
        case _:
            return _spaced(step.op)


def _spaced(op: str) -> str:
    return op.replace("_", " ")


def _binding(binding: Binding, preposition: str) -> str:
    arguments = f" {table_words(binding.arguments)}" if binding.arguments else ""
    destination = f"{binding.destination_type} {quoted(binding.destination)}"
    source = exchange_words(binding.source)
    return f"{destination} {preposition} {source} with key {quoted(binding.routing_key)}{arguments}"


# -- queues


def queue_words(settings: QueueSettings) -> str:
    """The settings in force for a queue, from its arguments and policies."""
    words = [settings.queue_type]
    if settings.message_ttl_ms is not None:
        words.append(f"messages expire after {settings.message_ttl_ms} ms")
    limits = [
        counted(limit, unit)
        for limit, unit in ((settings.max_length, "message"), (settings.max_length_bytes, "byte"))
        if limit is not None
    ]
    if limits:
        words.append(f"at most {' and '.join(limits)} ready, then {settings.overflow}")
    if settings.delivery_limit is not None:
        words.append(f"delivery limit {settings.delivery_limit}")
    if settings.max_priority is not None:
        words.append(f"priorities up to {settings.max_priority}")
    if settings.expires_ms is not None:
        words.append(f"deleted when unused for {settings.expires_ms} ms")
    if settings.dead_letter_exchange is not None:
        words.append(f"dead letters go to {_dead_letter_words(settings)}")
    if settings.alternate_exchange is not None:
        words.append(f"rejected and orphaned go to {exchange_words(settings.alternate_exchange)}")
    return ", ".join(words)


def _dead_letter_words(settings: QueueSettings) -> str:
    words = exchange_words(settings.dead_letter_exchange or "")
    if settings.dead_letter_routing_key is not None:
        words += f" with key {quoted(settings.dead_letter_routing_key)}"
    return f"{words}, at least once" if settings.at_least_once else words


# -- routes


_LedBy = dict[tuple[str, str], Hop]
"""Destination type and name -> the hop that first reaches it."""


def ways(router: Router, envelope: Envelope, headers: Mapping[str, Any] | None) -> dict[str, str]:
    """Queue -> how a message reaches it now, such as `by direct binding 'new'`."""
    start = envelope.exchange
    led_by = _led_by(router, start, envelope, headers)
    return {
        name: f"by {', '.join(_way(router, led_by, hop, start))}"
        for (kind, name), hop in led_by.items()
        if kind == "queue"
    }


def immediate_way(
    router: Router, envelope: Envelope, headers: Mapping[str, Any] | None, queue: str
) -> str | None:
    """How an immediate message reaches a queue past queues whose consumers are busy.

    It follows the alternate exchange of each exchange on its route, although that exchange has
    matching bindings.
    """
    seen = {envelope.exchange}
    work: list[tuple[str, list[str]]] = [(envelope.exchange, [])]
    for start, before in work:
        led_by = _led_by(router, start, envelope, headers)
        hop = led_by.get(("queue", queue))
        if hop is not None:
            return f"by {', '.join([*before, *_way(router, led_by, hop, start)])}"
        reached: list[tuple[str, list[str]]] = [(start, [])]
        for (kind, name), last in led_by.items():
            if kind == "exchange":
                reached.append((name, _way(router, led_by, last, start)))
        for exchange, way in reached:
            alternate = router.alternate_of(exchange)
            if alternate in router.exchanges and alternate not in seen:
                seen.add(alternate)
                work.append((alternate, [*before, *way, f"alternate exchange {quoted(alternate)}"]))
    return None


def _led_by(
    router: Router, start: str, envelope: Envelope, headers: Mapping[str, Any] | None
) -> _LedBy:
    hops = router.explain(start, envelope.routing_keys, headers)
    return {(hop.destination_type, hop.destination): hop for hop in hops if not hop.again}


def _way(router: Router, led_by: _LedBy, last: Hop, start: str) -> list[str]:
    """The hops from an exchange to a destination, as text."""
    hops = [last]
    while hops[0].exchange != start:
        hops.insert(0, led_by[("exchange", hops[0].exchange)])
    return [_hop(hop, router.exchanges[hop.exchange].type) for hop in hops]


def _hop(hop: Hop, exchange_type: str) -> str:
    if hop.via == "default exchange":
        return "its name"
    if hop.binding is None:
        return f"alternate exchange {quoted(hop.destination)}"
    binding = hop.binding
    words = f"{exchange_type} binding"
    if exchange_type == "headers":
        words += f" {table_words(binding.arguments)}"
    elif exchange_type != "fanout":
        words += f" {quoted(binding.routing_key)}"
    if hop.destination_type == "exchange":
        words += f" to exchange {quoted(hop.destination)}"
    return words
