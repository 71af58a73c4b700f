"""The router after any changes, against an obvious implementation of routing."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from topology.declarations import PREDECLARED, Binding, Exchange
from topology.routing.exchanges import EXCHANGE_TYPES, new_matcher
from topology.routing.router import Router

exchange_names = st.sampled_from(["d", "f", "h", "t", "amq.topic"])
queue_names = st.sampled_from(["q1", "q2", "q3"])
keys = st.sampled_from(["", "a", "a.b", "a.*", "#"])
tables = st.sampled_from([{}, {"h": 1}, {"h": 2, "x-match": "any"}])
MESSAGES = [
    (keys, headers) for keys in (("a",), ("a.b",), ("", "q1")) for headers in (None, {"h": 1})
]


def binding_to(source, to, key, table):
    if to.startswith("q"):
        return Binding(source, to, "queue", key, table)
    return Binding(source, to, "exchange", key, table)


def binding_end(binding):
    return (binding.destination_type, binding.destination)


class RouterMachine(RuleBasedStateMachine):
    """Declares, binds and deletes at random; the model is three plain collections."""

    def __init__(self):
        super().__init__()
        self.router = Router()
        self.exchanges = {exchange.name: exchange for exchange in PREDECLARED}
        self.alternates = {}
        self.queues = set()
        self.bindings = {}

    @rule(name=exchange_names, exchange_type=st.sampled_from(EXCHANGE_TYPES))
    def declare_exchange(self, name, exchange_type):
        if name not in self.exchanges:
            self.exchanges[name] = Exchange(name, exchange_type)
            self.router.declare_exchange(self.exchanges[name])

    @rule(name=queue_names)
    def declare_queue(self, name):
        self.queues.add(name)
        self.router.declare_queue(name)

    @rule(name=exchange_names, alternate=st.one_of(st.none(), exchange_names, st.just("")))
    def set_alternate(self, name, alternate):
        if name in self.exchanges:
            self.alternates[name] = alternate
            self.router.set_alternate(name, alternate)

    @rule(source=exchange_names, to=st.one_of(exchange_names, queue_names), key=keys, table=tables)
    def bind(self, source, to, key, table):
        binding = binding_to(source, to, key, table)
        if source in self.exchanges and to in (*self.exchanges, *self.queues):
            assert self.router.bind(binding) is (binding.key not in self.bindings)
            self.bindings[binding.key] = binding

    @rule(source=exchange_names, to=st.one_of(exchange_names, queue_names), key=keys, table=tables)
    def unbind(self, source, to, key, table):
        binding = binding_to(source, to, key, table)
        assert self.router.unbind(binding) is (self.bindings.pop(binding.key, None) is not None)

    @rule(name=queue_names)
    def delete_queue(self, name):
        if name in self.queues:
            self.queues.remove(name)
            self.remove(self.router.delete_queue(name), ("queue", name))

    @rule(name=exchange_names)
    def delete_exchange(self, name):
        if name in self.exchanges:
            del self.exchanges[name]
            self.alternates.pop(name, None)
            self.remove(self.router.delete_exchange(name), ("exchange", name))

    def remove(self, removed, node):
        gone = [
            binding
            for key, binding in sorted(self.bindings.items())
            if node in (("exchange", binding.source), binding_end(binding))
        ]
        assert removed == gone
        for binding in gone:
            del self.bindings[binding.key]

    @invariant()
    def it_routes_as_the_model(self):
        for exchange in self.exchanges:
            for routing_keys, headers in MESSAGES:
                found = self.router.route(exchange, routing_keys, headers)
                assert set(found.queues) == self.by_the_book(exchange, routing_keys, headers)
                assert list(found.queues) == sorted(found.queues)
                explained = self.router.explain(exchange, routing_keys, headers)
                reached = {hop.destination for hop in explained if hop.destination_type == "queue"}
                assert reached == set(found.queues)

    @invariant()
    def it_lists_what_was_declared(self):
        assert self.router.bindings.all() == [self.bindings[key] for key in sorted(self.bindings)]
        assert self.router.exchanges == self.exchanges
        assert set(self.router.queues) == self.queues

    def by_the_book(self, exchange, routing_keys, headers):
        """Route as in docs/semantics.md, section 23."""
        if not exchange:
            return self.queues & set(routing_keys)
        work, seen, result = [exchange], {exchange}, set()
        while work:
            here = work.pop(0)
            reached = {
                (binding.destination_type, binding.destination)
                for binding in self.bindings.values()
                if binding.source == here and self.matches(binding, routing_keys, headers)
            }
            if not reached and self.alternates.get(here) is not None:
                reached = {("exchange", self.alternates[here])}
            result |= {name for kind, name in reached if kind == "queue"}
            for kind, name in sorted(reached):
                if kind == "exchange" and name in self.exchanges and name not in seen:
                    seen.add(name)
                    work.append(name)
        return result

    def matches(self, binding, routing_keys, headers):
        matcher = new_matcher(self.exchanges[binding.source].type, "4.0")
        matcher.add(binding)
        return bool(matcher.match(routing_keys, headers))


RouterMachine.TestCase.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
TestRouter = RouterMachine.TestCase


@given(st.permutations([Binding("amq.topic", "q", "queue", key) for key in "abcde"]))
def test_the_order_of_declaration_does_not_matter(bindings):
    router = Router()
    router.declare_queue("q")
    for binding in bindings:
        router.bind(binding)

    assert router.bindings.all() == sorted(bindings, key=lambda binding: binding.key)
