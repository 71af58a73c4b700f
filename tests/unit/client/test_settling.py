"""What a settlement can name."""

from typing import Any

import pytest

from streaming.client._wire import delivery_ids, settlement_reason
from streaming.client.errors import ClientError
from streaming.client.worker import reason_of
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


@pytest.mark.parametrize(
    ("reason", "member"),
    [
        (None, {}),
        ("", {}),
        ("no such item", {"reason": "no such item"}),
        ("é" * 2_000, {"reason": "é" * 512}),
    ],
)
def test_a_reason_is_cut_before_it_is_sent(reason, member):
    assert settlement_reason(reason) == member


def test_a_reason_that_is_no_text_is_refused():
    wrong: Any = ValueError("x")
    with pytest.raises(ClientError, match="reason must be text, not ValueError"):
        settlement_reason(wrong)


def test_a_delivery_hands_its_reason_to_the_channel():
    given: list[Any] = []

    class Settler:
        def ack(self, delivery: Any, **options: Any) -> None: ...

        def nack(self, delivery: Any, **options: Any) -> None:
            given.append(options)

        def reject(self, delivery: Any, **options: Any) -> None:
            given.append(options)

    settler: Any = Settler()
    a_delivery(channel=settler).nack(requeue=False, reason="late")
    a_delivery(channel=settler).reject(reason="late")

    assert [each["reason"] for each in given] == ["late", "late"]


class OrderError(Exception):
    """An exception of a consumer's program."""


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("amount -1"), "ValueError: amount -1"),
        (KeyError("id"), "KeyError: 'id'"),
        (TimeoutError(), "TimeoutError"),
        (OrderError("gone"), f"{__name__}.OrderError: gone"),
    ],
)
def test_the_reason_of_an_exception_is_its_type_and_text(error, reason):
    assert reason_of(error) == reason
