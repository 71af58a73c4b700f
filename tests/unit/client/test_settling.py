"""What a settlement can name."""

from typing import Any

import pytest

from streaming.client._wire import delivery_ids
from streaming.client.errors import ClientError
from tests.fixtures.deliveries import a_delivery


def test_deliveries_and_ids_may_be_mixed():
    one, two = a_delivery(delivery_id="1.0.0"), a_delivery(delivery_id="1.0.1")

    assert delivery_ids(one) == ["1.0.0"]
    assert delivery_ids("get-1/0") == ["get-1/0"]
    assert delivery_ids(each for each in (two, "1.0.2", one)) == ["1.0.1", "1.0.2", "1.0.0"]
    assert delivery_ids([]) == []


@pytest.mark.parametrize(
    ("settled", "named"), [(None, "None"), (7, "7"), ([None], "None"), (["1.0.0", 7], "7")]
)
def test_anything_but_a_delivery_is_refused(settled, named):
    wrong: Any = settled  # what an empty get gave, and delivery tags as pika has them
    with pytest.raises(ClientError, match=f"expected a delivery.* not {named}$"):
        delivery_ids(wrong)


def test_a_delivery_with_automatic_acknowledgement_is_refused():
    with pytest.raises(ClientError, match="automatic acknowledgement"):
        delivery_ids([a_delivery(delivery_id="1.0.0"), a_delivery(delivery_id="")])
