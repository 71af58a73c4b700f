"""Connecting with Kafka's address alone: the job's heartbeat says everything else."""

import pytest

from streaming.client import Address, ClientError, Connection, KafkaUnreachableError
from tests.fixtures.jobs import get_when_there
from tests.fixtures.waiting import WAIT_S, wait_until


@pytest.fixture(scope="module", autouse=True)
def _found(running_job):
    """Wait for the first heartbeat: those of earlier jobs say that they serve other vhosts."""
    wait_until(running_job.is_found)


def test_the_topics_of_a_vhost_and_user_are_found(running_job, name):
    queue = name("found")
    vhost = running_job.own_vhost

    with Connection(running_job.servers, vhost=vhost, timeout_s=WAIT_S) as connection:
        channel = connection.channel()
        channel.declare_queue(queue)
        with connection.transaction() as transaction:
            transaction.publish("", queue, b"in a transaction")
        body = get_when_there(channel, queue).body

    assert body == b"in a transaction"
    address = running_job.address(vhost=vhost)
    assert {**as_dict(connection.address), "kafka": None} == {**as_dict(address), "kafka": None}


def as_dict(address):
    return {name: getattr(address, name) for name in address.__struct_fields__}


def test_properties_of_librdkafka_are_used(running_job):
    with Connection(
        running_job.servers,
        vhost=running_job.own_vhost,
        kafka={"client.id": "my-service"},
        timeout_s=WAIT_S,
    ) as connection:
        assert connection.address.properties["client.id"] == "my-service"


@pytest.mark.parametrize(
    ("user", "vhost", "what"),
    [
        ("clark", "{own}", "serves the user 'clark' .* mean 'clerk'"),
        ("guest", "{own}s", "serves the vhost '{own}s' .* mean '{own}'"),
    ],
)
def test_a_name_that_no_job_serves_is_refused(running_job, user, vhost, what):
    own = running_job.own_vhost

    with pytest.raises(ClientError, match=what.format(own=own)):
        Connection(running_job.servers, user=user, vhost=vhost.format(own=own), timeout_s=WAIT_S)


@pytest.mark.parametrize(
    "option",
    [
        {"kafka": {"nosuch.property": "1"}},
        {"kafka": {"fetch.wait.max.ms": "soon"}},
        {"vhost": 5},
        {"user": b"guest"},
        {"timeout_s": 0},
        {"timeout_s": "long"},
    ],
    ids=str,
)
def test_an_option_that_is_not_valid_is_refused_by_its_name(running_job, option):
    [(name, value)] = option.items()
    words = next(iter(value)) if isinstance(value, dict) else name

    with pytest.raises(ClientError, match=words.replace(".", r"\.")):
        Connection(running_job.servers, **option)


def test_an_address_stands_alone(running_job):
    with pytest.raises(ClientError, match="part of the Address"):
        Connection(Address(bootstrap=running_job.servers), vhost="/")


@pytest.mark.parametrize("servers", ["localhost:1", "nosuch.invalid:9092", "nonsense"])
def test_an_address_without_kafka_is_reported(servers):
    with pytest.raises(KafkaUnreachableError, match=servers):
        Connection(servers, timeout_s=1)


def test_a_job_that_has_stopped_is_still_found(running_job, spark, name):
    queue, vhost = name("later"), running_job.own_vhost
    running_job.stop()

    with Connection(running_job.servers, vhost=vhost, timeout_s=WAIT_S) as connection:
        running_job.start(spark)
        channel = connection.channel()
        channel.declare_queue(queue)
        connection.publisher().publish("", queue, b"kept").result(WAIT_S)

        assert get_when_there(channel, queue).body == b"kept"
