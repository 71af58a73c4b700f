import base64
import hashlib

import pytest

from streaming.amqp.errors import AmqpError
from streaming.amqp.login import Client, User, Users, mechanisms, new_password_hash
from streaming.amqp.memory import users_in
from streaming.amqp.tables import write_table

LOCAL, REMOTE = Client(is_loopback=True), Client(is_loopback=False)


def test_guest_may_log_in_from_this_host_only():
    users = Users.default()

    assert users.login("PLAIN", b"\0guest\0guest", LOCAL).name == "guest"
    with pytest.raises(AmqpError, match="Login was refused using authentication mechanism PLAIN"):
        users.login("PLAIN", b"\0guest\0guest", REMOTE)


def test_the_hash_of_guest_is_the_same_at_each_start():
    first, second = (Users.default().by_name["guest"] for _ in range(2))

    assert first == second
    assert first.has_password(b"guest")
    assert not first.has_password(b"gues")


def test_amqplain_is_a_table_without_its_size():
    users = Users([User("ann", new_password_hash("secret"))])
    response = write_table({"LOGIN": "ann", "PASSWORD": "secret"})[4:]

    assert users.login("AMQPLAIN", response, REMOTE).name == "ann"


@pytest.mark.parametrize("secret", [b"secret", b"\xff\xfe"])
def test_amqplain_takes_bytes_as_it_takes_text(secret):
    salt = b"\1\2\3\4"
    hashed = base64.b64encode(salt + hashlib.sha256(salt + secret).digest()).decode()
    response = write_table({"LOGIN": b"ann", "PASSWORD": secret})[4:]

    assert Users([User("ann", hashed)]).login("AMQPLAIN", response, REMOTE).name == "ann"


@pytest.mark.parametrize("password", [1, True, None, {}, [], "", "wrong", b"\xff"])
def test_amqplain_with_a_password_of_another_type_is_refused(password):
    users = Users([User("ann", new_password_hash("secret"))])
    response = write_table({"LOGIN": "ann", "PASSWORD": password})[4:]

    with pytest.raises(AmqpError, match="403 ACCESS_REFUSED - Login was refused"):
        users.login("AMQPLAIN", response, LOCAL)


def test_nobody_in_particular_is_guest_while_its_password_is_guest():
    users = Users.default()

    assert users.login("ANONYMOUS", b"whoever", LOCAL).name == "guest"
    for others, client in (
        (users, REMOTE),
        (Users([User("guest", new_password_hash("changed"))]), LOCAL),
        (Users([User("ann", new_password_hash("guest"))]), LOCAL),
    ):
        with pytest.raises(AmqpError, match="using authentication mechanism ANONYMOUS"):
            others.login("ANONYMOUS", b"", client)


def test_a_certificate_names_its_user():
    users = Users([User("ann")])

    client = Client(is_loopback=False, certificate_name="ann")

    assert users.login("EXTERNAL", b"", client).name == "ann"


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("PLAIN", b"\0ann\0wrong"),
        ("PLAIN", b"\0nobody\0secret"),
        ("EXTERNAL", b""),
    ],
)
def test_others_are_refused_without_saying_why(mechanism, response):
    users = Users([User("ann", new_password_hash("secret"))])

    with pytest.raises(AmqpError, match="403 ACCESS_REFUSED - Login was refused"):
        users.login(mechanism, response, LOCAL)


@pytest.mark.parametrize(
    ("response", "name", "why"),
    [
        (b"\0ann\0wrong", "ann", "the password is wrong"),
        (b"\0ann\0", "ann", "an empty password is never accepted"),
        (b"\0bob\nroot\0secret", "bob\nroot", "there is no such user"),
        (b"\0guest\0guest", "guest", "it may connect from this machine only (--remote-guest)"),
        (b"\0" + b"x" * 9000 + b"\0secret", "x" * 100, "there is no such user"),
    ],
)
def test_the_log_says_why_a_login_was_refused(response, name, why, caplog):
    ann = User("ann", new_password_hash("secret"))
    guest = User("guest", new_password_hash("guest"), loopback_only=True)
    remote = Client(is_loopback=False, address="192.0.2.7:4711")

    with pytest.raises(AmqpError):
        Users([ann, guest]).login("PLAIN", response, remote)

    said = f"192.0.2.7:4711: login with PLAIN refused: user {name!r}: {why}"
    assert caplog.messages == [said]


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("PLAIN", b"ann"),
        ("PLAIN", b"\0ann\0sec\0ret"),
        ("PLAIN", b"ann\0ann\0secret"),
        ("AMQPLAIN", b""),
        ("AMQPLAIN", b"ann"),
        ("AMQPLAIN", write_table({"LOGIN": 1, "PASSWORD": "secret"})[4:]),
        ("AMQPLAIN", write_table({"LOGIN": "ann"})[4:]),
    ],
)
def test_a_response_that_cannot_be_read_is_no_login(mechanism, response):
    users = Users([User("ann", new_password_hash("secret"))])

    with pytest.raises(AmqpError, match="502 SYNTAX_ERROR"):
        users.login(mechanism, response, LOCAL)


@pytest.mark.parametrize("algorithm", ["md5", "sha256", "sha512"])
def test_hashes_of_an_export_are_understood(algorithm):
    salt = b"\1\2\3\4"
    hashed = base64.b64encode(salt + hashlib.new(algorithm, salt + b"secret").digest()).decode()
    user = User("ann", hashed, f"rabbit_password_hashing_{algorithm}")

    assert user.has_password(b"secret")
    assert not user.has_password(b"Secret")


@pytest.mark.parametrize(
    ("version", "algorithm"),
    [
        ("3.0.4", "md5"),
        ("3.5.8", "md5"),
        ("3.6.0", "sha256"),
        ("3.10.8", "sha256"),
        (None, "sha256"),
    ],
)
def test_a_hash_in_an_export_that_names_no_algorithm_is_that_of_its_version(version, algorithm):
    salt = b"\1\2\3\4"
    hashed = base64.b64encode(salt + hashlib.new(algorithm, salt + b"secret").digest()).decode()
    document = {"rabbit_version": version, "users": [{"name": "ann", "password_hash": hashed}]}

    [ann] = users_in(document)

    assert ann.has_password(b"secret")


def test_a_user_without_a_usable_hash_has_no_password():
    assert not User("ann", new_password_hash("")).has_password(b"")
    assert not User("ann", "").has_password(b"")
    assert not User("ann", "!").has_password(b"")
    assert not User("ann", "AAAA", "unknown").has_password(b"")


@pytest.mark.parametrize("remote_guest", [False, True])
def test_a_guest_of_a_file_may_log_in_from_this_host_only_unless_told_otherwise(remote_guest):
    hashes = {name: new_password_hash(name) for name in ("guest", "ann")}
    document = {"users": [{"name": name, "password_hash": hashes[name]} for name in hashes]}
    users = Users(users_in(document, remote_guest=remote_guest))

    assert users.login("PLAIN", b"\0guest\0guest", LOCAL).name == "guest"
    assert users.login("PLAIN", b"\0ann\0ann", REMOTE).name == "ann"
    if remote_guest:
        assert users.login("PLAIN", b"\0guest\0guest", REMOTE).name == "guest"
    else:
        with pytest.raises(AmqpError, match="Login was refused"):
            users.login("PLAIN", b"\0guest\0guest", REMOTE)


def test_a_file_may_have_a_password_itself_and_tags_as_text():
    [ann] = users_in({"users": [{"name": "ann", "password": "secret", "tags": "a, b,"}]})

    assert ann.has_password(b"secret")
    assert ann.tags == ("a", "b")
    assert users_in({"users": [{"name": "ann", "tags": ""}]}) == [User("ann")]


def test_external_is_offered_to_who_has_a_certificate_with_a_name():
    assert mechanisms(LOCAL) == b"PLAIN AMQPLAIN ANONYMOUS"
    named = LOCAL._replace(certificate_name="ann")
    assert mechanisms(named) == b"PLAIN AMQPLAIN ANONYMOUS EXTERNAL"
