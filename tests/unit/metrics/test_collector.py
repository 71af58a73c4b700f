"""What a response of the metrics server shows of a job's batches."""

import time
from collections import Counter

import msgspec
import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from streaming.exposition.collector import RESERVED, Collected, UnknownFamilyError
from streaming.metrics.collector import JOB
from streaming.metrics.figures import SECONDS, Lag, Unhandled
from streaming.pipeline.traffic import SIZE_BOUNDS, BatchTraffic, QueueDeaths, TrafficTotals
from streaming.queries.job_totals import LedgerTotals
from tests.unit.metrics.job import CLOSED, Batches, clients, deaths, queue, report


@pytest.fixture
def batches():
    return Batches()


def test_depths_are_added_up_over_queues_and_lanes(batches):
    batches.run(
        report(BatchTraffic(queues=[queue("work", ready=3, ready_bytes=30, unacked=1)])),
        report(BatchTraffic(queues=[queue("work", ready=4)]), lane=1),
        report(BatchTraffic(queues=[queue("work", ready=5, consumers=2)]), vhost="other"),
    )

    values = batches.values()
    each = batches.values("per-object")

    assert values["rabbitmq_queue_messages_ready",] == 12
    assert values["rabbitmq_queue_messages",] == 13
    assert values["rabbitmq_queue_consumers",] == 2
    assert each["rabbitmq_queue_messages_ready", "work", "/"] == 7
    assert each["rabbitmq_queue_messages_ready", "work", "other"] == 5
    assert each["rabbitmq_queue_messages_ready_bytes", "work", "/"] == 30


def test_a_later_batch_replaces_depths_and_adds_to_counters(batches):
    for ready in (3, 2):
        batches.run(
            report(BatchTraffic(queues=[queue("work", ready=ready)], kinds={"work": {"acked": 2}}))
        )

    each = batches.values("per-object")

    assert each["rabbitmq_queue_messages_ready", "work", "/"] == 2
    assert each["rabbitmq_queue_messages_acked_total", "work", "/"] == 4


def test_a_deleted_queue_has_no_series_but_its_events_still_count(batches):
    batches.run(
        report(BatchTraffic(queues=[queue("work", ready=3)], kinds={"work": {"enqueued": 3}}))
    )
    batches.run(report(BatchTraffic(deleted=["work"], kinds={"work": {"deleted": 3, "acked": 0}})))

    assert batches.values()["rabbitmq_queues",] == 0
    assert not [key for key in batches.values("per-object") if "work" in key]


def test_deaths_are_told_by_queue_reason_and_outcome(batches):
    batches.run(report(deaths(2)), report(deaths(1, "expired", "no_route")))

    values = batches.values()

    assert values["dlx_dead_letters_total", "dead_lettered", "work", "rejected", "/"] == 2
    assert values["dlx_dead_letters_total", "no_route", "work", "expired", "/"] == 1
    assert values["rabbitmq_global_messages_dead_lettered_rejected_total", "kafka"] == 2


def test_connections_are_counted_as_users_come_and_go(batches):
    batches.run(report(clients("guest", "shop")))
    batches.run(report(clients("shop"), lane=1))
    batches.run(report(clients()))

    values = batches.values()

    assert values["rabbitmq_connections",] == 1  # shop, on lane 1
    assert values["rabbitmq_channels",] == 1
    assert values["rabbitmq_connections_opened_total",] == 2
    assert values["rabbitmq_connections_closed_total",] == 1


def test_changes_of_the_gate_are_counted(batches):
    batches.run()
    for gate in (CLOSED, CLOSED):
        batches.run(gate=gate)

    values = batches.values()

    assert values["dlx_gate_open",] == 0
    assert values["dlx_gate_transitions_total", "closed"] == 1
    assert values["dlx_gate_transitions_total", "open"] == 0
    assert values["dlx_gate_cause", "above"] == 1


def test_how_far_the_digests_of_job_and_front_are_equal_is_told_by_vhost(batches):
    shop = msgspec.structs.replace(report(BatchTraffic()), vhost="shop", compared=(4_096, 8_192))
    batches.run(shop)
    batches.run(report(BatchTraffic()))

    values = batches.values()

    assert values["dlx_log_equal_offset", "shop"] == 8_192
    assert ("dlx_log_equal_offset", "/") not in values


def test_quarantined_records_have_their_topic_and_cause(batches):
    batches.run(quarantined=3)

    assert batches.values()["dlx_quarantined_total", "null_body", "orders"] == 3


def test_totals_continue_after_the_last_batch_row():
    before = Batches()
    before.run(report(deaths(2)), report(clients("guest")))
    after = Batches(TrafficTotals(before.totals.sums(), 0))

    after.run(report(deaths(5)))  # the restart repeats batch 0
    after.run(report(deaths(1)))

    values = after.values()
    assert values["rabbitmq_global_messages_dead_lettered_rejected_total", "kafka"] == 3
    assert values["rabbitmq_connections",] == 1
    assert values["dlx_batches_total",] == 2


def test_counters_of_queues_wait_for_the_totals_of_earlier_runs(batches):
    batches.figures.is_seeded = False
    batches.run(
        report(
            BatchTraffic(
                queues=[queue("work", ready=1)],
                deleted=["gone"],
                kinds={"work": {"acked": 1}},
                deaths=deaths(1).deaths,
            )
        )
    )
    key = ("dlx_dead_letters_total", "dead_lettered", "work", "rejected", "/")
    assert key not in batches.values()
    assert ("rabbitmq_queue_messages_acked_total", "work", "/") not in batches.values("per-object")

    earlier = LedgerTotals(
        {("/", "work"): Counter(acked=4)},
        Counter({("/", "work", "rejected", "dead_lettered"): 7}),
        Counter({}),
    )
    batches.figures.seed(
        earlier,
        [("/", queue("work", ready=9)), ("/", queue("idle", ready=2)), ("/", queue("gone"))],
    )

    each = batches.values("per-object")
    assert each[key] == 8
    assert each["rabbitmq_queue_messages_acked_total", "work", "/"] == 5
    assert each["rabbitmq_queue_messages_ready", "work", "/"] == 1  # this run knows better
    assert each["rabbitmq_queue_messages_ready", "idle", "/"] == 2
    assert ("rabbitmq_queue_messages_ready", "gone", "/") not in each


def test_histograms_are_cumulative(batches):
    now_ms = int(time.time() * 1_000)
    batches.run(
        report(BatchTraffic(counts={"received_bytes": 2_050}, sizes=[1, 0, 2, 0, 0, 0, 0, 0, 0])),
        arrivals=[(now_ms - 3_000, 4), (now_ms - 400_000, 1)],
    )

    values = batches.values()

    assert values["rabbitmq_message_size_bytes_bucket", "100", "kafka"] == 1
    assert values["rabbitmq_message_size_bytes_bucket", "10000", "kafka"] == 3
    assert values["rabbitmq_message_size_bytes_bucket", "+Inf", "kafka"] == 3
    assert values["rabbitmq_message_size_bytes_sum", "kafka"] == 2_050
    assert values["dlx_produce_to_visible_seconds_bucket", "300.0"] == 4
    assert values["dlx_produce_to_visible_seconds_count",] == 5
    assert values["dlx_batch_duration_seconds_bucket", "0.25"] == 1
    assert list(SECONDS) == sorted(SECONDS)
    assert list(SIZE_BOUNDS) == sorted(SIZE_BOUNDS)


def test_a_detailed_view_has_rabbitmqs_prefix_and_only_what_is_asked(batches):
    batches.run(
        report(BatchTraffic(queues=[queue("work", ready=3)])),
        report(BatchTraffic(queues=[queue("work", ready=4)]), vhost="other"),
    )

    values = batches.values("detailed", families=["queue_coarse_metrics"], vhosts=["other"])

    names = {key[0] for key in values}
    assert values["rabbitmq_detailed_queue_messages_ready", "work", "other"] == 4
    assert ("rabbitmq_detailed_queue_messages_ready", "work", "/") not in values
    assert "rabbitmq_detailed_queue_consumers" not in names


def test_a_family_that_nobody_has_is_refused(batches):
    assert JOB.collect(batches.figures, "detailed", 1_000, families=["channel_metrics"])

    with pytest.raises(UnknownFamilyError, match="did you mean 'queue_metrics'"):
        JOB.collect(batches.figures, "detailed", 1_000, families=["queue_metric"])


def test_no_response_has_more_series_than_allowed(batches):
    batches.run(report(BatchTraffic(queues=[queue(f"queue-{n}", ready=1) for n in range(3_000)])))

    each = batches.values("per-object", most=2_000)
    everything = batches.values("aggregated", most=2_000)

    shown = sum(key[0] == "rabbitmq_queue_messages_ready" for key in each)
    assert len(each) <= 2_000
    assert 0 < shown < 3_000
    assert each["dlx_metrics_queues_left_out",] == 3_000 - shown
    assert everything["rabbitmq_queue_messages_ready",] == 3_000
    assert everything["dlx_metrics_queues_left_out",] == 0


@pytest.mark.parametrize("endpoint", ["aggregated", "per-object", "detailed"])
@pytest.mark.parametrize("most", [1_000, 20_000])
def test_a_response_is_whole_or_says_what_it_leaves_out(batches, endpoint, most):
    names = [f"queue-{number}" for number in range(8_000)]
    batches.run(
        report(
            BatchTraffic(
                queues=[queue(name, ready=1) for name in names],
                deaths=[
                    QueueDeaths(name, reason, "dead_lettered", 2)
                    for name in names
                    for reason in ("expired", "rejected", "maxlen")
                ],
            )
        ),
        *(report(BatchTraffic(counts={"received": 1}), vhost=f"vhost-{n}") for n in range(500)),
    )
    figures = batches.figures
    figures.unhandled = {("/", name): Unhandled(1, 10.0 - n) for n, name in enumerate(names)}
    figures.lags = {("publishes", number): Lag(1, 4) for number in range(3_000)}
    figures.redrives = {(f"vhost-{number}", "acked"): 1 for number in range(3_000)}
    figures.quarantined = Counter({("publishes", f"cause {number}"): 1 for number in range(3_000)})
    figures.quiet = ("queue-*",)
    families = JOB.detailed if endpoint == "detailed" else ()

    values = batches.values(endpoint, most=most, families=families)

    assert len(values) <= most
    whole = [
        one.name
        for one in JOB.families
        if not one.labels and one.form != "histogram" and (endpoint != "detailed" or one.detailed)
    ]
    names_shown = {key[0] for key in values}
    assert set(whole) - names_shown <= {
        *("rabbitmq_resident_memory_limit_bytes", "rabbitmq_disk_space_available_bytes"),
        *("dlx_unexplained", "dlx_balance_timestamp_seconds", "dlx_kafka_reachable"),
        *("dlx_as_of_earliest_timestamp_seconds", *whole * (endpoint == "detailed")),
    }
    deaths = {key: value for key, value in values.items() if key[0] == "dlx_dead_letters_total"}
    assert sum(deaths.values()) == 3 * 2 * 8_000
    assert ("dlx_dead_letters_total", "dead_lettered", "", "rejected", "") in deaths
    shown = len([key for key in deaths if key[2]])
    assert values["dlx_metrics_series_left_out", "dlx_dead_letters_total"] == 3 * 8_000 - shown
    assert shown >= (most - RESERVED) // 2 - 1
    lags = [key for key in values if key[0] == "dlx_consumer_lag_records"]
    if endpoint != "detailed":
        left_out = values["dlx_metrics_series_left_out", "dlx_consumer_lag_records"]
        assert left_out == 3_000 - len(lags)
        assert lags
    assert (
        "dlx_unhandled_dead_letters_oldest_timestamp_seconds",
        "queue-7999",
        "/",
    ) in values  # the oldest


def test_the_rest_of_the_deaths_only_grows_while_more_causes_come(batches):
    def rest():
        values = batches.values(most=1_000)
        return values.get(("dlx_dead_letters_total", "dead_lettered", "", "rejected", ""), 0)

    seen = []
    for begin in range(0, 900, 100):
        found = [
            QueueDeaths(f"queue-{number}", "rejected", "dead_lettered", 1)
            for number in range(begin + 100)
        ]
        batches.run(report(BatchTraffic(deaths=found)))
        seen.append(rest())

    assert seen == sorted(seen)
    assert seen[0] == 0
    assert seen[-1] > 600


def test_families_that_are_always_whole_fit_in_what_is_reserved(batches):
    batches.run(report(deaths(1)), quarantined=1)

    shown = JOB.collect(batches.figures, "per-object", 1_000)
    kept = sum(
        len(metric.samples)
        for family, metric in zip(JOB.families, shown, strict=True)
        if family.share is None and not family.by_queue
    )
    rest = 4 * 7  # reasons and outcomes of deaths that are added up
    counted = sum(one.share is not None or one.by_queue for one in JOB.families)

    assert kept + rest + counted <= RESERVED
    assert sum(one.share or 0 for one in JOB.families) < 1


def test_queues_that_alerts_leave_out_are_named_by_patterns(batches):
    batches.figures.quiet = ("work", "retry.*")
    queues = [queue(name) for name in ("work", "works", "retry.5s", "retry")]
    batches.run(report(BatchTraffic(queues=queues)))

    batches.figures.quiet_of = {"DlxNoConsumer": ("works",)}

    quiet = {key[1:3] for key in batches.values() if key[0] == "dlx_quiet_queue"}

    assert quiet == {("", "work"), ("", "retry.5s"), ("DlxNoConsumer", "works")}


def test_the_response_is_valid_text_whatever_queues_are_called(batches):
    names = ['a"b', "back\\slash", "two\nlines", "\N{SNOWMAN}", ""]
    batches.run(report(BatchTraffic(queues=[queue(name, ready=1) for name in names])))

    text = generate_latest(Collected(JOB.collect(batches.figures, "per-object", 20_000))).decode()

    found = {
        sample.labels["queue"]
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "rabbitmq_queue_messages_ready"
    }
    assert found == set(names)


def test_every_family_has_its_own_name_and_a_sentence_of_help():
    names = [family.name for family in JOB.families]

    assert len(names) == len(set(names))
    assert all(family.help.endswith(".") for family in JOB.families)
    assert all(
        family.name.endswith("_total") == (family.form == "counter") for family in JOB.families
    )


def test_no_label_carries_an_id():
    labels = {label for family in JOB.families for label in family.labels}

    assert not labels & {"message_id", "copy_id", "channel", "batch_id", "offset", "user"}
