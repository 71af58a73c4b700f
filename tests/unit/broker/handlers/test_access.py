"""A command without the needed permission is refused with RabbitMQ's 403, without effect."""

import pytest

from streaming.broker import commands
from streaming.broker.events import Kind
from tests.builders import Broker, a_queue
from tests.event_sentences import error_of
from topology.declarations import Binding, Exchange, Policy, Queue
from topology.refusals import Refusal
from topology.values import AmqpValue


def a_broker(*, configure: str = "", write: str = "", read: str = "") -> Broker:
    """A broker with a user `ann`, a queue `q` and an exchange `x`."""
    broker = Broker(enforce_permissions=True, administrators=("root",))
    broker.queue("q")
    broker.exchange("x")
    grant = commands.SetPermissions(user="ann", configure=configure, write=write, read=read)
    broker.do(grant)
    return broker


def forbidden(access: str, what: str) -> Refusal:
    return Refusal(
        403, f"ACCESS_REFUSED - {access} access to {what} in vhost '/' refused for user 'ann'"
    )


@pytest.mark.parametrize(
    ("command", "access", "what"),
    [
        (commands.DeclareQueue(queue=Queue("new")), "configure", "queue 'new'"),
        (commands.DeclareQueue(queue=Queue("q")), "configure", "queue 'q'"),
        (commands.DeclareExchange(exchange=Exchange("new")), "configure", "exchange 'new'"),
        (commands.DeclareExchange(exchange=Exchange("x")), "configure", "exchange 'x'"),
        (commands.DeleteQueue(queue="q"), "configure", "queue 'q'"),
        (commands.DeleteQueue(queue="none"), "configure", "queue 'none'"),
        (commands.DeleteExchange(exchange="x"), "configure", "exchange 'x'"),
        (commands.Bind(binding=Binding("x", "q")), "write", "queue 'q'"),
        (commands.Unbind(binding=Binding("x", "q")), "write", "queue 'q'"),
        (commands.Purge(queue="q"), "read", "queue 'q'"),
        (commands.Get(queue="q"), "read", "queue 'q'"),
        (commands.Consume(queue="q", label="c"), "read", "queue 'q'"),
    ],
)
def test_without_the_permission_a_command_is_refused(command, access, what):
    broker = a_broker()
    before = len(broker.of_kind(Kind.TOPOLOGY))

    assert broker.refusal(command, user="ann") == forbidden(access, what)
    assert len(broker.of_kind(Kind.TOPOLOGY)) == before


def test_publishing_needs_write_on_the_exchange():
    broker = a_broker(write="^x$")

    assert error_of(broker.publish("", "q", "m1", user="ann")) == forbidden(
        "write", "exchange 'amq.default'"
    )
    assert error_of(broker.publish("x", "q", "m2", user="ann")) is None
    assert broker.story() == ["m1 publish_error", "m2 unroutable"]


def test_a_revoked_permission_applies_from_the_next_publish():
    broker = a_broker(write=".*")
    broker.publish("", "q", "m1", user="ann")
    broker.do(commands.ClearPermissions(user="ann"))
    broker.publish("", "q", "m2", user="ann")

    assert broker.story() == ["m1 enqueued in q", "m2 publish_error"]


@pytest.mark.parametrize(
    ("declaration", "refused"),
    [
        (a_queue("q.new", dead_letter_exchange="x"), forbidden("read", "queue 'q.new'")),
        (a_queue("r.new", dead_letter_exchange="x"), forbidden("write", "exchange 'x'")),
        (a_queue("r.new", dead_letter_exchange="w"), None),
    ],
)
def test_a_queue_with_a_dead_letter_exchange_needs_read_on_the_queue_and_write_on_that_exchange(
    declaration, refused
):
    broker = a_broker(configure=".*", write="^w", read="^r")

    assert broker.refusal(commands.DeclareQueue(queue=declaration), user="ann") == refused


@pytest.mark.parametrize(
    ("exchange", "refused"),
    [
        (Exchange("a", arguments={"alternate-exchange": "w"}), forbidden("read", "exchange 'a'")),
        (Exchange("r", arguments={"alternate-exchange": "x"}), forbidden("write", "exchange 'x'")),
        (Exchange("r", arguments={"alternate-exchange": "w"}), None),
    ],
)
def test_an_exchange_with_an_alternate_needs_read_on_the_exchange_and_write_on_the_alternate(
    exchange, refused
):
    broker = a_broker(configure=".*", write="^w", read="^r")

    assert broker.refusal(commands.DeclareExchange(exchange=exchange), user="ann") == refused


@pytest.mark.parametrize(
    "command",
    [
        commands.SetPolicy(policy=Policy("p", "q", {"max-length": 1})),
        commands.SetOperatorPolicy(policy=Policy("p", "q", {"max-length": 1})),
        commands.ClearPolicy(name="p"),
        commands.ClearOperatorPolicy(name="p"),
        commands.SetPermissions(user="ann", configure=".*", write=".*", read=".*"),
        commands.ClearPermissions(user="ann"),
        commands.ImportDefinitions(definitions={}),
    ],
    ids=lambda command: type(command).__name__,
)
def test_only_administrators_change_policies_and_permissions(command):
    broker = a_broker(configure=".*", write=".*", read=".*")

    refused = broker.refusal(command, user="ann")

    assert refused == Refusal(
        403,
        "ACCESS_REFUSED - user 'ann' is not an administrator and may not change policies or"
        " permissions in vhost '/'",
    )
    assert broker.refusal(command, user="root") is None


def test_an_administrator_without_permissions_on_record_may_do_everything():
    broker = a_broker()

    assert broker.refusal(commands.DeleteQueue(queue="q"), user="root") is None


def test_an_administrator_with_permissions_on_record_has_only_these():
    broker = a_broker()
    broker.do(commands.SetPermissions(user="root", configure="", write="", read=""))

    refused = broker.refusal(commands.DeleteQueue(queue="q"), user="root")

    assert refused is not None
    assert refused.code == 403


def test_a_passive_declaration_needs_no_permission():
    broker = a_broker()

    passive = commands.DeclareQueue(queue=Queue("q"), passive=True)
    assert broker.answer(passive, user="ann") == {"queue": "q", "ready": 0, "consumers": 0}


def test_without_enforcement_users_need_no_permissions():
    broker = Broker()
    broker.queue("q")

    assert broker.refusal(commands.DeleteQueue(queue="q"), user="ann") is None


def test_an_invalid_permission_pattern_is_refused_and_changes_nothing():
    broker = a_broker(read="^q$")

    refused = broker.refusal(commands.SetPermissions(user="ann", configure="(", write="", read=""))

    assert refused is not None
    assert refused.code == 406
    assert broker.refusal(commands.Get(queue="q"), user="ann") is None


def test_permissions_are_kept_between_batches():
    broker = a_broker(read="^q$")
    broker.finish()

    assert broker.refusal(commands.Get(queue="q"), user="ann") is None
    assert broker.refusal(commands.Purge(queue="other"), user="ann") == forbidden(
        "read", "queue 'other'"
    )


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (
            commands.DeclareExchange(exchange=Exchange("amq.mine")),
            forbidden("configure", "exchange 'amq.mine'").text,
        ),
        (
            commands.DeclareExchange(exchange=Exchange("new", "x-other")),
            "PRECONDITION_FAILED - unknown exchange type 'x-other'",
        ),
        (
            commands.DeclareExchange(exchange=Exchange("x", "x-other")),
            "PRECONDITION_FAILED - unknown exchange type 'x-other'",
        ),
        (
            commands.DeclareQueue(queue=Queue("amq.mine")),
            "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'",
        ),
        (
            commands.DeclareQueue(queue=Queue("new", arguments={"x-message-ttl": -1})),
            forbidden("configure", "queue 'new'").text,
        ),
    ],
)
def test_what_rabbitmq_looks_at_before_the_permission_is_refused_first(command, refusal):
    found = a_broker().refusal(command, user="ann")

    assert found is not None
    assert found.text == refusal


@pytest.mark.parametrize("command", [commands.Bind, commands.Unbind])
def test_the_default_exchange_is_refused_between_both_ends_of_a_binding(command):
    to_queue = command(binding=Binding("", "q"))

    assert a_broker().refusal(to_queue, user="ann") == forbidden("write", "queue 'q'")
    refusal = a_broker(write=".*").refusal(to_queue, user="ann")
    assert refusal is not None
    assert refusal.text == "ACCESS_REFUSED - operation not permitted on the default exchange"


def test_access_to_the_dead_letter_exchange_is_looked_at_before_other_arguments():
    broker = a_broker(configure=".*", read=".*")
    wrong: dict[str, AmqpValue] = {"x-dead-letter-exchange": "x", "x-message-ttl": -1}

    refusal = broker.refusal(commands.DeclareQueue(queue=Queue("new", arguments=wrong)), user="ann")

    assert refusal == forbidden("write", "exchange 'x'")
