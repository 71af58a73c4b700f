"""What a settlement may name."""

from typing import Any

import pytest

from streaming.client.errors import ClientError
from streaming.client.settling import refs_of
from tests.fixtures.deliveries import a_delivery


def test_deliveries_and_ids_may_be_mixed():
    one, two = a_delivery(delivery_id="1.0.0"), a_delivery(delivery_id="1.0.1")

    assert refs_of(one) == ["1.0.0"]
    assert refs_of("get-1/0") == ["get-1/0"]
    assert refs_of(each for each in (two, "1.0.2", one)) == ["1.0.1", "1.0.2", "1.0.0"]
    assert refs_of([]) == []


@pytest.mark.parametrize(
    ("settled", "named"), [(None, "None"), (7, "7"), ([None], "None"), (["1.0.0", 7], "7")]
)
def test_what_is_no_delivery_is_refused_in_words(settled, named):
    wrong: Any = settled  # what an empty get gave, and delivery tags as pika has them
    with pytest.raises(ClientError, match=f"must be a delivery, its delivery_id.*not {named}$"):
        refs_of(wrong)


def test_what_is_settled_already_is_refused():
    with pytest.raises(ClientError, match="automatic ack is settled already"):
        refs_of([a_delivery(delivery_id="1.0.0"), a_delivery(delivery_id="")])
