"""The time of a log, whatever happens to the wall clock."""

from streaming.sequencer.log_clock import LogClock

HOUR_MS = 3_600_000


class Host:
    """The clocks of a host."""

    wall_ms = 10_000_000.0
    elapsed_s = 5.0

    def clock(self) -> LogClock:
        return LogClock(lambda: int(self.wall_ms), lambda: self.elapsed_s)

    def pass_s(self, seconds: float) -> None:
        self.wall_ms += seconds * 1_000
        self.elapsed_s += seconds


def test_it_is_the_wall_clock_as_long_as_that_goes_on():
    host = Host()
    clock = host.clock()

    host.pass_s(1.5)
    assert clock.now_ms() == 10_001_500
    host.wall_ms += HOUR_MS  # as after a sleep of the machine
    assert clock.now_ms() == 10_001_500 + HOUR_MS
    assert clock.ahead_ms() == 0


def test_it_goes_on_when_the_wall_clock_is_set_back():
    host = Host()
    clock = host.clock()
    begin_ms = clock.now_ms()

    host.wall_ms -= HOUR_MS
    found = []
    for _ in range(3_000):  # more often than once a millisecond
        host.pass_s(0.0004)
        found.append(clock.now_ms() - begin_ms)

    assert found == sorted(found)
    assert 1_199 <= found[-1] <= 1_200
    assert clock.ahead_ms() in (HOUR_MS - 100, HOUR_MS)


def test_it_goes_on_from_records_of_a_host_whose_clock_is_ahead():
    host = Host()
    clock = host.clock()

    clock.note(int(host.wall_ms) + 500)
    clock.note(int(host.wall_ms) + 200)
    host.pass_s(2)

    assert clock.now_ms() == host.wall_ms + 500
    host.wall_ms += 800
    assert clock.now_ms() == host.wall_ms, "the wall clock has caught up"
