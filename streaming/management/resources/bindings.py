"""Bindings. One is named by its two ends and a key made of its routing key and arguments."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final
from urllib.parse import quote_plus, unquote_plus

from starlette.responses import Response

from streaming.amqp.declaring import on_one_line
from streaming.amqp.vhosts import OpenVhost
from streaming.broker import commands
from streaming.management.answers import created, done
from streaming.management.binding_keys import properties_key
from streaming.management.errors import missing
from streaming.management.formats import binding_item, default_binding
from streaming.management.listing import Listing
from streaming.management.resources.doing import do
from streaming.management.routing import Asked, Resource, anyone, of_vhost
from topology.declarations import Binding, BindingEnd, DestinationType

_TYPES: Final[dict[str, DestinationType]] = {"e": "exchange", "q": "queue"}


async def _reply(asked: Asked, bindings: Callable[[OpenVhost], Iterable[Binding]]) -> Any:
    """Some bindings of the vhost in the path; one that is not there has none."""
    vhost = asked.vhost_if_there
    found = () if vhost is None else bindings(vhost)
    items = (binding_item(asked.names["vhost"], binding) for binding in found)
    return await Listing(asked.query, _ORDER, has_pages=False).reply(items)


_ORDER: Final = ("vhost", "source", "destination", "routing_key", "properties_key")


def _bindings_of(vhost: OpenVhost) -> Iterator[Binding]:
    """The bindings of a vhost, those to the default exchange first."""
    topology = vhost.shard.vhost
    yield from map(default_binding, list(topology.queues))
    for exchange in list(topology.router.exchanges):
        if exchange:
            yield from topology.router.bindings.from_exchange(exchange)


async def all_bindings(asked: Asked) -> Any:
    """The bindings of the vhost in the path, or of all that the user sees."""
    items = (
        binding_item(vhost.name, binding)
        for vhost in asked.one_or_all()
        for binding in _bindings_of(vhost)
    )
    return await Listing(asked.query, _ORDER, has_pages=False).reply(items)


def _from(vhost: OpenVhost, exchange: str) -> Iterable[Binding]:
    if not exchange:
        return map(default_binding, list(vhost.shard.vhost.queues))
    return vhost.shard.vhost.router.bindings.from_exchange(exchange)


def _to(vhost: OpenVhost, end: BindingEnd) -> list[Binding]:
    kind, name = end
    found = [one for one in vhost.shard.vhost.router.bindings.to(end) if one.source]
    return [default_binding(name), *found] if kind == "queue" else found


async def exchange_source(asked: Asked) -> Any:
    """The bindings from an exchange."""
    return await _reply(asked, lambda vhost: _from(vhost, asked.name_of("exchange")))


async def exchange_destination(asked: Asked) -> Any:
    """The bindings to an exchange."""
    return await _reply(asked, lambda vhost: _to(vhost, ("exchange", asked.name_of("exchange"))))


async def queue_bindings(asked: Asked) -> Any:
    """The bindings to a queue."""
    return await _reply(asked, lambda vhost: _to(vhost, ("queue", asked.names["queue"])))


def _between(asked: Asked) -> tuple[str, DestinationType, str]:
    kind = _TYPES.get(asked.names["type"])
    if kind is None:
        raise missing()
    destination = asked.names["destination"]
    return asked.name_of("source"), kind, "" if destination == "amq.default" else destination


def _all_between(asked: Asked, vhost: OpenVhost) -> list[Binding]:
    source, kind, destination = _between(asked)
    return [one for one in _to(vhost, (kind, destination)) if one.source == source]


async def between(asked: Asked) -> Any:
    """The bindings between two ends."""
    return await _reply(asked, lambda vhost: _all_between(asked, vhost))


async def bind(asked: Asked) -> Response:
    """Bind a queue or an exchange to an exchange."""
    vhost, members = asked.vhost, asked.members()
    source, kind, destination = _between(asked)
    key = members.text("routing_key", "")
    source, destination = on_one_line(source), on_one_line(destination)
    binding = Binding(source, destination, kind, key, members.table("arguments"))
    await do(asked, vhost, commands.Bind(binding=binding))
    place = f"{_quoted(destination)}/{_quoted(properties_key(binding))}"
    return created(location=place)


def _quoted(name: str) -> str:
    return quote_plus(name, safe="~", errors="surrogatepass")


def _one(asked: Asked) -> Binding:
    """The binding whose key is in the path, encoded once more or not."""
    wanted = asked.names["key"]
    key, tilde, arguments = wanted.partition("~")
    named = unquote_plus(key), tilde and arguments
    for binding in _all_between(asked, asked.vhost):
        own = properties_key(binding)
        own_key, own_tilde, own_arguments = own.partition("~")
        if own == wanted or (unquote_plus(own_key), own_tilde and own_arguments) == named:
            return binding
    raise missing()


async def one_binding(asked: Asked) -> Any:
    """A binding."""
    return binding_item(asked.vhost.name, _one(asked))


async def unbind(asked: Asked) -> Response:
    """Remove a binding."""
    await do(asked, asked.vhost, commands.Unbind(binding=_one(asked)))
    return done()


RESOURCES: Final = [
    Resource("bindings", anyone, {"GET": all_bindings}),
    Resource("bindings/{vhost}", of_vhost, {"GET": all_bindings}),
    Resource(
        "bindings/{vhost}/e/{source}/{type}/{destination}",
        of_vhost,
        {"GET": between, "POST": bind},
    ),
    Resource(
        "bindings/{vhost}/e/{source}/{type}/{destination}/{key}",
        of_vhost,
        {"GET": one_binding, "DELETE": unbind},
    ),
]
