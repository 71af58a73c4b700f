"""What in a valid topology is probably a mistake.

Valid definitions may still lose messages silently: RabbitMQ accepts a dead-letter exchange that
does not exist, or a policy that matches nothing. Each rule below finds one such mistake.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from topology.analysis.arrivals import Arrivals
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
from topology.definitions.supported_objects import NOTHING_SKIPPED, SkippedObjects
from topology.errors import Problem
from topology.policies import PolicyTable, QueueSettings
from topology.sentences import say, say_count
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
    """The vhost with stand-ins for what is skipped.

    Attributes:
        supported: the vhost without them.
        unknown: the exchanges among them.
    """

    vhost: Vhost
    supported: Vhost
    unknown: frozenset[str]
    settings: dict[str, QueueSettings]
    exits: list[_Exit]
    reach: Reach


def lint(
    definitions: Definitions,
    compat: Compat = "4.0",
    skipped: SkippedObjects = NOTHING_SKIPPED,
) -> tuple[Problem, ...]:
    """Find everything in one vhost that is probably a mistake, ordered by rule, then by name.

    The `where` of each problem names an object: `queue 'work'`. The rest is a sentence of its own,
    as a colon stands between them.

    Args:
        definitions: valid ones: `find_problems` finds nothing in them.
        skipped: what belongs to the vhost beside them. Messages may pass through it, so nothing
            that leads there is called lost; it has no problems itself.
    """
    supported = Vhost.from_definitions(definitions, compat)
    whole = supported
    if skipped.reasons:
        whole = Vhost.from_definitions(skipped.beside(definitions, follow=True), compat)
    settings = dict(sorted(whole.all_settings().items()))
    exits = [each for queue in settings for each in _exits_of(queue, settings[queue])]
    unknown = frozenset(each.name for each in skipped.exchanges)
    subject = _Subject(whole, supported, unknown, settings, exits, Reach(whole))
    ignored = {f"{kind} {name!r}" for kind, name in skipped.reasons}
    found = (problem for rule in _RULES for problem in rule(subject))
    return tuple(problem for problem in found if problem.where not in ignored)


def _exits_of(queue: str, settings: QueueSettings) -> Iterator[_Exit]:
    exchange, alternate = settings.dead_letter_exchange, settings.alternate_exchange
    if exchange is not None:
        key = settings.dead_letter_routing_key
        yield _Exit(queue, True, say("dead letters"), exchange, key)  # noqa: FBT003 - a field
    if alternate is not None:
        messages: str = say("rejected and orphaned messages")
        if exchange is not None:
            messages = say("orphaned messages")
        yield _Exit(queue, False, messages, alternate, None)  # noqa: FBT003 - a field


def _lost_on_exit(subject: _Subject) -> Iterator[Problem]:
    """Exits that lead nowhere: no exchange (R-DLX-4, R-QPID-2), or no route behind it (R-DLX-5)."""
    for queue, settings in subject.settings.items():
        if settings.dead_letter_exchange is None and settings.dead_letter_routing_key is not None:
            what = say(
                "its dead-letter routing key %(key)s has no effect without a dead-letter exchange",
                key=repr(settings.dead_letter_routing_key),
            )
            yield Problem(_queue(queue), what, "routing-key-without-exchange")
    arrivals = Arrivals(subject.vhost, subject.unknown)
    exchanges, reach = subject.vhost.router.exchanges, subject.reach
    hints: dict[str, str] = {}  # thousands of queues may name one exchange
    for queue, by_death, messages, exchange, key in subject.exits:
        where = _queue(queue)
        via, code = (
            (say("dead-letter exchange"), "dead-letter-exchange")
            if by_death
            else (say("alternate exchange"), "alternate-exchange")
        )
        unrouted = "unrouted-dead-letters" if by_death else "unrouted-rejections"
        if exchange not in exchanges:
            if exchange not in hints:
                hints[exchange] = did_you_mean(exchange, exchanges)
            what = say(
                "its %(via)s %(exchange)s does not exist%(hint)s: %(messages)s are lost",
                via=via,
                exchange=repr(exchange),
                hint=hints[exchange],
                messages=messages,
            )
            yield Problem(where, what, f"missing-{code}")
        elif not reach.from_exchange(exchange, None):
            what = say(
                "nothing is bound to its %(via)s %(exchange)s: %(messages)s are lost",
                via=via,
                exchange=repr(exchange),
                messages=messages,
            )
            yield Problem(where, what, f"unbound-{code}")
        elif key is not None:
            if not reach.from_exchange(exchange, key):
                whose = say(
                    "its %(messages)s with routing key %(key)s", messages=messages, key=repr(key)
                )
                yield Problem(where, _no_route(whose, exchange), unrouted)
        else:
            for with_key, keys in arrivals.of(queue):
                lost = next(
                    (each for each in keys if not reach.from_exchange(exchange, each)), None
                )
                if lost is not None:
                    whose = say(
                        "%(messages)s that arrived %(with_key)s %(key)s",
                        messages=messages,
                        with_key=with_key,
                        key=repr(lost),
                    )
                    yield Problem(where, _no_route(whose, exchange), unrouted)


def _no_route(whose: str, exchange: str) -> str:
    if not exchange:
        return say("%(whose)s are lost: no queue has that name", whose=whose)
    return say(
        "%(whose)s are lost: exchange %(exchange)s has no binding for it",
        whose=whose,
        exchange=repr(exchange),
    )


def _lost_alternates(subject: _Subject) -> Iterator[Problem]:
    """Alternate exchanges that do not exist (R-AE-4), or take messages and lose them (R-AE-9)."""
    router = subject.vhost.router
    for exchange in sorted(router.exchanges):
        alternate = router.alternate_of(exchange)
        if alternate is None:
            continue
        where = _exchange(exchange)
        if alternate == exchange:
            what = say("its alternate exchange is itself, which has no effect")
            yield Problem(where, what, "useless-alternate-exchange")
            continue
        if alternate not in router.exchanges:
            hint = did_you_mean(alternate, router.exchanges)
            what = say(
                "its alternate exchange %(alternate)s does not exist%(hint)s: unrouted messages "
                "are lost",
                alternate=repr(alternate),
                hint=hint,
            )
            code = "missing-alternate-exchange"
        elif not alternate:
            what = say(
                "its alternate exchange is the default exchange, which takes nothing: unrouted "
                "messages are lost"
            )
            code = "useless-alternate-exchange"
        elif not subject.reach.from_exchange(alternate, None):
            what = say(
                "nothing is bound to its alternate exchange %(alternate)s: unrouted messages are "
                "lost",
                alternate=repr(alternate),
            )
            code = "unbound-alternate-exchange"
        else:
            continue
        yield Problem(where, what, code)


def _idle_exchanges(subject: _Subject) -> Iterator[Problem]:
    """Exchanges that lead to no queue, unless another rule reports them."""
    router = subject.vhost.router
    reported = {each.exchange for each in subject.exits}
    reported.update(router.alternate_of(exchange) or "" for exchange in router.exchanges)
    for exchange in sorted(router.exchanges.keys() - PREDECLARED_NAMES - reported):
        if not subject.reach.from_exchange(exchange, None):
            what = say("no binding leads from it to a queue: messages published to it are lost")
            yield Problem(_exchange(exchange), what, "idle-exchange")


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
        what = say(
            "no binding, dead letter or alternate exchange leads to it, only a publish to the "
            "default exchange with its name"
        )
        yield Problem(_queue(queue), what, "unreachable-queue")


def _cycles(subject: _Subject) -> Iterator[Problem]:
    """Cycles on which messages are dropped (R-CYC-3) or discarded (R-QPID-5)."""
    for cycle in automatic_cycles(subject.supported):
        what = say(
            "automatic dead-letter cycle: %(cycle)s; messages that return unrejected are dropped",
            cycle=str(cycle),
        )
        yield Problem(_queue(cycle.queues[0]), what, "dead-letter-cycle")
    for cycle in alternate_cycles(subject.supported):
        what = say(
            "alternate exchange cycle: %(cycle)s; a message that is rejected again is discarded, "
            "unless x-reroute-once is false",
            cycle=str(cycle),
        )
        yield Problem(_queue(cycle.queues[0]), what, "alternate-exchange-cycle")


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
            place: str = repr(targets[0])
            if len(targets) > 1:
                place = say_count(
                    "%(target)s and %(count)s more",
                    "%(target)s and %(count)s more",
                    len(targets) - 1,
                    target=place,
                )
            what = say(
                "its %(messages)s that find %(place)s full are refused there (reject-publish) "
                "and lost",
                messages=messages,
                place=place,
            )
            yield Problem(_queue(queue), what, "refusing-target")


def _settings_without_effect(subject: _Subject) -> Iterator[Problem]:
    """Settings that have no effect on this queue type, or without another one."""
    policies = {policy.name: policy.definition for policy in subject.vhost.policies.policies()}
    for name, settings in subject.settings.items():
        by_policy = policies[settings.policy] if settings.policy is not None else {}
        wanted = {f"x-{key}": value for key, value in by_policy.items()}
        wanted |= subject.vhost.queues[name].arguments
        where = _queue(name)
        if wanted.get("x-dead-letter-strategy") == "at-least-once" and not settings.at_least_once:
            what = say(
                "dead-letter-strategy at-least-once needs a dead-letter exchange and overflow "
                "reject-publish: dead letters are sent at most once"
            )
            yield Problem(where, what, "setting-without-effect")
        if wanted.get("x-overflow") == "reject-publish-dlx" and settings.queue_type == "quorum":
            what = say("overflow reject-publish-dlx acts as drop-head on a quorum queue")
            yield Problem(where, what, "setting-without-effect")


def _policies(subject: _Subject) -> Iterator[Problem]:
    """Policies without effect, and ties; policies for streams are ignored, as streams are."""
    for operator in (False, True):
        yield from _policies_of_kind(subject.vhost, operator=operator)


def _policies_of_kind(vhost: Vhost, *, operator: bool) -> Iterator[Problem]:
    objects = _objects(vhost)
    policies = vhost.policies.policies(operator=operator)
    matched = {policy.name: _matched_by(policy, objects) for policy in policies}
    in_force = {
        applied.name
        for item in objects.values()
        if (applied := vhost.policies.applying_to(item, operator=operator)) is not None
    }
    for policy in policies:
        where = _policy(policy.name, operator=operator)
        if policy.apply_to == "streams":
            continue
        if not matched[policy.name]:
            what = say(
                "its pattern %(pattern)s with apply-to %(apply_to)s matches nothing",
                pattern=repr(policy.pattern),
                apply_to=policy.apply_to,
            )
            yield Problem(where, what, "policy-matches-nothing")
        elif policy.name not in in_force:
            what = say("other policies outrank it wherever it matches")
            yield Problem(where, what, "policy-never-applies")
    yield from _ties(policies, matched, operator=operator)


def _ties(
    policies: list[Policy], matched: dict[str, list[str]], *, operator: bool
) -> Iterator[Problem]:
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
            what = say(
                "its priority (%(priority)s) is also that of %(others)s on %(name)s: which one "
                "applies is undefined",
                priority=str(highest),
                others=", ".join(repr(other) for other in names[1:]),
                name=name,
            )
            yield Problem(_policy(names[0], operator=operator), what, "policy-tie")


def _objects(vhost: Vhost) -> dict[str, Queue | Exchange]:
    """Everything a policy can apply to, by its name in a problem; predeclared exchanges last."""
    queues = {_queue(queue.name): queue for queue in vhost.queues.values()}
    exchanges = sorted(vhost.router.exchanges.values(), key=PREDECLARED.__contains__)
    return queues | {_exchange(exchange.name): exchange for exchange in exchanges}


def _matched_by(policy: Policy, objects: dict[str, Queue | Exchange]) -> list[str]:
    """The objects that a policy would apply to if it were the only one."""
    alone = PolicyTable()
    alone.set(policy)
    return [name for name, item in objects.items() if alone.applying_to(item)]


def _queue(name: str) -> str:
    return say("queue %(name)s", name=repr(name))


def _exchange(name: str) -> str:
    return say("exchange %(name)s", name=repr(name))


def _policy(name: str, *, operator: bool) -> str:
    if operator:
        return say("operator policy %(name)s", name=repr(name))
    return say("policy %(name)s", name=repr(name))


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
