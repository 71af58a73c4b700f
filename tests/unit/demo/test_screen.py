"""The screen of the running demo."""

import io

from rich.console import Console

from streaming.demo.job_observer import Depth
from streaming.demo.order_process import QUEUES
from streaming.demo.screen import LINE_EVERY_S, Screen, ScreenState, plain_line, render, say
from tools.docs.terminal import screen

STATE = ScreenState(
    elapsed_s=12.3,
    total_s=45,
    phase="the shop is open",
    batches=7,
    batch_s=0.25,
    lag_records=3,
    traffic={"published": 480, "acked": 100, "rejected": 9, "requeued": 2},
    depths={"quotes": Depth(4, 1), "payments": Depth(0, 20), "elsewhere": Depth(1, 0)},
    deaths={"rejected": 9, "expired": 12},
    died_in={"payments": 9, "quotes": 12},
)


def rendered(state, width=120):
    out = io.StringIO()
    Console(file=out, width=width).print(render(state))
    return out.getvalue()


def test_a_line_shows_depths_deaths_and_lag():
    assert plain_line(STATE) == (
        "[12/45 s] the shop is open: 480 published, 100 acked, 9 rejected, 2 requeued; "
        "queues (ready+unacked): payments 0+20, quotes 4+1, elsewhere 1+0; "
        "deaths: 12 expired, 9 rejected; batch 7 took 250 ms, lag 3 records"
    )


def test_before_the_first_batch_the_line_is_short():
    state = STATE._replace(
        elapsed_s=None, phase="starting", batches=0, traffic={}, depths={}, deaths={}
    )

    assert plain_line(state) == (
        "[ -/45 s] starting: 0 published, 0 acked, 0 rejected, 0 requeued; "
        "queues (ready+unacked): empty; deaths: none yet; waiting for the first batch"
    )


def test_while_kafka_is_away_the_lag_is_unknown():
    assert plain_line(STATE._replace(lag_records=None)).endswith("lag unknown")


def test_held_back_publishers_are_mentioned():
    held_back = STATE._replace(gate_open=False)

    assert plain_line(held_back).endswith("publishers held back by flow control")


def test_the_view_has_a_row_per_queue_with_its_deaths():
    rows = [line.split("│") for line in rendered(STATE).splitlines() if "│" in line]
    cells = {row[1].strip(): [cell.strip() for cell in row[2:5]] for row in rows}

    assert cells == {
        "payments": ["0", "20", "9"],
        "payments.retry": ["0", "0", "0"],
        "invoices": ["0", "0", "0"],
        "invoices.failed": ["0", "0", "0"],
        "shipping": ["0", "0", "0"],
        "quotes": ["4", "1", "12"],
        "parking-lot": ["0", "0", "0"],
        "dashboard": ["0", "0", "0"],
        "overflow": ["0", "0", "0"],
        "unroutable": ["0", "0", "0"],
        "elsewhere": ["1", "0", "0"],
    }


def test_the_curve_has_a_mark_for_each_second():
    state = STATE._replace(failed_at={9: 1, 10: 8, 12: 4})

    assert f"curve    {'▁' * 9}▂█▁▅  invoices" in rendered(state)


def test_the_link_of_the_console_stays_on_the_screen():
    assert "console" not in rendered(STATE)
    assert "console  http://c" in rendered(STATE._replace(console_link="http://c"))


def test_the_view_shows_deaths_traffic_and_lag():
    said = rendered(STATE)

    assert "deaths   12 expired, 9 rejected" in said
    assert "traffic  480 published, 100 acked, 9 rejected, 2 requeued" in said
    assert "job      batch 7 took 250 ms, lag 3 records" in said


def test_without_a_terminal_a_line_is_printed_per_interval():
    out = io.StringIO()
    view = Screen(Console(file=out, width=40))

    view.show(STATE, 0.0)
    view.show(STATE._replace(batches=8), LINE_EVERY_S / 2)
    view.show(STATE._replace(batches=9), LINE_EVERY_S)
    view.close()

    assert out.getvalue().splitlines() == [
        plain_line(STATE),
        plain_line(STATE._replace(batches=9)),
    ]


def test_the_last_line_has_the_last_state():
    out = io.StringIO()
    view = Screen(Console(file=out, width=40))

    view.show(STATE, 0.0)
    view.show(STATE._replace(batches=8), LINE_EVERY_S / 2)
    view.close()
    view.close()

    assert out.getvalue().splitlines() == [plain_line(STATE), plain_line(STATE._replace(batches=8))]


def test_on_a_terminal_the_view_is_drawn_and_stays():
    out = io.StringIO()
    view = Screen(Console(file=out, width=120, force_terminal=True))

    view.show(STATE, 0.0)
    view.close()
    view.close()

    assert "the shop is open" in out.getvalue()


def test_what_is_said_between_two_views_stays():
    out = io.StringIO()
    console = Console(file=out, width=120, height=50, force_terminal=True)
    view = Screen(console)

    view.show(STATE, 0.0)
    view.close()
    say(console, "What has died?")
    for phase in ("phase one", "phase two"):
        view.show(STATE._replace(phase=phase), 1.0)
    view.close()
    say(console, "All was acknowledged.")
    lines = "\n".join(screen(out.getvalue()))

    assert [lines.count(one) for one in ("the shop is open", "phase one", "phase two")] == [1, 0, 1]
    assert "What has died?" in lines
    assert lines.count("payments.retry") == 2


def test_a_terminal_of_80_columns_has_the_names_of_all_queues():
    said = rendered(STATE, width=80)

    assert all(name in said for name in QUEUES)
    assert max(map(len, said.splitlines())) <= 80
