"""Does a vhost on a log apply what Kafka has, all of it, in order, and nothing else?"""

import pytest

from streaming.amqp.entries import Ask, Publish, Settle, Then
from streaming.amqp.outgoing import Confirms
from streaming.amqp.stored import Stored
from streaming.broker import commands
from streaming.broker.commands import SettleOutcome
from streaming.broker.events import Actor
from streaming.broker.message import CONFIRM, Publication
from streaming.broker.outbound import AnswerOut
from streaming.broker.sequence.digest import SEGMENT
from streaming.protocol.copied_records import Source
from streaming.protocol.log_records import Epoch, LogKind, read_header, read_settlements
from streaming.sequencer.log_vhost import Role
from streaming.sequencer.records import MAX_SETTLEMENTS, RecordWriter, epoch_record
from tests.log_port import TERMS, LogPort
from topology.declarations import Queue
from topology.values import Table

CHANNEL = Actor("guest", "c1")
TO_Q = Publication("", "q")


class Ear:
    """Hears what a channel is told."""

    def __init__(self):
        self.confirms = Confirms()
        self.heard = []

    def delivered(self, out, stored):
        self.heard.append(("delivery", stored.body, out.tag, out.delivery_count > 0))

    def confirmed(self, out):
        self.heard.append(("confirm", out.message.offset, out.ack))

    def hear(self, out, _stored):
        if isinstance(out, AnswerOut):
            self.heard.append((out.op, None if out.refusal is None else out.refusal.code))


def a_channel(vhost, port):
    """Open a channel with a queue q; everything is acknowledged."""
    ear = Ear()
    vhost.listen("c1", ear)
    vhost.submit(Ask(CHANNEL, commands.OpenChannel(channel="c1", connection="n1")))
    vhost.submit(Ask(CHANNEL, commands.DeclareQueue(queue=Queue("q"), channel="c1")))
    port.acknowledge(vhost)
    ear.heard.clear()
    return ear


def publish(vhost, ear, body, number=1):
    vhost.submit(Publish(CHANNEL, TO_Q, Stored(b"\0\0", body), CONFIRM, number, ear.confirms))


def a_leader(port):
    vhost = port.open()
    vhost.acknowledged(port.write())
    assert vhost.role is Role.LEADING
    return vhost


def kinds(port):
    return [kind_of(raw) for raw in port.records]


def kind_of(raw):
    return LogKind(read_header(raw.header).kind).name


def test_nothing_is_told_before_kafka_has_it():
    port = LogPort()
    vhost = a_leader(port)
    ear = a_channel(vhost, port)

    publish(vhost, ear, b"one")
    port.run()

    assert ear.heard == []
    assert len(port.sent) == 1
    vhost.acknowledged(port.write())
    assert ear.heard == [("confirm", 3, True)]


def test_time_goes_on_in_the_log_although_the_wall_clock_was_set_back():
    port = LogPort()
    vhost = a_leader(port)
    ear = a_channel(vhost, port)
    arguments: Table = {"x-message-ttl": 1_000}
    queue = Queue("brief", arguments=arguments)
    vhost.submit(Ask(CHANNEL, commands.DeclareQueue(queue=queue, channel="c1")))
    port.now_ms += 3_600_000
    vhost.submit(Ask(CHANNEL, commands.Depth(queue="brief", channel="c1")))
    port.acknowledge(vhost)
    port.now_ms -= 3_600_000
    publication = Publication("", "brief")
    vhost.submit(Publish(CHANNEL, publication, Stored(b"\0\0", b"x"), 0, 0, ear.confirms))
    port.acknowledge(vhost)

    due_ms = vhost.next_deadline_ms()
    assert due_ms is not None
    assert 900 <= due_ms - port.now_ms <= 1_100, "by the wall clock, which sets the timer"
    port.elapsed_s += 0.9
    vhost.advance()
    port.acknowledge(vhost)
    assert vhost.ready_in("brief") == 1
    port.elapsed_s += 0.2
    vhost.advance()
    port.acknowledge(vhost)

    assert vhost.ready_in("brief") == 0
    stamps = [raw.at_ms for raw in port.records]
    assert stamps == sorted(stamps)


def test_a_leader_whose_wall_clock_is_behind_goes_on_from_the_time_of_the_log():
    port = LogPort()
    first = a_leader(port)
    a_channel(first, port)
    first_ms = port.records[-1].at_ms
    port.now_ms -= 3_600_000

    heir = a_leader(port)
    port.elapsed_s += 5
    heir.submit(Ask(CHANNEL, commands.OpenChannel(channel="c2", connection="n2")))
    port.acknowledge(heir)

    assert port.records[-1].at_ms == first_ms + 5_000


def test_the_age_of_what_waits_is_no_matter_of_the_wall_clock():
    port = LogPort()
    vhost = a_leader(port)
    ear = a_channel(vhost, port)
    assert vhost.oldest_s == 0

    publish(vhost, ear, b"one")
    port.run()
    port.now_ms += 3_600_000
    port.elapsed_s += 0.5
    assert vhost.oldest_s == 0.5
    port.acknowledge(vhost)

    assert vhost.oldest_s == 0


def test_settlements_in_a_row_are_one_record():
    port = LogPort()
    vhost = a_leader(port)
    ear = a_channel(vhost, port)
    for number in (1, 2, 3):
        publish(vhost, ear, b"m%d" % number, number)
    vhost.submit(Ask(CHANNEL, commands.Consume(queue="q", label="tag", channel="c1")))
    port.acknowledge(vhost)
    refused = []

    outcomes: tuple[tuple[int, SettleOutcome], ...] = (
        *((1, "ack"), (2, "reject"), (3, "requeue"), (9, "ack")),
    )
    for tag, outcome in outcomes:
        entry = Settle(CHANNEL, tag, 0, False, outcome, (60, 80), lambda *why: refused.append(why))
        vhost.submit(entry)
    port.acknowledge(vhost)

    assert kinds(port)[-1] == "SETTLE"
    assert ear.heard[-1] == ("delivery", b"m3", 4, True)
    assert [(refusal.code, method) for refusal, method in refused] == [(406, (60, 80))]


def test_the_queues_of_a_publish_in_a_transaction_are_in_its_record():
    port = LogPort()
    vhost = a_leader(port)
    ear = a_channel(vhost, port)
    routed = vhost.route(CHANNEL, TO_Q, None)
    for publication in (Publication("gone", "k", routed=routed), TO_Q):
        vhost.submit(Publish(CHANNEL, publication, Stored(b"\0\0", b"m"), CONFIRM, 0, ear.confirms))
    port.acknowledge(vhost)

    headers = [read_header(raw.header) for raw in port.records[-2:]]
    follower = port.open(leads=False)

    assert [(each.version, each.routed) for each in headers] == [
        (2, (("q", vhost.shard.vhost.queue_numbers["q"]),)),
        (1, None),
    ]
    assert follower.ready_in("q") == vhost.ready_in("q") == 2
    assert follower.fold.in_short() == vhost.fold.in_short()
    assert (vhost.published, vhost.confirmed) == (2, 1)


def test_many_settlements_are_several_records():
    port = LogPort()
    vhost = a_leader(port)
    ear = a_channel(vhost, port)
    for number in range(1, MAX_SETTLEMENTS + 3):
        publish(vhost, ear, b"m", number)
    vhost.submit(Ask(CHANNEL, commands.Consume(queue="q", label="tag", channel="c1")))
    port.acknowledge(vhost)

    for tag in range(1, MAX_SETTLEMENTS + 3):
        vhost.submit(Settle(CHANNEL, tag, 0, False, "ack", (60, 80), ear.heard.append))
    port.acknowledge(vhost)

    settled = [
        read_settlements(raw.value or b"") for raw in port.records if kind_of(raw) == "SETTLE"
    ]
    assert [len(each) for each in settled] == [MAX_SETTLEMENTS, 2]
    assert [each.tag for record in settled for each in record] == list(
        range(1, MAX_SETTLEMENTS + 3)
    )
    assert vhost.resident_bytes == 0


def test_a_record_that_is_applied_in_part_ends_the_front():
    port = LogPort()
    vhost = a_leader(port)
    ear = a_channel(vhost, port)
    ear.confirmed = raising
    publish(vhost, ear, b"one", 1)
    port.run()

    with pytest.raises(ZeroDivisionError):
        vhost.acknowledged(port.write())

    assert port.reasons == ["an error in this front: a record was applied in part"]
    assert not vhost.leads
    assert vhost.snapshot() is None


def raising(_out):
    raise ZeroDivisionError


def test_what_needs_no_record_waits_for_what_was_before_it():
    port = LogPort()
    vhost = a_leader(port)
    ear = a_channel(vhost, port)
    publish(vhost, ear, b"one")

    vhost.submit(Then(lambda: ear.heard.append("then")))
    port.run()
    assert ear.heard == []
    port.acknowledge(vhost)
    vhost.submit(Then(lambda: ear.heard.append("at once")))

    assert ear.heard == [("confirm", 3, True), "then", "at once"]


def test_records_that_the_producer_does_not_take_follow_later_in_order():
    port = LogPort()
    vhost = a_leader(port)
    ear = a_channel(vhost, port)
    publish(vhost, ear, b"one", 1)
    port.run()
    port.is_full = True
    publish(vhost, ear, b"two", 2)
    port.run()
    assert len(port.sent) == 1

    port.is_full = False
    vhost.acknowledged(port.write())
    port.acknowledge(vhost)

    assert [raw.value for raw in port.records[-2:]] == [b"one", b"two"]
    assert ear.heard == [("confirm", 3, True), ("confirm", 4, True)]


def test_what_comes_while_a_burst_is_on_its_way_to_kafka_is_the_next_one():
    port = LogPort()
    vhost = a_leader(port)
    ear = a_channel(vhost, port)
    for number in range(1, 6):
        publish(vhost, ear, b"%d" % number, number)
        port.run()
    assert (len(port.sent), vhost.unsent) == (1, 4)

    vhost.acknowledged(port.write())

    assert (len(port.sent), vhost.unsent) == (4, 0)
    vhost.acknowledged(port.write())
    assert ear.heard == [("confirm", offset, True) for offset in range(3, 8)]
    assert [raw.value for raw in port.records[3:]] == [b"%d" % each for each in range(1, 6)]


def test_a_burst_of_which_the_producer_took_a_part_holds_nothing_back():
    port = LogPort()
    vhost = a_leader(port)
    ear = a_channel(vhost, port)
    port.most = 16
    for number in range(1, 19):
        publish(vhost, ear, b"m", number)
    port.run()
    port.take()

    vhost.send_rest()

    assert len(port.sent) == 2
    port.acknowledge(vhost)
    assert len(ear.heard) == 18


def test_a_turn_of_which_the_producer_took_a_part_goes_on_although_nothing_is_told_of_that_part():
    port = LogPort()
    vhost = a_leader(port)
    ear = a_channel(vhost, port)
    port.most = 2
    for number in (1, 2, 3):
        publish(vhost, ear, b"m%d" % number, number)
    port.run()
    assert not port.is_reported
    port.take()

    vhost.send_rest()
    port.acknowledge(vhost)

    assert ear.heard == [("confirm", offset, True) for offset in (3, 4, 5)]


@pytest.mark.parametrize("bound", ["MAX_WAITING", "MAX_WAITING_BYTES"])
def test_while_kafka_does_not_answer_a_bounded_part_of_what_clients_do_is_taken(monkeypatch, bound):
    monkeypatch.setattr(f"streaming.sequencer.log_vhost.{bound}", 20)
    port = LogPort()
    vhost = a_leader(port)
    ear = a_channel(vhost, port)
    assert not vhost.is_full
    for number in range(1, 22):
        publish(vhost, ear, b"m", number)
    port.run()
    assert vhost.is_full

    port.acknowledge(vhost)

    assert not vhost.is_full
    assert len(ear.heard) == 21


def test_a_front_that_another_one_was_faster_than_can_take_over_later(monkeypatch):
    port = LogPort()
    vhost = port.open()
    monkeypatch.setattr(port, "taken", lambda *_: None)  # it does not lead: the other one does
    vhost.acknowledged(port.write())

    vhost.role = Role.FOLLOWING
    vhost.take_over("again")

    assert len(port.sent) == 1


def test_an_epoch_record_that_the_producer_did_not_take_is_sent_later():
    port = LogPort()
    port.is_full = True
    vhost = port.open()
    port.is_full = False

    vhost.send_rest()
    vhost.acknowledged(port.write())

    assert vhost.role is Role.LEADING


def test_a_record_of_an_earlier_epoch_between_our_own_is_void():
    port = LogPort()
    vhost = a_leader(port)
    ear = a_channel(vhost, port)
    publish(vhost, ear, b"one", 1)
    port.run()
    stale = Publish(CHANNEL, TO_Q, Stored(b"\0\0", b"stale"), 0, 0, ear.confirms)
    port.add(RecordWriter(-5).publish(port.now_ms, 1, stale))

    vhost.acknowledged(port.write())
    publish(vhost, ear, b"two", 2)
    port.acknowledge(vhost)

    assert ear.heard == [("confirm", 4, True), ("confirm", 5, True)]
    assert vhost.ready_in("q") == 2
    assert port.reasons == []


def test_a_leader_that_was_replaced_confirms_nothing_behind_the_other_epoch():
    port = LogPort()
    vhost = a_leader(port)
    ear = a_channel(vhost, port)
    publish(vhost, ear, b"before", 1)
    port.acknowledge(vhost)
    port.add(epoch_record(port.now_ms, Epoch("other", TERMS.core_version, TERMS.rules)))
    publish(vhost, ear, b"behind", 2)
    port.run()

    vhost.acknowledged(port.write())
    publish(vhost, ear, b"later", 3)
    port.run()

    assert ear.heard == [("confirm", 3, True)]
    assert port.reasons == ["another front leads it since offset 4 of its log"]
    assert vhost.role is Role.OVER
    assert not port.sent


def test_both_folds_of_such_a_log_are_equal():
    port = LogPort()
    first = a_leader(port)
    ear = a_channel(first, port)
    publish(first, ear, b"before", 1)
    port.acknowledge(first)
    second = port.open()
    second.acknowledged(port.write())
    publish(first, ear, b"void", 2)
    port.run()
    port.write()
    other = a_channel(second, port)
    publish(second, other, b"counts", 1)
    port.acknowledge(second)

    follower = port.open(leads=False)

    assert follower.ready_in("q") == second.ready_in("q") == 2
    assert follower.fold.shard.events.next_seq == second.fold.shard.events.next_seq
    assert other.heard[-1] == ("confirm", len(port.records) - 1, True)


def test_a_leader_that_was_replaced_writes_nothing_more_of_what_it_copies():
    port = LogPort()
    vhost = a_leader(port)
    vhost.fail("it was replaced")

    vhost.mark(Source("in", 0, 7))

    assert not port.sent


def test_an_own_record_that_the_log_lacks_ends_the_front():
    port = LogPort()
    vhost = a_leader(port)
    ear = a_channel(vhost, port)
    publish(vhost, ear, b"lost", 1)
    publish(vhost, ear, b"kept", 2)
    port.run()
    port.sent.popleft()
    port.numbers[vhost] += 1
    for _ in range(2):
        port.add(RecordWriter(99).tick(port.now_ms))

    vhost.acknowledged(port.write())

    assert ear.heard == []
    assert port.reasons == ["the log has an unknown record of this front at offset 5"]


def test_a_restart_from_a_snapshot_and_one_from_the_log_are_equal():
    port = LogPort()
    vhost = a_leader(port)
    ear = a_channel(vhost, port)
    publish(vhost, ear, b"one", 1)
    vhost.submit(Ask(CHANNEL, commands.Consume(queue="q", label="tag", channel="c1")))
    port.acknowledge(vhost)

    taken = vhost.snapshot()
    next_offset, entries = taken.next_offset, taken.entries
    publish(vhost, ear, b"two", 2)
    port.acknowledge(vhost)
    whole, rest = port.open(leads=False), port.open(entries, leads=False)

    assert next_offset == 5
    assert rest.fold.next_offset == whole.fold.next_offset == 6
    again = a_leader_of(port, rest)
    assert again.ready_in("q") == 2  # unacked messages return with the epoch
    assert ear.heard[-2:] == [("delivery", b"two", 2, False), ("confirm", 5, True)]


def a_leader_of(port, vhost):
    vhost.take_over("again")
    vhost.acknowledged(port.write())
    return vhost


def test_a_log_that_is_shorter_than_it_was_is_not_written_on():
    port = LogPort()
    vhost = a_leader(port)
    ear = a_channel(vhost, port)
    publish(vhost, ear, b"one")
    port.run()
    del port.records[1:]

    vhost.acknowledged(port.write())

    assert ear.heard == []
    assert vhost.role is Role.OVER
    assert "was made again" in port.reasons[0]


def test_a_message_that_is_not_in_memory_is_fetched_and_what_follows_waits():
    port = LogPort(body_bytes=40)
    vhost = a_leader(port)
    ear = a_channel(vhost, port)
    for number in range(1, 9):
        publish(vhost, ear, b"message %d" % number, number)
    port.acknowledge(vhost)
    ear.heard.clear()

    vhost.submit(Ask(CHANNEL, commands.Consume(queue="q", label="tag", channel="c1")))
    publish(vhost, ear, b"message 9", 9)
    port.acknowledge(vhost)
    assert ear.heard == []
    assert not vhost.is_idle
    while port.fetches:
        port.answer_fetch()
        port.run()

    deliveries = [("delivery", b"message %d" % number, number, False) for number in range(1, 10)]
    assert [one for one in ear.heard if one[0] == "delivery"] == deliveries
    assert ("consume", None) in ear.heard
    assert ear.heard.index(("confirm", 12, True)) > ear.heard.index(deliveries[7])
    assert vhost.is_idle


def test_a_consumer_timeout_of_a_channel_before_is_told_nobody():
    port = LogPort()
    vhost = a_leader(port)
    ear = a_channel(vhost, port)
    vhost.submit(Ask(CHANNEL, commands.Consume(queue="q", label="tag", channel="c1")))
    publish(vhost, ear, b"message")
    port.acknowledge(vhost)
    port.now_ms += 1_800_001
    vhost.advance()
    port.acknowledge(vhost)

    again = a_leader(port)
    told: list[int] = []
    again.listen("c1", Ear(), told.append)
    again.submit(Ask(CHANNEL, commands.OpenChannel(channel="c1", connection="n1")))
    port.acknowledge(again)

    assert told == []


def test_time_passes_by_a_record_and_once():
    port = LogPort()
    vhost = a_leader(port)
    ear = a_channel(vhost, port)
    arguments: Table = {"x-message-ttl": 1000}
    declare = commands.DeclareQueue(queue=Queue("ttl", arguments=arguments), channel="c1")
    vhost.submit(Ask(CHANNEL, declare))
    to_ttl = Publication("", "ttl")
    vhost.submit(Publish(CHANNEL, to_ttl, Stored(b"\0\0", b"m"), 0, 0, ear.confirms))
    port.acknowledge(vhost)
    vhost.advance()
    assert not port.sent
    port.now_ms += 1000

    assert vhost.next_deadline_ms() == port.now_ms
    vhost.advance()
    vhost.advance()
    assert vhost.next_deadline_ms() is None
    assert vhost.ready_in("ttl") == 1
    port.acknowledge(vhost)

    assert kinds(port)[-1] == "TICK"
    assert kinds(port).count("TICK") == 1
    assert vhost.ready_in("ttl") == 0


def test_digests_are_written_and_compared():
    port = LogPort()
    vhost = a_leader(port)
    ear = a_channel(vhost, port)
    for number in range(1, SEGMENT + 2):
        publish(vhost, ear, b"m", number)
    port.acknowledge(vhost)

    follower = port.open(leads=False)

    assert kinds(port).count("DIGEST") == 1
    assert follower.fold.last_digest == vhost.fold.last_digest


def test_what_waits_to_be_applied_is_counted_by_step():
    port = LogPort()
    vhost = a_leader(port)
    ear = a_channel(vhost, port)
    assert vhost.backlog == (0, 0, 0)

    publish(vhost, ear, b"one")
    publish(vhost, ear, b"two")
    port.run()
    assert vhost.backlog == (0, 2, 0)

    port.is_full = True
    publish(vhost, ear, b"three")
    port.run()
    assert vhost.backlog == (1, 2, 0)

    port.is_full = False
    port.acknowledge(vhost)
    assert vhost.backlog == (0, 0, 0)


def test_digests_that_are_written_and_those_that_are_compared_are_counted():
    port = LogPort()
    vhost = a_leader(port)
    ear = a_channel(vhost, port)
    for number in range(SEGMENT + 10):
        publish(vhost, ear, b"%d" % number, number + 1)
    port.acknowledge(vhost)

    follower = port.open(leads=False)

    assert vhost.digests_written == 1
    assert vhost.digests_compared == 0
    assert follower.digests_compared == 1
    assert follower.digests_written == 0
