"""The rate of a redrive, kept by each lane of its vhost: no lane knows what others have moved.

Every lane earns the whole rate, and pays for each of its letters as if every lane moved one. So
lanes with letters move `rate / lanes` letters a second each, whatever the number of the others.
Credit is in thousandths of letters: integers, so that a replay earns the same.
"""

from streaming.broker.redrives.records import OpenRecord


def letter_price(lanes: int) -> int:
    """The credit that one letter costs."""
    return 1000 * lanes


def first_credit(record: OpenRecord, lane: int, lanes: int) -> int:
    """The credit to start with: one letter, on as many lanes as the rate has letters a second."""
    rate = record.options.rate
    return letter_price(lanes) if rate is None or lane < rate else 0


def earn(record: OpenRecord, now_ms: int, lanes: int) -> tuple[int, int] | None:
    """Earn credit up to now.

    Returns:
        How many letters it pays for, and after how many milliseconds it pays for another one; None
        if the redrive has no rate.
    """
    rate, price = record.options.rate, letter_price(lanes)
    if rate is None:
        return None
    earned = rate * (now_ms - record.moved_at_ms)
    record.credit = min(record.credit + earned, max(rate * 1000, price))
    record.moved_at_ms = now_ms
    return record.credit // price, -(-price // rate)


def pay(record: OpenRecord, letters: int, lanes: int) -> None:
    """Pay for letters that were moved."""
    if record.options.rate is not None:
        record.credit -= letter_price(lanes) * letters
