"""The story's text for every kind of event."""

import pytest

from tests.unit.scenario.stories import GET, publish, queue, story


def test_messages_expire_between_the_steps():
    lines = story(
        publish("a"),
        queues=[
            queue(message_ttl=300, dead_letter_exchange="", dead_letter_routing_key="late"),
            queue("late"),
        ],
    )

    assert lines[2:6] == [
        "    300 ms  time passes",
        "            'a' dies in queue 'q': expired, 300 ms after it arrived",
        "                its dead letter goes to the default exchange with key 'late'",
        "            'a' -> queue 'late', as a dead letter, by its name",
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "it is lost: the queue has no dead-letter exchange"),
        (
            {"dead_letter_exchange": "gone"},
            "it is lost: the dead-letter exchange, 'gone', does not exist",
        ),
        (
            {"dead_letter_exchange": "amq.direct"},
            "it is lost: exchange 'amq.direct' has no route for key 'q'",
        ),
    ],
)
def test_a_death_without_a_dead_letter_has_a_reason(arguments, sentence):
    lines = story(publish("a"), GET, {"op": "reject", "refs": ["g/0"]}, queues=[queue(**arguments)])

    assert lines[4:7] == [
        "     20 ms  reject g/0 without requeue",
        "            'a' dies in queue 'q': rejected without requeue",
        f"                {sentence}",
    ]
    assert lines[-1] == "    'a': 'q' (rejected, lost)"


def test_a_cycle_is_explained():
    lines = story(publish("a"), queues=[queue(message_ttl=100, dead_letter_exchange="")])

    assert lines[2:6] == [
        "    100 ms  time passes",
        "            'a' dies in queue 'q': expired, 100 ms after it arrived",
        "                not back into 'q': it died there before and was not rejected since "
        "(a cycle)",
        "                it is lost: no other queue is reached",
    ]


def test_full_queues_drop_refuse_or_dead_letter():
    arguments = {"max_length": 1, "dead_letter_exchange": "", "dead_letter_routing_key": "full"}
    lines = story(
        publish("a", "drop"),
        publish("b", "drop"),
        publish("c", "refuse"),
        publish("d", "refuse"),
        publish("e", "turn"),
        publish("f", "turn"),
        queues=[
            queue("drop", **arguments),
            queue("refuse", overflow="reject-publish", **arguments),
            queue("turn", overflow="reject-publish-dlx", **arguments),
            queue("full", max_length=0, overflow="reject-publish"),
        ],
    )

    shown = [line.strip() for line in lines if line.startswith(" " * 12)]
    goes = "its dead letter goes to the default exchange with key 'full'"
    assert shown == [
        "'a' -> queue 'drop', by its name",
        "'b' -> queue 'drop', by its name",
        "'a' dies in queue 'drop': maxlen, the queue is too full and drops its head",
        goes,
        "'a', as a dead letter, is refused by queue 'full', which is full",
        "'c' -> queue 'refuse', by its name",
        "'d' is refused by queue 'refuse', which is full",
        "the publisher gets a nack",
        "'e' -> queue 'turn', by its name",
        "'f' dies in queue 'turn': maxlen, the queue is full and turns it away",
        goes,
        "'f', as a dead letter, is refused by queue 'full', which is full",
        "the publisher gets a nack",
    ]
    assert lines[lines.index("the path of each message") + 1 :] == [
        "    'a': 'drop' (maxlen) -> 'full' (refused)",
        "    'b': 'drop' (still ready)",
        "    'c': 'refuse' (still ready)",
        "    'd': 'refuse' (refused)",
        "    'e': 'turn' (still ready)",
        "    'f': 'turn' (maxlen) -> 'full' (refused)",
    ]


def test_the_delivery_limit_is_named():
    again = [GET, {"op": "reject", "refs": ["g/0"], "requeue": True}]
    lines = story(
        publish("a"), *again, *again, queues=[queue(queue_type="quorum", delivery_limit=1)]
    )

    assert "            'a' is requeued in queue 'q'" in lines
    assert (
        "            'a' is delivered from queue 'q' as g/0, redelivered, and is unacked" in lines
    )
    assert (
        "            'a' dies in queue 'q': delivery_limit, it was requeued more than 1 times"
        in lines
    )


def test_at_least_once_keeps_a_dead_message_until_its_dead_letter_is_accepted():
    lines = story(
        publish("a"),
        GET,
        {"op": "nack", "refs": ["g/0"]},
        queues=[
            queue(
                queue_type="quorum",
                dead_letter_strategy="at-least-once",
                overflow="reject-publish",
                dead_letter_exchange="",
                dead_letter_routing_key="later",
            )
        ],
    )

    assert lines[4:7] == [
        "     20 ms  nack g/0 without requeue",
        "            'a' dies in queue 'q': rejected without requeue",
        "                kept there until its dead letter is accepted (at least once)",
    ]
    assert lines[-1] == "    'a': 'q' (dead and held)"


def test_a_queues_own_alternate_exchange_takes_what_is_rejected():
    lines = story(
        publish("a"),
        GET,
        {"op": "reject", "refs": ["g/0"]},
        queues=[queue(alternate_exchange="amq.fanout"), queue("other")],
        bindings=[{"source": "amq.fanout", "destination": "other"}],
    )

    assert lines[5:8] == [
        "            'a' leaves queue 'q', rejected, for that queue's alternate exchange",
        "                it goes to exchange 'amq.fanout' with key 'q'",
        "            'a' -> queue 'other', rerouted, by fanout binding",
    ]


def test_routes_through_exchanges_and_alternates_are_described():
    lines = story(
        publish("a", "k", exchange="start"),
        publish("b", "order.eu", exchange="start"),
        publish("c", "none", exchange="start", properties={"headers": {"n": 1}}),
        publish("d", "none", exchange="start", mandatory=True),
        exchanges=[
            {"name": "start", "type": "topic", "arguments": {"alternate-exchange": "or else"}},
            {"name": "or else", "type": "headers", "arguments": {"alternate-exchange": "gone"}},
            {"name": "next", "type": "direct"},
        ],
        queues=[queue()],
        bindings=[
            {
                "source": "start",
                "destination": "next",
                "destination_type": "exchange",
                "routing_key": "k",
            },
            {"source": "next", "destination": "q", "routing_key": "k"},
            {"source": "start", "destination": "q", "routing_key": "order.#"},
            {"source": "or else", "destination": "q", "arguments": {"n": 1}},
        ],
    )

    assert lines[:10] == [
        "      0 ms  publish 'a' to exchange 'start' with key 'k'",
        "            'a' -> queue 'q', by topic binding 'k' to exchange 'next', direct binding 'k'",
        "     10 ms  publish 'b' to exchange 'start' with key 'order.eu'",
        "            'b' -> queue 'q', by topic binding 'order.#'",
        "     20 ms  publish 'c' to exchange 'start' with key 'none', headers {\"n\":1}",
        "            'c' -> queue 'q', by alternate exchange 'or else', headers binding {\"n\":1}",
        "     30 ms  publish 'd' to exchange 'start' with key 'none', mandatory",
        "            warning: the alternate exchange of exchange 'or else' does not exist: 'gone'",
        "            'd' reaches no queue, and is returned to its publisher",
        "",
    ]
    assert lines[-1] == "    'd': returned: no queue"


def test_unroutable_messages_are_dropped_and_errors_close_the_channel():
    lines = story(
        publish("a", "nosuch", properties={"expiration": "5", "priority": 3}),
        publish("b", exchange="nosuch"),
        {"op": "get", "queue": "nosuch"},
        {"op": "ack", "refs": ["g/0"]},
    )

    assert lines[:8] == [
        "      0 ms  publish 'a' to the default exchange with key 'nosuch', expiring after 5 ms, "
        "priority 3",
        "            'a' reaches no queue, and is dropped: the default exchange has no route for "
        "key 'nosuch'",
        "     10 ms  publish 'b' to exchange 'nosuch' with key 'q'",
        "            refused, and the channel closed: 404 NOT_FOUND - "
        "no exchange 'nosuch' in vhost '<vhost>'",
        "     20 ms  get a message from queue 'nosuch'",
        "            refused, and the channel closed: 404 NOT_FOUND - no queue 'nosuch' in vhost "
        "'<vhost>'",
        "     30 ms  ack g/0",
        "            g/0 is not unacked: nothing happens to it",
    ]
    assert lines[-2:] == ["    'a': dropped: no queue", "    'b': refused: 404"]


def test_gets_consumers_acks_purges_and_deletions_are_described():
    lines = story(
        {"op": "consume", "queue": "c", "as": "w", "prefetch": 1, "auto_ack": True},
        publish("a", "c"),
        publish("b"),
        {"op": "get", "queue": "q", "count": 2, "auto_ack": True},
        publish("c"),
        GET,
        {"op": "ack", "refs": ["g/0"], "multiple": True},
        GET,
        publish("d"),
        {"op": "depth", "queue": "q"},
        {"op": "purge", "queue": "q"},
        publish("e"),
        {"op": "delete_queue", "queue": "q"},
        {"op": "cancel", "as": "w"},
        {"op": "sleep"},
        queues=[queue(), queue("c")],
    )

    assert [line for line in lines[: lines.index("")] if " publish " not in line] == [
        "      0 ms  consumer 'w' subscribes to queue 'c', prefetch 1, acknowledging automatically",
        "            consumer started: 'w' of queue 'c'",
        "            'a' -> queue 'c', by its name",
        "            'a' is delivered from queue 'c' as w/0, and gone from it",
        "            'b' -> queue 'q', by its name",
        "     30 ms  get up to 2 messages from queue 'q', acknowledging automatically",
        "            'b' is delivered from queue 'q' as g/0, and gone from it",
        "            'c' -> queue 'q', by its name",
        "     50 ms  get a message from queue 'q'",
        "            'c' is delivered from queue 'q' as g/0, and is unacked",
        "     60 ms  ack g/0 and every earlier delivery on its channel",
        "            'c' is acked, and gone from queue 'q'",
        "     70 ms  get a message from queue 'q'",
        "            there is none",
        "            'd' -> queue 'q', by its name",
        "     90 ms  how many messages are ready in queue 'q'?",
        "            1",
        "    100 ms  purge queue 'q'",
        "            'd' is purged from queue 'q': no dead letter",
        "            'e' -> queue 'q', by its name",
        "    120 ms  delete queue 'q'",
        "            'e' is lost with queue 'q': no dead letter",
        "            queue 'q' is deleted: by command",
        "    130 ms  cancel consumer 'w'",
        "            consumer cancelled: 'w' of queue 'c'",
        "    140 ms  nothing",
    ]
    assert "    queue 'q' no longer exists" in lines


@pytest.mark.parametrize("deleted", [True, False])
def test_a_missing_alternate_exchange_of_a_queue_is_named(deleted):
    ending = {"op": "delete_queue", "queue": "q"} if deleted else {"op": "reject", "refs": ["g/0"]}
    lines = story(publish("a"), GET, ending, queues=[queue(alternate_exchange="gone")])

    assert (
        "                it is lost: the queue's alternate exchange, 'gone', does not exist"
        in lines
    )
    assert not any("dead-letter exchange" in line for line in lines)
    assert (
        "            warning: the alternate exchange of queue 'q' does not exist: 'gone'" in lines
    )


def test_a_message_that_was_rerouted_before_is_lost_for_that_reason():
    lines = story(
        publish("a"),
        GET,
        {"op": "reject", "refs": ["g/0"]},
        {"op": "get", "queue": "other", "as": "h"},
        {"op": "reject", "refs": ["h/0"]},
        queues=[
            queue(alternate_exchange="amq.fanout"),
            queue("other", alternate_exchange="amq.fanout"),
        ],
        bindings=[{"source": "amq.fanout", "destination": "other"}],
    )

    (lost,) = (line for line in lines if "it is lost" in line)
    assert "rerouted before" in lost


def test_an_immediate_message_that_no_consumer_can_take_is_returned_for_that_reason():
    lines = story(publish("a", immediate=True), queues=[queue()])

    assert "'a' finds no consumer that can take it at once" in lines[1]
    assert lines[-1] == "    'a': returned: no consumer"


def test_an_immediate_delivery_names_its_alternate_exchange():
    lines = story(
        {"op": "consume", "queue": "free", "as": "w"},
        publish("a", "k", exchange="start", immediate=True),
        exchanges=[
            {"name": "start", "type": "direct", "arguments": {"alternate-exchange": "next"}},
            {"name": "next", "type": "direct", "arguments": {"alternate-exchange": "last"}},
            {"name": "last", "type": "fanout"},
        ],
        queues=[queue("busy"), queue("idle"), queue("free")],
        bindings=[
            {"source": "start", "destination": "busy", "routing_key": "k"},
            {"source": "next", "destination": "idle", "routing_key": "k"},
            {"source": "last", "destination": "free"},
        ],
    )

    assert (
        "            'a' -> queue 'free', by alternate exchange 'next', alternate exchange 'last', "
        "fanout binding"
    ) in lines


def test_an_immediate_delivery_may_come_by_the_alternate_of_an_inner_exchange():
    lines = story(
        {"op": "consume", "queue": "free", "as": "w"},
        publish("a", "k", exchange="start", immediate=True),
        exchanges=[
            {"name": "start", "type": "fanout"},
            {"name": "inner", "type": "direct", "arguments": {"alternate-exchange": "last"}},
            {"name": "last", "type": "fanout"},
        ],
        queues=[queue("busy"), queue("free")],
        bindings=[
            {"source": "start", "destination": "inner", "destination_type": "exchange"},
            {"source": "inner", "destination": "busy", "routing_key": "k"},
            {"source": "last", "destination": "free"},
        ],
    )

    assert (
        "            'a' -> queue 'free', by fanout binding to exchange 'inner', alternate "
        "exchange 'last', fanout binding"
    ) in lines
