"""What names a binding among those of the same ends: its routing key, and a hash of its arguments.

    orders~2XPJ9A  =  routing key ~ base64url(hash of the arguments as terms of Erlang)

The key of a binding is RabbitMQ's own, so what kept it, as a state of Terraform does, finds the
binding here. The types of AMQP are hashed too: integers count as those of 64 bits, as every
request of the API makes them, whichever width a client of AMQP chose.

The hash is Erlang's `phash2` with all 32 bits, which is the same on all machines and versions: Bob
Jenkins's hash of 1996, which goes on from the hash of the term before.
"""

import base64
import struct
from decimal import Decimal
from typing import Final
from urllib.parse import quote_plus

from topology.declarations import Binding
from topology.values import AmqpValue, Table, Timestamp

_BITS: Final = 0xFFFFFFFF
_CONST: Final = 0x9E3779B9
"""Jenkins's golden ratio; its multiples tell the kinds of terms apart."""

_SMALL: Final = range(-(1 << 27), 1 << 27)
_EMPTY_LIST: Final = 2


def properties_key(binding: Binding) -> str:
    """The key of a binding."""
    key = quote_plus(binding.routing_key, safe="", errors="surrogatepass").replace("~", "%7E")
    if not binding.arguments:
        return key or "~"
    hashed = _Hash()
    hashed.table(binding.arguments)
    digest = base64.urlsafe_b64encode(struct.pack(">I", hashed.value)).decode()
    return f"{key}~{digest.rstrip('=')}"


class _Hash:
    """The hash of the terms so far."""

    def __init__(self) -> None:
        self.value = 0

    def table(self, table: Table) -> None:
        """A list of names, types and values, in the order of the names."""
        rows = {_utf8(name): value for name, value in table.items()}
        for name in sorted(rows):
            self._tuple_of(3)
            self._binary(name)
            self._typed(rows[name])
        self._end_of_list()

    def _typed(self, value: AmqpValue) -> None:
        """RabbitMQ's name for the type of a value, and the value."""
        match value:
            case str():
                self._atom("longstr")
                self._binary(_utf8(value))
            case bool():
                self._atom("bool")
                self._atom(str(value).lower())
            case int():
                self._atom("long")
                self._integer(value)
            case float():
                self._atom("double")
                high, low = struct.unpack(">II", struct.pack(">d", value or 0.0))
                self._mix(high, low, 12)
            case None:
                self._atom("void")
                self._atom("undefined")
            case bytes():
                self._atom("binary")
                self._binary(value)
            case Timestamp():
                self._atom("timestamp")
                self._integer(value.seconds)
            case Decimal():
                self._atom("decimal")
                self._decimal(value)
            case list():
                self._atom("array")
                for item in value:
                    self._tuple_of(2)
                    self._typed(item)
                self._end_of_list()
            case _:
                self._atom("table")
                self.table(value)

    def _decimal(self, value: Decimal) -> None:
        scale = max(0, -int(value.as_tuple().exponent))
        self._tuple_of(2)
        self._integer(scale)
        self._integer(int(value.scaleb(scale)))

    def _tuple_of(self, size: int) -> None:
        self._mix(size, 0, 9)

    def _end_of_list(self) -> None:
        self._mix(_EMPTY_LIST, 0, 2)

    def _atom(self, name: str) -> None:
        found = 0
        for byte in name.encode():
            found = (found << 4) + byte
            high = found & 0xF0000000
            found ^= high >> 24 ^ high
        self._mix(found, 0, 3)

    def _integer(self, value: int) -> None:
        if value in _SMALL:
            if value < 0:
                self._mix(-value, 0, 1)
            self._mix(value, 0, 1)
        else:
            size = abs(value)
            self._mix(size, size >> 32, 10 if value < 0 else 11)

    def _binary(self, data: bytes) -> None:
        start = (self.value + _CONST * 13) & _BITS
        if not data:
            self.value = start
            return
        # the last byte of the third word of the last block is the length's own
        whole = len(data) // 12 * 12
        rest = data[whole:]
        rest = rest[:8].ljust(8, b"\0") + b"\0" + rest[8:].ljust(3, b"\0")
        a = b = _CONST
        c = start
        for first, second, third in struct.iter_unpack("<III", data[:whole]):
            a, b, c = _mixed(a + first, b + second, c + third)
        first, second, third = struct.unpack("<III", rest)
        self.value = _mixed(a + first, b + second, c + third + len(data))[2]

    def _mix(self, first: int, second: int, kind: int) -> None:
        const = _CONST * kind
        self.value = _mixed(const + first, const + second, self.value)[2]


def _mixed(a: int, b: int, c: int) -> tuple[int, int, int]:
    """Mix three words of 32 bits."""
    for right, left, last in ((13, 8, 13), (12, 16, 5), (3, 10, 15)):
        c &= _BITS
        a = (a - b - c & _BITS) ^ c >> right
        b = (b - c - a & _BITS) ^ a << left & _BITS
        c = (c - a - b & _BITS) ^ b >> last
    return a, b, c


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
