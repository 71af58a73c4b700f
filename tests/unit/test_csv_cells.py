"""Cells of CSV: what a spreadsheet would compute is shown as text, and numbers stay numbers."""

import csv
import io

import pytest

from streaming.csv_cells import csv_cell


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+SUM(A1)",
        "-2+3",
        "@cmd",
        "\t=1",
        "\r=1",
        "\n=1",
        "\uff1d1",
        "=",
        "-",
        "+4 9",
        "-5-5",
    ],
)
def test_a_text_that_a_spreadsheet_would_compute_gets_an_apostrophe(text):
    assert csv_cell(text) == f"'{text}"

    written = io.StringIO()
    csv.writer(written).writerow([csv_cell(text)])
    [[read]] = csv.reader(io.StringIO(written.getvalue(), newline=""))
    assert read == f"'{text}"


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (-5, "-5"),
        (-0.25, "-0.25"),
        ("-5", "-5"),
        ("+4912", "+4912"),
        ("-1.5e-7", "-1.5e-7"),
        ("order.eu", "order.eu"),
        ("a=b", "a=b"),
        ("", ""),
        (None, ""),
        (True, "true"),
        ({"a": "=1"}, '{"a":"=1"}'),
        (["=1"], '["=1"]'),
    ],
)
def test_other_values_stay_as_they_are(value, cell):
    assert csv_cell(value) == cell
