"""vm_memory_high_watermark in the forms of RabbitMQ's configuration."""

import pytest

from streaming.config import (
    Absolute,
    FlowSettings,
    InvalidConfigError,
    Relative,
    parse_config,
)
from streaming.config.flow import parse_size, write_size

NO_FORM = ': expected a fraction (0.4), a size ("2GB") or {absolute = "2GB"}'
NO_SIZE = ': is not a valid size: write a number and a unit, such as "2GB" or "512MiB"'
NO_FRACTION = ': must be a fraction of memory, 0 or more; for a number of bytes write "2GB"'
TOO_LARGE = ": must be from 0 to 1_152_921_504_606_846_976 bytes"


def watermark(written: str) -> Relative | Absolute:
    return parse_config(f"flow.vm_memory_high_watermark = {written}").flow.vm_memory_high_watermark


def problem_of(written: str) -> str:
    with pytest.raises(InvalidConfigError) as caught:
        watermark(written)
    return str(caught.value).removeprefix("flow.vm_memory_high_watermark")


@pytest.mark.parametrize(
    ("written", "mark"),
    [
        ("0.4", Relative(0.4)),
        ("0", Relative(0.0)),
        ("3", Relative(3.0)),
        ("{ relative = 0.6 }", Relative(0.6)),
        ('"2GB"', Absolute(2_000_000_000)),
        ('"2GiB"', Absolute(2_147_483_648)),
        ('"67108864"', Absolute(67_108_864)),
        ('{ absolute = "64MB" }', Absolute(64_000_000)),
        ("{ absolute = 67108864 }", Absolute(67_108_864)),
        ('{ absolute = "0" }', Absolute(0)),
    ],
)
def test_a_mark_is_a_fraction_or_a_size(written, mark):
    assert watermark(written) == mark


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("true", f"{NO_FORM}, got a boolean"),
        ("[]", f"{NO_FORM}, got an array"),
        ("{}", NO_FORM),
        ("{ relative = true }", NO_FORM),
        ('{ relative = "0.4" }', NO_FORM),
        ('{ relative = 0.4, absolute = "2GB" }', NO_FORM),
        ('{ absolut = "2GB" }', ".absolut: unknown key (did you mean 'absolute'?)"),
        ("{ absolute = true }", f".absolute{NO_SIZE}"),
        ("{ absolute = 0.4 }", f".absolute{NO_SIZE}"),
        ('"0.4"', NO_SIZE),
        ('"2 GB"', NO_SIZE),
        ('"-2GB"', NO_SIZE),
        ("-0.1", NO_FRACTION),
        ("2_000_000_000", NO_FRACTION),
        ("nan", NO_FRACTION),
        ("inf", NO_FRACTION),
        (f"1{'0' * 400}", NO_FRACTION),
        ("{ absolute = -1 }", TOO_LARGE),
        ('"9999PB"', TOO_LARGE),
    ],
)
def test_an_invalid_mark_is_refused(written, problem):
    assert problem_of(written) == problem


def test_a_mark_made_by_code_is_checked():
    with pytest.raises(InvalidConfigError) as caught:
        FlowSettings(vm_memory_high_watermark=Absolute(-1))

    assert str(caught.value) == (
        "vm_memory_high_watermark: must be from 0 to 1_152_921_504_606_846_976 bytes"
    )


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("1000", 1_000),
        ("10kB", 10_000),
        ("10KB", 10_000),
        ("10Mb", 10_000_000),
        ("10GB", 10_000_000_000),
        ("1TB", 1_000_000_000_000),
        ("1PB", 1_000_000_000_000_000),
        ("10k", 10_240),
        ("10K", 10_240),
        ("10kiB", 10_240),
        ("4Gi", 4_294_967_296),
        ("1Ti", 1_099_511_627_776),
        ("10MiB", 10_485_760),
        ("10m", 10_485_760),
        ("10G", 10_737_418_240),
        ("0MB", 0),
        ("10 k", None),
        ("10KBB", None),
        ("MB", None),
        ("", None),
        ("1.5GB", None),
        ("10B", None),
        ("\uff11GB", None),
    ],
)
def test_sizes_are_read_as_rabbitmq_reads_them(text, size_bytes):
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (2_000_000_000, "2GB"),
        (64_000_000, "64MB"),
        (67_108_864, "64MiB"),
        (2_147_483_648, "2GiB"),
        (1_000, "1000"),
        (0, "0"),
    ],
)
def test_sizes_are_written_in_the_largest_unit_that_is_exact(size_bytes, text):
    assert write_size(size_bytes) == text
