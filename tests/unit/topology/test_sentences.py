"""Sentences that know what they were made of."""

import pytest

from topology.errors import DlxError
from topology.sentences import Sentence, plain, said, say, say_count, to_say


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (1234567, "1,234,567"),
        (0.0, "0.0"),
        (0.5, "0.5"),
        (-0.25, "-0.2"),
        (0.02, "0.02"),
        (None, ""),
        ("100%", "100%"),
    ],
)
def test_values_are_written_for_people(value, written):
    assert say("%(value)s of 50 %%", value=value) == f"{written} of 50 %"


@pytest.mark.parametrize(
    ("count", "text"), [(1, "1 letter of work"), (2000, "2,000 letters of work")]
)
def test_a_count_chooses_the_template(count, text):
    sentence = say_count(
        "%(count)s letter of %(queue)s", "%(count)s letters of %(queue)s", count, queue="work"
    )

    assert sentence == text
    assert (sentence.counted, sentence.values) == (count, {"count": count, "queue": "work"})
    assert (sentence.template, sentence.many) == (
        "%(count)s letter of %(queue)s",
        "%(count)s letters of %(queue)s",
    )


def test_an_error_says_its_sentence_or_its_text():
    sentence = say("%(count)s", count=3)

    assert said(DlxError(sentence)) is sentence
    assert said(DlxError("as it is")) == "as it is"
    assert said(ValueError()) == ""


def test_a_text_that_is_translated_later_is_itself():
    assert to_say("died") == "died"


def test_only_a_sentence_becomes_a_plain_text():
    text = plain(say("died"))

    assert (text, type(text)) == ("died", str)
    with pytest.raises(NotImplementedError):
        plain(Sentence)
