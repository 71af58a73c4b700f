"""The topics of a vhost and user, from the configuration of a job."""

import pytest
from msgspec import structs

from streaming.client import Address, ClientError
from streaming.client.address import address_of
from streaming.config import JobConfig
from streaming.config.inputs import InputSettings


def test_the_defaults_are_those_of_the_configuration():
    assert structs.replace(address_of(JobConfig(), environ={}), kafka={}) == Address()


def test_the_topic_of_transactions_is_found():
    inputs = (*JobConfig().inputs, InputSettings(topic="tx", source="transactions"))

    assert address_of(JobConfig(inputs=inputs), environ={}).transactions == "tx"


@pytest.mark.parametrize(
    ("user", "vhost", "what"),
    [
        ("gest", "/", "users: .*'gest'.*did you mean 'guest'"),
        ("guest", "shop", "vhosts: .*'shop'"),
    ],
)
def test_an_unknown_name_is_refused(user, vhost, what):
    with pytest.raises(ClientError, match=what):
        address_of(JobConfig(), user, vhost, {})


def test_secrets_are_not_shown():
    assert "hunter2" not in repr(Address(kafka={"sasl.password": "hunter2"}))
