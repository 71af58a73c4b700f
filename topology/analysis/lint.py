"""What in a valid topology is probably a mistake.

Valid definitions may still lose messages silently: RabbitMQ accepts a dead-letter exchange that
does not exist, or a policy that matches nothing. Each rule below finds one such mistake.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from topology.analysis.cycles import alternate_cycles, automatic_cycles
from topology.analysis.reachability import Key, Reach
from topology.declarations import (
    PREDECLARED,
    PREDECLARED_NAMES,
    Definitions,
    Exchange,
    Policy,
    Queue,
)
from topology.errors import Problem
from topology.policies import PolicyTable, QueueSettings
from topology.suggestions import did_you_mean
from topology.values import Compat
from topology.vhost import Vhost


class _Exit(NamedTuple):
    """Where messages go that leave a queue without being acknowledged.

    Attributes:
        by_death: over the dead-letter exchange; else over the queue's alternate exchange.
        messages: which messages take this exit, for people.
        key: the new routing key; None if messages keep theirs.
    """

    queue: str
    by_death: bool
    messages: str
    exchange: str
    key: Key


class _Subject(NamedTuple):
    vhost: Vhost
    settings: dict[str, QueueSettings]
    exits: list[_Exit]
    reach: Reach


def lint(definitions: Definitions, compat: Compat = "4.0") -> tuple[Problem, ...]:
    """Find everything in one vhost that is probably a mistake, ordered by rule, then by name.

    The `where` of each problem names an object: `queue 'work'`.

    Args:
        definitions: valid ones: `find_problems` finds nothing in them.
    """
    vhost = Vhost.from_definitions(definitions, compat)
    settings = dict(sorted(vhost.all_settings().items()))
    exits = [each for queue in settings for each in _exits_of(queue, settings[queue])]
    subject = _Subject(vhost, settings, exits, Reach(vhost))
    return tuple(problem for rule in _RULES for problem in rule(subject))


def _exits_of(queue: str, settings: QueueSettings) -> Iterator[_Exit]:
    exchange, alternate = settings.dead_letter_exchange, settings.alternate_exchange
    if exchange is not None:
        key = settings.dead_letter_routing_key
        yield _Exit(queue, True, "dead letters", exchange, key)  # noqa: FBT003 - a field
    if alternate is not None:
        messages = "orphaned messages" if exchange is not None else "rejected and orphaned messages"
        yield _Exit(queue, False, messages, alternate, None)  # noqa: FBT003 - a field


def _lost_on_exit(subject: _Subject) -> Iterator[Problem]:
    """Exits that lead nowhere: no exchange (R-DLX-4, R-QPID-2), or no route behind it (R-DLX-5)."""
    for queue, settings in subject.settings.items():
        if settings.dead_letter_exchange is None and settings.dead_letter_routing_key is not None:
            what = (
                f"has dead-letter routing key {settings.dead_letter_routing_key!r} but no "
                "dead-letter exchange"
            )
            yield Problem(f"queue {queue!r}", what)
    exchanges, reach = subject.vhost.router.exchanges, subject.reach
    for queue, by_death, messages, exchange, key in subject.exits:
        where = f"queue {queue!r}"
        via = "dead-letter exchange" if by_death else "alternate exchange"
        if exchange not in exchanges:
            hint = did_you_mean(exchange, exchanges)
            what = f"its {via} {exchange!r} does not exist{hint}: {messages} are lost"
            yield Problem(where, what)
        elif not reach.from_exchange(exchange, None):
            what = f"nothing is bound to its {via} {exchange!r}: {messages} are lost"
            yield Problem(where, what)
        elif key is not None:
            if not reach.from_exchange(exchange, key):
                yield Problem(where, _no_route(f"its {messages}", exchange, key))
        elif exchange:
            for arrival_key in reach.arrival_keys(queue):
                if arrival_key is not None and not reach.from_exchange(exchange, arrival_key):
                    whose = f"{messages} that arrived"
                    yield Problem(where, _no_route(whose, exchange, arrival_key))


def _no_route(whose: str, exchange: str, key: str) -> str:
    if not exchange:
        return f"{whose} with routing key {key!r} are lost: no queue has that name"
    return f"{whose} with routing key {key!r} are lost: exchange {exchange!r} has no binding for it"


def _lost_alternates(subject: _Subject) -> Iterator[Problem]:
    """Alternate exchanges that do not exist (R-AE-4), or take messages and lose them (R-AE-9)."""
    router = subject.vhost.router
    for exchange in sorted(router.exchanges):
        alternate = router.alternate_of(exchange)
        if alternate is None:
            continue
        where = f"exchange {exchange!r}"
        if alternate == exchange:
            yield Problem(where, "is its own alternate exchange, which has no effect")
            continue
        if alternate not in router.exchanges:
            hint = did_you_mean(alternate, router.exchanges)
            what = f"its alternate exchange {alternate!r} does not exist{hint}"
        elif not alternate:
            what = "its alternate exchange is the default exchange, which takes nothing"
        elif not subject.reach.from_exchange(alternate, None):
            what = f"nothing is bound to its alternate exchange {alternate!r}"
        else:
            continue
        yield Problem(where, f"{what}: unrouted messages are lost")


def _idle_exchanges(subject: _Subject) -> Iterator[Problem]:
    """Exchanges that lead to no queue, unless another rule reports them."""
    router = subject.vhost.router
    reported = {each.exchange for each in subject.exits}
    reported.update(router.alternate_of(exchange) or "" for exchange in router.exchanges)
    for exchange in sorted(router.exchanges.keys() - PREDECLARED_NAMES - reported):
        if not subject.reach.from_exchange(exchange, None):
            what = "leads to no queue: messages published to it are lost"
            yield Problem(f"exchange {exchange!r}", what)


def _unreachable_queues(subject: _Subject) -> Iterator[Problem]:
    """Queues that no binding and no exit of another queue leads to."""
    sources: set[tuple[str, Key]] = {(each.exchange, each.key) for each in subject.exits}
    sources |= {
        (exchange.name, None)
        for exchange in subject.vhost.router.exchanges.values()
        if not exchange.internal
    }
    reached: set[str] = set()
    for exchange, key in sources - {("", None)}:
        reached.update(subject.reach.from_exchange(exchange, key))
    for queue in sorted(subject.settings.keys() - reached):
        what = (
            "is unreachable: no binding, dead letter or alternate exchange leads to it, only a "
            "publish to the default exchange with its name"
        )
        yield Problem(f"queue {queue!r}", what)


def _cycles(subject: _Subject) -> Iterator[Problem]:
    """Cycles on which messages are dropped (R-CYC-3) or discarded (R-QPID-5)."""
    for cycle in automatic_cycles(subject.vhost):
        what = f"automatic dead-letter cycle: {cycle}; messages that return unrejected are dropped"
        yield Problem(f"queue {cycle.queues[0]!r}", what)
    for cycle in alternate_cycles(subject.vhost):
        what = (
            f"alternate exchange cycle: {cycle}; a message that is rejected again is discarded, "
            "unless x-reroute-once is false"
        )
        yield Problem(f"queue {cycle.queues[0]!r}", what)


def _refusing_targets(subject: _Subject) -> Iterator[Problem]:
    """Targets of exits that refuse messages when they are full (R-LEN-12)."""
    refusing = {queue for queue, each in subject.settings.items() if each.refuses_when_full}
    targets_of: dict[tuple[str, Key], list[str]] = {}
    for queue, by_death, messages, exchange, key in subject.exits if refusing else ():
        at_least_once = by_death and subject.settings[queue].at_least_once
        if at_least_once or (not exchange and key is None):
            continue
        if (exchange, key) not in targets_of:
            reached = subject.reach.from_exchange(exchange, key)
            targets_of[exchange, key] = sorted(refusing.intersection(reached))
        if targets := targets_of[exchange, key]:
            others = f" and {len(targets) - 1} more" if len(targets) > 1 else ""
            what = (
                f"its {messages} that find {targets[0]!r}{others} full are refused there "
                "(reject-publish) and lost"
            )
            yield Problem(f"queue {queue!r}", what)


def _settings_without_effect(subject: _Subject) -> Iterator[Problem]:
    """Settings that have no effect on this queue type, or without another one."""
    policies = {policy.name: policy.definition for policy in subject.vhost.policies.policies()}
    for name, settings in subject.settings.items():
        by_policy = policies[settings.policy] if settings.policy is not None else {}
        wanted = {f"x-{key}": value for key, value in by_policy.items()}
        wanted |= subject.vhost.queues[name].arguments
        where = f"queue {name!r}"
        if wanted.get("x-dead-letter-strategy") == "at-least-once" and not settings.at_least_once:
            what = (
                "dead-letter-strategy at-least-once needs a dead-letter exchange and overflow "
                "reject-publish: dead letters are sent at most once"
            )
            yield Problem(where, what)
        if wanted.get("x-overflow") == "reject-publish-dlx" and settings.queue_type == "quorum":
            yield Problem(where, "overflow reject-publish-dlx acts as drop-head on a quorum queue")


def _policies(subject: _Subject) -> Iterator[Problem]:
    """Policies without effect, and ties; policies for streams are ignored, as streams are."""
    for operator in (False, True):
        yield from _policies_of_kind(subject.vhost, operator=operator)


def _policies_of_kind(vhost: Vhost, *, operator: bool) -> Iterator[Problem]:
    kind = "operator policy" if operator else "policy"
    objects = _objects(vhost)
    policies = vhost.policies.policies(operator=operator)
    matched = {policy.name: _matched_by(policy, objects) for policy in policies}
    in_force = {
        applied.name
        for item in objects.values()
        if (applied := vhost.policies.applying_to(item, operator=operator)) is not None
    }
    for policy in policies:
        where = f"{kind} {policy.name!r}"
        if policy.apply_to == "streams":
            continue
        if not matched[policy.name]:
            what = f"matches nothing: pattern {policy.pattern!r}, apply-to {policy.apply_to}"
            yield Problem(where, what)
        elif policy.name not in in_force:
            yield Problem(where, "never applies: other policies outrank it wherever it matches")
    yield from _ties(kind, policies, matched)


def _ties(kind: str, policies: list[Policy], matched: dict[str, list[str]]) -> Iterator[Problem]:
    """Policies of equal, highest priority on one object (R-POL-9), each group once."""
    rivals_of: dict[str, list[Policy]] = {}
    for policy in policies:
        for name in matched[policy.name]:
            rivals_of.setdefault(name, []).append(policy)
    reported: set[tuple[str, ...]] = set()
    for name, rivals in rivals_of.items():
        highest = max(policy.priority for policy in rivals)
        names = tuple(policy.name for policy in rivals if policy.priority == highest)
        if len(names) > 1 and names not in reported:
            reported.add(names)
            others = " and ".join(repr(other) for other in names[1:])
            what = (
                f"has the same priority ({highest}) as {others} on {name}: which one applies is "
                "undefined"
            )
            yield Problem(f"{kind} {names[0]!r}", what)


def _objects(vhost: Vhost) -> dict[str, Queue | Exchange]:
    """Everything a policy can apply to, by its name in a problem; predeclared exchanges last."""
    queues = {f"queue {queue.name!r}": queue for queue in vhost.queues.values()}
    exchanges = sorted(vhost.router.exchanges.values(), key=PREDECLARED.__contains__)
    return queues | {f"exchange {exchange.name!r}": exchange for exchange in exchanges}


def _matched_by(policy: Policy, objects: dict[str, Queue | Exchange]) -> list[str]:
    """The objects that a policy would apply to if it were the only one."""
    alone = PolicyTable()
    alone.set(policy)
    return [name for name, item in objects.items() if alone.applying_to(item)]


_RULES: tuple[Callable[[_Subject], Iterator[Problem]], ...] = (
    _lost_on_exit,
    _lost_alternates,
    _idle_exchanges,
    _unreachable_queues,
    _cycles,
    _refusing_targets,
    _settings_without_effect,
    _policies,
)
