"""The typed properties are those that the wire format checks."""

from typing import get_type_hints

from streaming.client import Properties
from streaming.protocol.amqp_properties import PROPERTIES, WHOLE_PROPERTIES


def test_every_property_has_its_name_and_type():
    expected = {name: int if name in WHOLE_PROPERTIES else str for name in PROPERTIES}

    assert get_type_hints(Properties) == expected
    assert Properties.__required_keys__ == frozenset()
