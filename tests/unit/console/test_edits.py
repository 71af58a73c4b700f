"""An editor changes letters in the plan of a redrive, and others cannot."""

import re

import pytest

from streaming.console.forms.edits import content_form
from streaming.console.logins import Credentials, Guard, hash_password
from streaming.protocol.letter_content import LetterContent
from streaming.protocol.sealed_plan import read_plan
from tests.unit.console.conftest import HOST

ORIGIN = {"origin": f"http://{HOST}"}


@pytest.fixture
def ask(make_client, shop_root, tmp_path, monkeypatch):
    """Asks as an editor or an operator, who both administer."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    password = hash_password("secret")
    file = tmp_path / "users.toml"
    file.write_text(
        "".join(
            f'[users.{name}]\npassword = "{password}"\nrole = "{name}"\nadministrator = true\n'
            for name in ("operator", "editor")
        )
    )
    client = make_client(shop_root, Guard(frozenset({HOST}), credentials=Credentials(file)))

    def request(user, address, form=None):
        method = "GET" if form is None else "POST"
        auth = (user, "secret")
        return client.request(method, address, auth=auth, headers=ORIGIN, data=form)

    return request


def plans(tmp_path):
    return [read_plan(one.read_bytes(), one.name) for one in tmp_path.rglob("r-*.json")]


ONE = {"content": "yes", "properties": '{"priority": 5}', "headers": '{"tenant": "b"}'}


def test_the_only_letter_is_edited_and_the_sealed_plan_shows_what_differs(ask, tmp_path):
    form = ask("editor", "/redrive/plan?queue=mail").text
    assert re.search(r'<textarea name="properties"[^>]*>\n{', form)

    shown = ask("editor", "/redrive/seal?queue=mail", ONE)

    [plan] = plans(tmp_path)
    [content] = plan.edited.values()
    assert (content.properties, content.headers) == ({"priority": 5}, {"tenant": "b"})
    assert content.body == "order 2 \x07é\nline".encode()  # a text field would change it
    assert "1 letter is edited" in shown.text
    assert "+header tenant: &#34;b&#34;" in shown.text


def test_many_letters_are_edited_by_what_they_share(ask, tmp_path):
    many = {"set_headers": '{"tried": true}', "without_properties": "message_id"}

    ask("editor", "/redrive/seal", {**many, "body_sql": "upper(decode(body))"})

    [plan] = plans(tmp_path)
    [content] = plan.edited.values()
    assert content.headers["tried"] is True
    assert "message_id" not in content.properties
    assert content.body.startswith(b"ORDER 2")


@pytest.mark.parametrize(
    ("user", "form", "status"),
    [
        ("operator", ONE, 403),
        ("operator", {"set_headers": "{}"}, 403),
        ("editor", {**ONE, "headers": "[]"}, 400),
        ("editor", {"set_headers": "tenant=b"}, 400),
        ("editor", {"set_headers": '{"x-death": 1}'}, 400),
        ("editor", {"body_sql": "(SELECT content FROM read_text('/etc/passwd'))"}, 400),
        ("editor", {"body_sql": "getenv('HOME')"}, 400),
    ],
)
def test_an_edit_that_is_not_allowed_or_cannot_be_read_makes_no_plan(
    ask, tmp_path, user, form, status
):
    assert ask(user, "/redrive/seal?queue=mail", form).status_code == status
    assert plans(tmp_path) == []


def test_an_operator_sees_no_form_for_edits(ask):
    assert 'id="edit"' not in ask("operator", "/redrive/plan?queue=mail").text
    assert 'id="edit"' in ask("editor", "/redrive/plan?queue=mail").text


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"a\nb\n", "a\nb\n"),
        ("é\t<b>".encode(), "é\t<b>"),
        (b"a\r\nb", None),
        (b"\xff", None),
        (b"\x07", None),
        ("\u202e".encode(), None),
        (b"x" * 200_000, None),
    ],
)
def test_a_body_is_in_the_form_only_if_it_comes_back_as_it_was(body, shown):
    assert content_form(LetterContent(body, {}, None)).body == shown
