"""Policies that do nothing, or of which RabbitMQ does not say which one counts."""

from collections.abc import Iterator

import msgspec

from topology.declarations import PREDECLARED, Definitions, Exchange, Policy, Queue
from topology.errors import Problem
from topology.policies import PolicyTable
from topology.vhost import Vhost


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
