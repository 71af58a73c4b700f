"""The printer of listings: what fits a terminal, what is left out and said, JSON and CSV."""

import csv
import io
import json

import pytest
import typer

from streaming.cli.listing.table import Column, Listing, print_listing, print_record
from streaming.cli.listing.view import OutputOptions

LISTING = Listing(
    (
        Column("vhost", 2),
        Column("name", 0),
        Column("messages_unacknowledged", 3, "unacked"),
        Column("policy", 6),
        Column("oldest_at", 4, "oldest", "instant"),
        Column("arguments", 7, kind="free"),
    ),
    more=("detail",),
)


def a_row(name, **values):
    return {
        "vhost": "/",
        "name": name,
        "messages_unacknowledged": 0,
        "policy": None,
        "oldest_at": None,
        "arguments": {},
        "detail": [1, 2],
        **values,
    }


@pytest.fixture
def printed(capsys, monkeypatch):
    """A function that prints rows at a width, and returns the lines of stdout and of stderr."""
    monkeypatch.setenv("DLX_TZ", "UTC")

    def run(rows, view=OutputOptions(), *, width=80, **notes):  # noqa: B008 (it is frozen)
        if width is None:
            monkeypatch.delenv("COLUMNS", raising=False)
        else:
            monkeypatch.setenv("COLUMNS", str(width))
        print_listing(LISTING, rows, view, **notes)
        captured = capsys.readouterr()
        return captured.out.splitlines(), captured.err.splitlines()

    return run


TWO = [a_row("work", messages_unacknowledged=3), a_row("mail", messages_unacknowledged=12)]


def test_columns_that_are_equal_or_empty_in_every_row_are_hidden_and_the_equal_ones_named(printed):
    lines, _ = printed(TWO)

    assert lines[:3] == [
        "name  messages_unacknowledged",
        "work                        3",
        "mail                       12",
    ]
    assert any("vhost /" in line for line in lines[3:])
    assert "policy" not in "".join(lines)


def test_a_long_name_is_said_once_and_whole(printed):
    name = "a-queue-with-quite-a-long-name-for-a-queue-in-production"
    lines, _ = printed([a_row("work", policy=name), a_row("mail", policy=name)], width=40)

    assert lines[0] == "name"
    assert [line for line in lines if name in line] != []


def test_a_single_row_keeps_its_values(printed):
    [header, *_], _ = printed([a_row("work")])

    assert header.split() == ["vhost", "name", "messages_unacknowledged"]


def test_a_column_of_rank_0_is_shown_even_if_its_values_are_equal(printed):
    [header, *_], _ = printed([a_row("work"), a_row("work")])

    assert header == "name"


def test_titles_become_short_before_columns_are_left_out(printed):
    rows = [a_row("work", policy="long-policy-name", messages_unacknowledged=1), *TWO]

    [wide, *_], _ = printed(rows, width=60)
    [narrow, *_], _ = printed(rows, width=40)

    assert wide.split() == ["name", "messages_unacknowledged", "policy"]
    assert narrow.split() == ["name", "unacked", "policy"]


def test_the_least_important_columns_are_left_out_first_and_named(printed):
    rows = [a_row("work", policy="long-policy-name", messages_unacknowledged=1), *TWO]

    lines, _ = printed(rows, width=20)

    assert lines[0].split() == ["name", "unacked"]
    assert "policy" in " ".join(lines[4:])
    assert "--wide" in " ".join(lines[4:])
    assert all(len(line) <= 20 for line in lines[:4])


def test_free_text_is_cut_and_no_value_is_broken(printed):
    rows = [a_row("a" * 30, arguments={"x-message-ttl": 1000, "x-max-length": 10}), *TWO]

    lines, _ = printed(rows, width=60)

    assert lines[1].startswith("a" * 30)
    assert lines[1].endswith("…")
    assert len(lines[1]) <= 60


def test_names_of_more_than_half_the_width_are_cut_inside_and_leave_room_for_the_rest(printed):
    rows = [a_row("q" * 250 + str(number), messages_unacknowledged=number) for number in (1, 2)]

    lines, _ = printed(rows)
    wide, _ = printed(rows, OutputOptions(wide=True))

    name = f"{'q' * 19}…{'q' * 19}"
    assert lines[:3] == [
        f"{'name':40}  messages_unacknowledged",
        f"{name}1{'1':>25}",
        f"{name}2{'2':>25}",
    ]
    assert "Cut: name. --wide shows whole texts." in lines
    assert "q" * 250 + "1" in wide[1]
    assert max(map(len, printed(rows, width=20)[0][:3])) <= 20


def test_wide_hides_and_cuts_nothing(printed):
    arguments = {"x-message-ttl": 1000, "x-max-length": 10}
    instant = "2020-09-13T12:26:40.250Z"

    lines, _ = printed(
        [a_row("work", arguments=arguments, oldest_at=instant), *TWO],
        OutputOptions(wide=True),
        width=20,
    )

    assert lines[0].split() == [column.name for column in LISTING.columns]
    assert json.dumps(arguments, separators=(",", ":")) in lines[1]
    assert instant in lines[1]
    assert len(lines) == 4


def test_what_is_not_for_a_terminal_has_every_column(printed):
    lines, _ = printed(TWO, width=None)

    assert lines[0].split() == [column.name for column in LISTING.columns]
    assert len(lines) == 3


def test_how_many_rows_were_left_out_is_said_apart_from_data(printed):
    for view, width in (
        (OutputOptions("json"), 80),
        (OutputOptions("csv"), 80),
        (OutputOptions(), None),
        (OutputOptions(), 80),
    ):
        lines, err = printed(TWO, view, width=width, total=5994)
        said = "2 of 5,994 rows; --limit 0 for all"
        assert err == [said] or (view == OutputOptions() and width == 80)
        assert (lines + err).count(said) == 1


def test_times_are_short_and_their_zone_is_said_once(printed):
    lines, _ = printed(
        [
            a_row("work", oldest_at="2020-09-13T12:26:40.250Z"),
            a_row("mail", oldest_at="2019-01-02T00:00:00.000Z"),
        ]
    )

    assert lines[1].split() == ["work", "2020-09-13", "12:26:40"]
    assert lines[2].split() == ["mail", "2019-01-02", "00:00:00"]
    assert [line for line in lines if "UTC" in line] == ["Times are UTC."]


def test_columns_are_chosen_by_name_or_short_name_and_sorted_by_value(printed):
    rows = [*TWO, a_row("none", messages_unacknowledged=None)]
    view = OutputOptions(columns=("unacked", "NAME"), sort=("unacked", True))

    lines, _ = printed(rows, view)

    assert [line.split() for line in lines] == [
        ["messages_unacknowledged", "name"],
        ["12", "mail"],
        ["3", "work"],
        ["-", "none"],
    ]


def test_numbers_in_names_sort_by_value(printed):
    rows = [a_row(name) for name in ("work-10", "mail", "work-2")]

    lines, _ = printed(rows, OutputOptions(sort=("name", False)))

    assert lines[1:4] == ["mail", "work-2", "work-10"]


def test_json_has_every_key_or_those_that_were_asked_for(printed):
    lines, _ = printed(TWO, OutputOptions("json"))
    chosen, _ = printed(TWO, OutputOptions("json", ("name", "detail")))

    assert [json.loads(line) for line in lines] == TWO
    assert [json.loads(line) for line in chosen] == [
        {"name": "work", "detail": [1, 2]},
        {"name": "mail", "detail": [1, 2]},
    ]


def test_no_cell_of_csv_is_a_formula(printed):
    lines, _ = printed(
        [a_row("=cmd", messages_unacknowledged=-5)], OutputOptions("csv"), width=None
    )

    [row] = csv.DictReader(lines)
    assert (row["name"], row["messages_unacknowledged"]) == ("'=cmd", "-5")


def test_csv_quotes_what_must_be_quoted(printed):
    name = 'a "quoted", name\nof two lines'

    lines, _ = printed(
        [a_row(name, arguments={"n": 1})], OutputOptions("csv", ("name", "arguments"))
    )

    assert list(csv.reader(io.StringIO("\n".join(lines)))) == [
        ["name", "arguments"],
        [name, '{"n":1}'],
    ]


@pytest.mark.parametrize(
    "view",
    [
        OutputOptions(columns=("name", "polcy")),
        OutputOptions(sort=("polcy", False)),
        OutputOptions("json", ("polcy",)),
    ],
)
def test_an_unknown_column_is_refused_with_the_known_ones_even_without_rows(printed, view):
    for rows in ([], TWO):
        with pytest.raises(typer.BadParameter, match=r"did you mean 'policy'.*vhost, name"):
            printed(rows, view)


def test_an_empty_answer_is_words_in_a_table_and_nothing_in_data(printed):
    assert printed([], nothing="no queues") == (["no queues"], [])
    assert printed([], OutputOptions("json"), nothing="no queues") == ([], [])
    assert printed([], OutputOptions("csv", ("name",)), nothing="no queues") == (["name"], [])


def test_wide_characters_keep_columns_aligned(printed):
    lines, _ = printed([a_row("注文", policy="p"), a_row("work", policy="q")])

    assert lines[1] == "注文  p"
    assert lines[2] == "work  q"


def test_a_record_has_a_line_for_each_attribute(capsys):
    print_record(LISTING, a_row("work", policy="DLX"), OutputOptions())

    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert ["name", "work"] in lines
    assert ["policy", "DLX"] in lines
    assert ["detail", "[1,2]"] in lines


def test_a_name_cannot_command_the_terminal(printed):
    lines, _ = printed([a_row("\x1b[31mred\nline"), a_row("b\u0085")])

    assert lines[1:3] == ["\\x1b[31mred\\nline", "b\\x85"]


def _header(capsys, monkeypatch, columns, rows, width):
    monkeypatch.setenv("COLUMNS", str(width))
    print_listing(Listing(columns), rows, OutputOptions())
    return capsys.readouterr().out.splitlines()[0].split()


def test_a_column_that_fits_after_a_wider_one_was_left_out_comes_back(capsys, monkeypatch):
    columns = (Column("name", 0), Column("much", 3), Column("ready", 4))
    rows = [{"name": f"n{i}", "much": "m" * 40 + str(i), "ready": i} for i in range(2)]

    assert _header(capsys, monkeypatch, columns, rows, 30) == ["name", "ready"]


def test_titles_are_whole_again_where_they_fit_after_a_column_was_left_out(capsys, monkeypatch):
    columns = (
        Column("name", 0),
        Column("messages_ready", 1, "ready"),
        Column("messages_unacked", 2, "unacked"),
        Column("much", 3),
    )
    rows = [
        {"name": f"n{i}", "messages_ready": i, "messages_unacked": i, "much": "m" * 40 + str(i)}
        for i in range(2)
    ]

    found = _header(capsys, monkeypatch, columns, rows, 30)
    assert found == ["name", "messages_ready", "unacked"]


def test_a_column_that_identifies_stays_while_its_values_differ(capsys, monkeypatch):
    columns = (Column("name", 0), Column("ready", 1), Column("vhost", 7, identifies=True))
    rows = [{"name": "n" * 10, "ready": 10**7 + i, "vhost": f"tenant-{i}"} for i in range(2)]

    assert _header(capsys, monkeypatch, columns, rows, 22) == ["name", "vhost"]
    assert _header(capsys, monkeypatch, columns, rows[:1], 22) == ["name", "ready"]


def test_an_older_name_of_a_column_is_accepted():
    column = Column("dead_letter_exchange", 1, "dead_letter", older="dlx")

    assert Listing((column,)).column("dlx", "--columns") is column


def test_a_cut_text_says_once_where_it_is_whole(capsys, monkeypatch):
    listing = Listing(
        (Column("id", 0), Column("detail", 2, kind="free")), whole="`dlx quarantine show ID`"
    )
    rows = [{"id": number, "detail": f"{number} " + "long " * 60} for number in range(2)]

    def said(width, rows):
        monkeypatch.setenv("COLUMNS", str(width))
        print_listing(listing, rows, OutputOptions())
        return "".join(capsys.readouterr()).count("`dlx quarantine show ID`")

    assert said(60, rows) == 1
    assert said(900, [{"id": 1, "detail": "short"}]) == 0
    monkeypatch.delenv("COLUMNS")
    print_listing(listing, rows, OutputOptions())
    captured = capsys.readouterr()
    assert "`dlx quarantine show ID`" not in captured.out
    assert captured.err.count("`dlx quarantine show ID`") == 1


def test_a_title_is_not_made_whole_where_that_cuts_text(capsys, monkeypatch):
    columns = (
        Column("name", 0),
        Column("messages_unacknowledged", 1, "unacked"),
        Column("body", 1, kind="free"),
    )
    rows = [
        {"name": f"n{i}", "messages_unacknowledged": i, "body": f"{i}" + "b" * 25} for i in range(2)
    ]

    monkeypatch.setenv("COLUMNS", "42")
    print_listing(Listing(columns), rows, OutputOptions())
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["name", "unacked", "body"]
    assert all(line.endswith("b" * 25) for line in lines[:2])
