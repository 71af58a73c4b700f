"""What in a valid topology is probably a mistake.

Valid definitions may still lose messages in silence: RabbitMQ accepts a dead-letter exchange that
does not exist, or a policy that nothing matches. Each rule below finds one such thing. Rules about
policies are in `policy_lint`, rings of dead letters in `cycles`.
"""

from collections.abc import Callable, Iterator

import msgspec

from topology.analysis.cycles import automatic_cycles
from topology.analysis.reachability import Reach
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


def lint(definitions: Definitions, compat: Compat = "4.0") -> tuple[Problem, ...]:
    """Everything in one vhost that is probably a mistake, ordered by rule, then by name.

    Args:
        definitions: free of problems (`validation.check_definitions` finds none).
        compat: whose behaviour counts where versions differ (the default delivery limit, R-DLV-5).

    Returns:
        Problems whose `where` names an object: `queue 'work'`.
    """
    compiled = Vhost.from_definitions(definitions, compat)
    found = [problem for rule in _RULES for problem in rule(compiled)]
    return (*found, *lint_policies(definitions, compiled))


def _dead_letter_exchanges(compiled: Vhost) -> Iterator[Problem]:
    """Dead letters that go nowhere: no exchange (R-DLX-4), or no route behind it (R-DLX-5)."""
    reach = Reach(compiled)
    exchanges = compiled.router.exchanges
    for queue, settings in sorted(compiled.all_settings().items()):
        where = f"queue {queue!r}"
        exchange, key = settings.dead_letter_exchange, settings.dead_letter_routing_key
        if exchange is None:
            if key is not None:
                yield Problem(
                    where, f"has dead-letter routing key {key!r} and no dead-letter exchange"
                )
        elif exchange not in exchanges:
            hint = did_you_mean(exchange, exchanges)
            yield Problem(
                where,
                f"its dead-letter exchange {exchange!r} does not exist{hint}: "
                "dead letters are lost",
            )
        elif not reach.from_exchange(exchange, None):
            yield Problem(
                where,
                f"nothing is bound to its dead-letter exchange {exchange!r}: dead letters are lost",
            )
        elif key is not None:
            if not reach.from_exchange(exchange, key):
                yield Problem(where, _no_way_on("its dead letters", exchange, key))
        elif exchange:
            for arrival_key in reach.arrival_keys(queue):
                if arrival_key is not None and not reach.from_exchange(exchange, arrival_key):
                    what = "dead letters of messages that came"
                    yield Problem(where, _no_way_on(what, exchange, arrival_key))


def _no_way_on(whose: str, exchange: str, key: str) -> str:
    if not exchange:
        return f"{whose} with routing key {key!r} are lost: no queue has that name"
    return f"{whose} with routing key {key!r} are lost: exchange {exchange!r} has no binding for it"


def _alternate_exchanges(compiled: Vhost) -> Iterator[Problem]:
    """Alternate exchanges that do not exist (R-AE-4), or take messages and lose them (R-AE-9)."""
    reach = Reach(compiled)
    router = compiled.router
    for exchange in sorted(router.exchanges):
        alternate = router.alternate_of(exchange)
        if alternate is None:
            continue
        where = f"exchange {exchange!r}"
        if alternate not in router.exchanges:
            hint = did_you_mean(alternate, router.exchanges)
            yield Problem(
                where,
                f"its alternate exchange {alternate!r} does not exist{hint}: "
                "what no binding takes is lost",
            )
        elif not alternate:
            yield Problem(
                where, "its alternate exchange is the default exchange, which takes nothing"
            )
        elif alternate == exchange:
            yield Problem(where, "is its own alternate exchange, which has no effect")
        elif not reach.from_exchange(alternate, None):
            yield Problem(
                where,
                f"nothing is bound to its alternate exchange {alternate!r}: "
                "what no binding takes is lost",
            )


def _idle_exchanges(compiled: Vhost) -> Iterator[Problem]:
    """Exchanges that lead to no queue, and are nobody's dead-letter or alternate exchange."""
    reach = Reach(compiled)
    router = compiled.router
    reported = {settings.dead_letter_exchange for settings in compiled.all_settings().values()}
    reported.update(router.alternate_of(exchange) for exchange in router.exchanges)
    for exchange in sorted(router.exchanges.keys() - PREDECLARED_NAMES - reported):
        if not reach.from_exchange(exchange, None):
            yield Problem(
                f"exchange {exchange!r}", "leads to no queue: what is published to it is lost"
            )


def _unreachable_queues(compiled: Vhost) -> Iterator[Problem]:
    """Queues that no binding and no dead letter leads to."""
    reach = Reach(compiled)
    router = compiled.router
    reached: set[str] = set()
    for exchange in router.exchanges.values():
        if exchange.name and not exchange.internal:
            reached.update(reach.from_exchange(exchange.name, None))
    for settings in compiled.all_settings().values():
        exchange_name, key = settings.dead_letter_exchange, settings.dead_letter_routing_key
        if exchange_name or (exchange_name is not None and key is not None):
            reached.update(reach.from_exchange(exchange_name, key))
    for queue in sorted(compiled.queues.keys() - reached):
        yield Problem(
            f"queue {queue!r}",
            "is unreachable: no binding or dead letter leads to it, only a publish to the default "
            "exchange by its name",
        )


def _cycles(compiled: Vhost) -> Iterator[Problem]:
    """Rings that messages travel without a rejection, and are dropped in (R-CYC-3)."""
    for lap in automatic_cycles(compiled):
        yield Problem(
            f"queue {lap.queues[0]!r}",
            f"automatic dead-letter cycle: {lap}; what comes round unrejected is dropped",
        )


def _refusing_targets(compiled: Vhost) -> Iterator[Problem]:
    """Dead-letter targets that refuse what arrives when they are full (R-LEN-12)."""
    refusing = {queue for queue, limits in compiled.all_settings().items() if _refuses(limits)}
    if not refusing:
        return
    reach = Reach(compiled)
    for queue, settings in sorted(compiled.all_settings().items()):
        exchange, key = settings.dead_letter_exchange, settings.dead_letter_routing_key
        if exchange is None or settings.at_least_once or (not exchange and key is None):
            continue
        targets = sorted(refusing.intersection(reach.from_exchange(exchange, key)))
        if targets:
            others = f" and {len(targets) - 1} more" if len(targets) > 1 else ""
            yield Problem(
                f"queue {queue!r}",
                f"its dead letters that find {targets[0]!r}{others} full are refused there "
                "(reject-publish) and lost",
            )


def _refuses(limits: QueueSettings) -> bool:
    bounded = limits.max_length is not None or limits.max_length_bytes is not None
    return bounded and limits.overflow == "reject-publish"


def _settings_without_effect(compiled: Vhost) -> Iterator[Problem]:
    """Settings that a queue's type, or another setting, makes inert (R-ALO-1, R-LEN-14)."""
    policies = {policy.name: policy.definition for policy in compiled.policies.policies()}
    for name, queue in sorted(compiled.queues.items()):
        settings = compiled.settings(queue)
        by_policy = policies[settings.policy] if settings.policy is not None else {}
        wanted = {f"x-{key}": value for key, value in by_policy.items()} | queue.arguments
        where = f"queue {name!r}"
        if wanted.get("x-dead-letter-strategy") == "at-least-once" and not settings.at_least_once:
            yield Problem(
                where,
                "dead-letter-strategy at-least-once needs a dead-letter exchange and overflow "
                "reject-publish: dead letters are sent at most once",
            )
        if wanted.get("x-overflow") == "reject-publish-dlx" and settings.queue_type == "quorum":
            yield Problem(where, "overflow reject-publish-dlx acts as drop-head on a quorum queue")


_RULES: tuple[Callable[[Vhost], Iterator[Problem]], ...] = (
    _dead_letter_exchanges,
    _alternate_exchanges,
    _idle_exchanges,
    _unreachable_queues,
    _cycles,
    _refusing_targets,
    _settings_without_effect,
)


class _Kind(msgspec.Struct, frozen=True):
    """Ordinary policies or operator policies, and what they match."""

    word: str
    operator: bool
    policies: tuple[Policy, ...]


def lint_policies(definitions: Definitions, compiled: Vhost) -> tuple[Problem, ...]:
    """What is probably a mistake in the policies of one vhost, ordinary ones first, by name.

    Policies for streams alone are left out of account, as streams are.
    """
    kinds = (
        _Kind("policy", operator=False, policies=definitions.policies),
        _Kind("operator policy", operator=True, policies=definitions.operator_policies),
    )
    return tuple(problem for kind in kinds for problem in _lint(kind, compiled))


def _lint(kind: _Kind, compiled: Vhost) -> Iterator[Problem]:
    objects = _objects(compiled)
    policies = sorted(kind.policies, key=lambda policy: policy.name)
    matched = {policy.name: _matched_by(policy, objects) for policy in policies}
    for policy in policies:
        where = f"{kind.word} {policy.name!r}"
        if policy.apply_to == "streams":
            continue
        if not matched[policy.name]:
            yield Problem(where, f"matches nothing: pattern {policy.pattern!r}, {policy.apply_to}")
        elif not any(
            _in_force(compiled.policies, item, operator=kind.operator) == policy
            for item in matched[policy.name].values()
        ):
            yield Problem(where, "is never in force: other policies outrank it wherever it matches")
    contenders = {
        name: [policy for policy in policies if name in matched[policy.name]] for name in objects
    }
    yield from _ties(kind, contenders)


def _ties(kind: _Kind, contenders: dict[str, list[Policy]]) -> Iterator[Problem]:
    """Different policies of equal, highest priority on one object (R-POL-9), each group once.

    Args:
        kind: the kind of policy.
        contenders: for each object, the policies that match it, by name.
    """
    reported: set[tuple[str, ...]] = set()
    for name, rivals in contenders.items():
        if not rivals:
            continue
        highest = max(policy.priority for policy in rivals)
        best = [policy for policy in rivals if policy.priority == highest]
        names = tuple(policy.name for policy in best)
        if len(best) > 1 and names not in reported:
            reported.add(names)
            others = " and ".join(repr(other) for other in names[1:])
            yield Problem(
                f"{kind.word} {names[0]!r}",
                f"has the same priority ({highest}) as {others} on {name}: "
                "which one applies is not defined",
            )


def _objects(compiled: Vhost) -> dict[str, Queue | Exchange]:
    """Everything a policy can apply to, by its name in a problem; predeclared exchanges last."""
    queues = {f"queue {queue.name!r}": queue for queue in compiled.queues.values()}
    exchanges = sorted(compiled.router.exchanges.values(), key=PREDECLARED.__contains__)
    return queues | {f"exchange {exchange.name!r}": exchange for exchange in exchanges}


def _matched_by(
    policy: Policy, objects: dict[str, Queue | Exchange]
) -> dict[str, Queue | Exchange]:
    """The objects that a policy would apply to if it were the only one."""
    alone = PolicyTable()
    alone.set(policy)
    return {name: item for name, item in objects.items() if _in_force(alone, item, operator=False)}


def _in_force(policies: PolicyTable, item: Queue | Exchange, *, operator: bool) -> Policy | None:
    if isinstance(item, Queue):
        return policies.policy_of_queue(item, operator=operator)
    return policies.policy_of_exchange(item, operator=operator)
