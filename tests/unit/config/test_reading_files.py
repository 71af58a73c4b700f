"""Files that cannot be read as a configuration, and what is never repeated of them."""

from pathlib import Path

import pytest

from streaming.config import (
    InvalidConfigError,
    load_config,
    parse_config,
    read_config,
)


def problems_of(text: str) -> list[str]:
    with pytest.raises(InvalidConfigError) as caught:
        parse_config(text)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[job", "is not valid TOML: "),
        ("a = 1\na = 2", "is not valid TOML: "),
        (f"a = {'9' * 5000}", "is not valid TOML: "),
        ("a = " + "[" * 100_000, "is not valid TOML: nested too deeply"),
    ],
)
def test_text_that_is_no_toml_is_refused_by_the_name_of_the_file(text, what):
    (problem,) = problems_of(text)

    assert problem.startswith(f"dlx.toml: {what}")


def test_no_message_repeats_a_value_that_may_be_a_secret():
    text = """
        password = "hunter2"
        [job]
        trigger_ms = "hunter2"
        tables_location = "s3://user:hunter2@bucket/tables"
        [kafka]
        bootstrap_servers = ["user:hunter2@host:1"]
        sasl_password = "hunter2"
        [kafka.security]
        "sasl.password" = "hunter2"
        "group.id" = "hunter2"
        [kafka.jvm_properties]
        "sasl.jaas.config" = "hunter2"
    """

    problems = problems_of(text)

    assert len(problems) == 8
    assert "hunter2" not in "\n".join(problems)


def test_a_byte_order_mark_is_read_over(tmp_path: Path):
    (tmp_path / "dlx.toml").write_bytes(b"\xef\xbb\xbf[job]\ntrigger_ms = 7\n")

    assert read_config(tmp_path / "dlx.toml").job.trigger_ms == 7


def test_a_missing_file_is_named(tmp_path: Path):
    path = tmp_path / "dlx.toml"

    with pytest.raises(InvalidConfigError) as caught:
        load_config(path)

    assert str(caught.value) == f"{path}: no such file; `dlx config show` prints one to start from"


def test_a_folder_in_the_place_of_the_file_is_named(tmp_path: Path):
    with pytest.raises(InvalidConfigError) as caught:
        load_config(tmp_path)

    assert str(caught.value) == f"{tmp_path}: cannot be read: Is a directory"


def test_a_file_in_another_encoding_is_named(tmp_path: Path):
    path = tmp_path / "dlx.toml"
    path.write_bytes(b"# caf\xe9")

    with pytest.raises(InvalidConfigError) as caught:
        load_config(path)

    assert str(caught.value) == f"{path}: is not UTF-8 text"
