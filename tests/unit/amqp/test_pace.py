from streaming.amqp.pace import AGAIN_S, BUSY_S, REST_S, SMALL_BYTES, WINDOW, Pace


class Played:
    """A pace whose clock and rests are the test's."""

    def __init__(self):
        self.now_s, self.rests = 0.0, 0
        self.pace = Pace(lambda: self.now_s, self._rest)

    def _rest(self, seconds):
        self.now_s += seconds
        self.rests += 1

    def window(self, size, takes_s=BUSY_S / 2):
        """The rests at the end of a window whose reads bring so many bytes each."""
        before = self.rests
        for _ in range(WINDOW):
            self.now_s += takes_s / WINDOW
            self.pace.has_read(size)
        return self.rests - before


def test_a_busy_server_rests_while_that_lets_more_gather():
    played = Played()

    assert played.window(300) == 1
    assert [played.window(900) for _ in range(10)] == [1] * 10


def test_a_server_whose_clients_wait_for_each_answer_tries_a_rest_seldom():
    played = Played()

    rests = sum(played.window(300) for _ in range(1000))

    assert 2 <= rests <= played.now_s / AGAIN_S + 1
    assert rests * REST_S < played.now_s / 50


def test_after_a_while_it_is_tried_again_without():
    played = Played()
    played.window(300)
    while played.window(900):
        pass

    assert played.now_s > AGAIN_S
    assert [played.window(900) for _ in range(3)] == [1, 0, 0]


def test_a_server_that_is_not_busy_or_reads_much_does_not_rest():
    played = Played()

    assert [played.window(300, takes_s=2 * BUSY_S) for _ in range(5)] == [0] * 5
    assert [played.window(2 * SMALL_BYTES) for _ in range(5)] == [0] * 5


def test_a_rest_that_was_not_taken_is_no_trial():
    played = Played()
    played.window(300, takes_s=2 * BUSY_S)

    assert [played.window(900) for _ in range(2)] == [1, 0]
