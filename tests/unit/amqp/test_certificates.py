import pytest

from streaming.amqp.certificates import user_in


def subject(*parts):
    return {"subject": tuple(tuple(part) for part in parts)}


@pytest.mark.parametrize(
    ("certificate", "name"),
    [
        (subject([("countryName", "DE")], [("commonName", "ann")]), "CN=ann,C=DE"),
        (subject([("commonName", "ann"), ("userId", "7")]), "CN=ann+UID=7"),
        (subject([("commonName", ' a,b;"c"<d>+e\\ ')]), 'CN=\\ a\\,b\\;\\"c\\"\\<d\\>\\+e\\\\\\ '),
        (subject([("commonName", "#1#2")]), "CN=\\#1#2"),
        (subject([("commonName", "Jörg")]), "CN=J\\C3\\B6rg"),
        (subject([("businessCategory", "x")]), "businessCategory=x"),
        (subject(), None),
        (None, None),
        ({}, None),
    ],
)
def test_a_distinguished_name_is_written_as_rabbitmq_writes_it(certificate, name):
    assert user_in(certificate, "distinguished_name") == name


def test_several_common_names_are_one_name():
    certificate = subject([("commonName", "a")], [("organizationName", "o"), ("commonName", "b")])

    assert user_in(certificate, "common_name") == "a,b"
    assert user_in(subject([("organizationName", "o")]), "common_name") is None


def test_the_first_name_of_dns_is_the_alternative_one():
    names = (("IP Address", "127.0.0.1"), ("DNS", "a.example"), ("DNS", "b.example"))

    assert user_in({"subjectAltName": names}, "subject_alternative_name") == "a.example"
    assert user_in({"subjectAltName": names[:1]}, "subject_alternative_name") is None
