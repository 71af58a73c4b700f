"""A translation is a file; what it lacks, or has wrong, is said in English."""

import pickle

import msgspec
import pytest

from streaming.config import InvalidConfigError, parse_config
from streaming.console.languages import ENGLISH, LanguageError, Languages, read_translation
from streaming.console.rendering import make_templates
from topology.sentences import say, say_count

HEAD = (
    'msgid ""\nmsgstr ""\n"Language: {code}\\n"\n"Content-Type: text/plain; charset=utf-8\\n"\n'
    '"Plural-Forms: nplurals=2; plural=(n != 1);\\n"\n\n'
)
PIRATE = (
    'msgid "1,234.5"\nmsgstr "1.234,5"\n\n'
    'msgid "%(count)s letter of %(queue)s"\nmsgid_plural "%(count)s letters of %(queue)s"\n'
    'msgstr[0] "In %(queue)s be %(count)s letter"\nmsgstr[1] "In %(queue)s %(count)s letters"\n\n'
    'msgid "%(count)s min"\nmsgstr "%(count)s glasses"\n\n'
    'msgid "of <b>%(name)s</b>"\nmsgstr "<b>%(name)s</b>, arr"\n\n'
    'msgid "needs %(name)s"\nmsgstr "needs %(nam)s"\n\n'
    'msgid "whole"\nmsgstr "100 %"\n\n'
    'msgid "plain"\nmsgstr "\\"<b>"\n\n'
    'msgctxt "of a ship"\nmsgid "plain"\nmsgstr "smooth"\n\n'
    'msgid "empty"\nmsgstr ""\n'
)


@pytest.fixture
def folder(tmp_path):
    """Two translations: one of pirates, and one of Brazil without a text."""
    (tmp_path / "pi.po").write_text(HEAD.format(code="pi") + PIRATE)
    (tmp_path / "pt-BR.po").write_text(HEAD.format(code="pt_BR"))
    return tmp_path


@pytest.fixture
def pirate(folder):
    """The language of pirates."""
    return read_translation(folder / "pi.po")


def test_a_sentence_is_english_for_whoever_knows_nothing_of_languages():
    one = say("%(name)s has %(count)s, %(share)s of 100 %%", name="q", count=1234, share=0.25)

    assert one == "q has 1,234, 0.2 of 100 %"
    assert say_count("%(count)s letter", "%(count)s letters", 1) == "1 letter"
    assert say_count("%(count)s letter", "%(count)s letters", 2000) == "2,000 letters"
    assert say("nothing: %(what)s", what=None) == "nothing: "
    assert ENGLISH.said(one) == one


def test_a_sentence_keeps_its_template_when_it_is_pickled(pirate):
    one = pickle.loads(pickle.dumps(say("%(count)s min", count=3)))  # noqa: S301 - our own

    assert one == "3 min"
    assert pirate.said(one) == "3 glasses"


def test_a_sentence_is_said_in_another_order_with_other_numbers_and_units(pirate):
    age = say("%(count)s min", count=1200)
    one = say_count(
        "%(count)s letter of %(queue)s", "%(count)s letters of %(queue)s", 1200, queue=age
    )

    assert pirate.said(one) == "In 1.200 glasses 1.200 letters"
    assert pirate.number(1234.25) == "1.234,25"
    assert pirate.written(0.5) == "0,5"
    assert pirate.written(None) == ""


def test_a_text_that_is_missing_or_does_not_fit_is_english(pirate, caplog):
    assert pirate.said(say("needs %(name)s", name="x")) == "needs x"
    assert pirate.said(say("whole")) == "whole"
    assert pirate.said(say("empty")) == "empty"
    assert pirate.said(say("unknown")) == "unknown"
    assert pirate.said("%(count)s min") == "%(count)s min"
    assert pirate.word("unknown") == "unknown"
    assert pirate.word("") == ""


def test_a_translation_that_lacks_a_value_is_named_in_the_log(folder, caplog):
    read_translation(folder / "pi.po")

    assert "needs %(name)s" in caplog.text
    assert "whole" in caplog.text


@pytest.mark.parametrize("language", ["pi", "en"])
def test_values_in_a_translated_template_are_escaped(folder, language):
    templates = make_templates(Languages(folder=folder).named(language))
    text = "{% trans name=given %}of <b>{{ name }}</b>{% endtrans %}"

    shown = templates.from_string(text).render(given="<i>\x07\u202e")

    assert "&lt;i&gt;\\x07\\u202e</b>" in shown
    assert ("arr" in shown) == (language == "pi")


def test_the_translation_of_a_text_without_markup_has_none(pirate):
    templates = make_templates(pirate)

    assert templates.from_string("{{ _('plain') }}").render() == "&quot;&lt;b>"


def test_the_senses_of_a_word_are_told_apart(pirate):
    templates = make_templates(pirate)
    text = "{{ _('plain') }} {{ pgettext('of a ship', 'plain') }}"

    assert templates.from_string(text).render() == "&quot;&lt;b> smooth"


def test_a_template_counts(pirate):
    templates = make_templates(pirate)
    text = (
        "{% trans count=n, queue='<q>' %}{{ count }} letter of {{ queue }}{% pluralize %}"
        "{{ count }} letters of {{ queue }}{% endtrans %}"
    )

    shown = [templates.from_string(text).render(n=number) for number in (1, 1234)]

    assert shown == ["In &lt;q&gt; be 1 letter", "In &lt;q&gt; 1.234 letters"]


@pytest.mark.parametrize(
    ("accepted", "code"),
    [
        (None, "en"),
        ("", "en"),
        ("xx", "en"),
        ("pi", "pi"),
        ("PI-xx,en;q=0.5", "pi"),
        ("en,pi;q=0.9", "en"),
        ("pi;q=0.1, en-US;q=0.9", "en"),
        ("pi;q=0, xx", "en"),
        ("fr, pt-br;q=0.5", "pt-BR"),
        ("pi;q=x, pt-BR", "pt-BR"),
        ("," * 100_000 + "pi", "en"),
    ],
)
def test_a_browser_says_which_language_it_wants(folder, accepted, code):
    assert Languages(folder=folder).wanted(accepted).code == code


def test_a_chosen_language_is_that_of_all(folder):
    by_code = Languages("pi", folder)
    by_file = Languages(str(folder / "pt-BR.po"), folder / "nowhere")

    assert by_code.wanted("en").code == by_code.named("en").code == "pi"
    assert by_file.wanted("pi").code == "pt-BR"
    assert Languages("en", folder).wanted("pi").code == "en"


@pytest.mark.parametrize(
    ("chosen", "said"),
    [("xx", "there are bad, en, pi, pt-BR"), ("no.po", "no.po"), ("bad.po", "bad.po")],
)
def test_a_language_that_cannot_be_read_is_refused_at_the_start(folder, chosen, said):
    (folder / "bad.po").write_text("not a translation")
    file = folder / chosen

    with pytest.raises(LanguageError, match=said):
        Languages(str(file) if chosen.endswith(".po") else chosen, folder)


@pytest.mark.parametrize("wrong", ["", "../de", "de.txt"])
def test_the_setting_takes_a_code_or_a_file(wrong):
    for right in ("de", "pt-BR", "my/de.po"):
        assert parse_config(f'[console]\nlanguage = "{right}"').console.language == right
    with pytest.raises(InvalidConfigError, match="must be a code such as de"):
        parse_config(f'[console]\nlanguage = "{wrong}"')


def test_pages_come_in_the_language_of_each_browser(make_client, shop_root, folder):
    client = make_client(shop_root, languages=Languages(folder=folder))
    english = client.get("/health")
    other = client.get("/health", headers={"accept-language": "pi"})

    assert '<html lang="en">' in english.text
    assert '<html lang="pi">' in other.text


def test_the_process_of_a_query_knows_the_language(make_client, shop_root, folder):
    client = make_client(shop_root, languages=Languages(str(folder / "pi.po")))
    page = client.get("/sql?sql=SELECT+1").text

    assert '<html lang="pi">' in page


def test_what_a_page_says_is_no_value_of_a_table():
    with pytest.raises(TypeError):  # a table's text would lose its template: nothing writes one
        msgspec.json.encode(say("x"))
