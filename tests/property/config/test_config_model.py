"""Any shown configuration is read back unchanged, and no document crashes the reader."""

from collections.abc import Collection, Mapping

import attrs
from hypothesis import given
from hypothesis import strategies as st

from streaming.config import (
    Absolute,
    FlowSettings,
    InputSettings,
    InvalidConfigError,
    JobConfig,
    JobSettings,
    JsonValue,
    KafkaSettings,
    RecordField,
    RecordHeader,
    RecordKey,
    Relative,
    Secret,
    Template,
    TopicMapping,
    UserSettings,
    VhostSettings,
    outcome_hash,
    parse_config,
    show_config,
)
from streaming.config.selectors import Selector, literal_text
from streaming.config.types import settings_of
from streaming.config.validation import config_from
from tests.unit.config.changes import section_class_of
from topology.errors import Problem

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
fallbacks = st.none() | names
plain_texts = names.map(lambda name: name.replace("{", "{{").replace("}", "}}"))
templates = st.lists(
    plain_texts
    | st.sampled_from(["{key}", "{header.type}", "{json.$.a['b c'][0]}", "{record.offset}"]),
    max_size=5,  # more may be longer than a routing key may be
).map("".join)
paths = st.sampled_from(["$", "$.a.b", '$["a b"][0]', "$['}{'][-1]"])
fields = st.sampled_from(["topic", "partition", "offset", "timestamp"])
units = st.sampled_from(["s", "ms"])
places = (
    st.builds(RecordKey, otherwise=fallbacks)
    | st.builds(RecordHeader, names, otherwise=fallbacks)
    | st.builds(JsonValue, paths, otherwise=fallbacks)
    | st.builds(RecordField, fields, otherwise=fallbacks)
    | st.builds(Template, templates, otherwise=fallbacks)
)
selectors = plain_texts | templates | places
lenient = places.map(lambda place: attrs.evolve(place, otherwise=None, optional=True))
times = st.builds(JsonValue, paths, otherwise=st.none() | st.integers(0, 9), unit=units)
vhosts = st.builds(
    VhostSettings,
    definitions=st.none() | names,
    default_delivery_limit=st.none() | st.integers(-1, 1_000_000),
    consumer_timeout_ms=st.integers(0, 315_360_000_000),
)
properties = st.dictionaries(
    names.map("x.{}".format),
    texts.filter(lambda text: text.isascii()) | st.builds(Secret, st.just("file"), names),
    max_size=3,
)
watermarks = st.builds(Relative, st.floats(0, 1024)) | st.builds(Absolute, st.integers(0, 2**60))


@st.composite
def named_vhosts(draw: st.DrawFn, vhosts: Collection[str]) -> Selector:
    """The vhost of a mapping: what is written in it is the name of one."""
    names = st.sampled_from(sorted(vhosts))
    found = draw(st.just("{key}") | places)
    if literal_text(found) is not None:
        return Template(draw(names).replace("{", "{{").replace("}", "}}"))
    if isinstance(found, str):
        return found
    return attrs.evolve(found, otherwise=draw(st.none() | names))


@st.composite
def configs(draw: st.DrawFn) -> JobConfig:
    vhost_settings = draw(st.dictionaries(names, vhosts, min_size=1, max_size=3))
    users = draw(
        st.dictionaries(
            names, st.builds(UserSettings, administrator=st.booleans()), min_size=1, max_size=3
        )
    )
    user_names = st.sampled_from(sorted(users))
    foreign = [
        InputSettings(
            topic=f"foreign-{position}",
            user=draw(user_names),
            mapping=TopicMapping(
                exchange=draw(selectors),
                routing_key=draw(selectors),
                vhost=draw(named_vhosts(vhost_settings)),
                message_id=draw(st.none() | selectors | lenient),
                timestamp=draw(st.none() | st.integers(0, 9) | times),
                headers=draw(st.dictionaries(names, selectors | lenient | st.booleans())),
            ),
        )
        for position in range(draw(st.integers(0, 2)))
    ]
    return JobConfig(
        job=draw(st.builds(JobSettings, log_dir=names, trigger_ms=st.integers(0, 3_600_000))),
        kafka=draw(st.builds(KafkaSettings, client_id=names, librdkafka_properties=properties)),
        vhosts=vhost_settings,
        users=users,
        inputs=(
            InputSettings(topic="publishes", user=draw(user_names)),
            InputSettings(topic="commands", source="commands", user=draw(user_names)),
            *foreign,
        ),
        flow=draw(
            st.builds(
                FlowSettings,
                vm_memory_high_watermark=watermarks,
                low_mark_fraction=st.floats(0, 1, exclude_min=True, exclude_max=True),
            )
        ),
    )


@given(configs())
def test_any_shown_configuration_is_read_back_unchanged(config: JobConfig):
    again = parse_config(show_config(config))

    assert again == config
    assert outcome_hash(again, core_version=1, wire_version=1) == outcome_hash(
        config, core_version=1, wire_version=1
    )


def every_setting() -> list[tuple[str, ...]]:
    """The path of each setting, with `[]` for an array and for a mapping."""
    paths: list[tuple[str, ...]] = []
    for table, setting in settings_of(JobConfig).items():
        paths.append((table,))
        inner: tuple[str, ...] = ()
        if setting.kind.form == "named tables":
            inner = ("name",)
        elif setting.kind.form == "list of tables":
            inner = ("[]",)
        paths += [(table, *inner, name) for name in settings_of(section_class_of(setting.kind))]
    paths += [("inputs", "[]", "mapping", name) for name in settings_of(TopicMapping)]
    return paths


FORMS = ("env", "file", "header", "record_key", "otherwise", "absolute", "relative")
KEYS = sorted({*FORMS, "/", "sasl.password", *(name for path in every_setting() for name in path)})

keys = st.sampled_from(KEYS) | texts
scalars = st.one_of(
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.sampled_from([*KEYS, "2GB", "wall", "4.0", "guest", "{vhost}.{user}"]),
    texts,
    st.dates(),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


def read(document: Mapping[str, object]) -> JobConfig | tuple[Problem, ...]:
    """The configuration, or its problems."""
    try:
        return config_from(document)
    except InvalidConfigError as error:
        return error.problems


def holds(found: JobConfig | tuple[Problem, ...]) -> bool:
    """A configuration is read back unchanged; problems have a text and are reported once."""
    if isinstance(found, JobConfig):
        return parse_config(show_config(found)) == found
    return (
        len(found) > 0 and len(set(found)) == len(found) and all(problem.what for problem in found)
    )


@given(st.dictionaries(keys, st.dictionaries(keys, values, max_size=5) | values, max_size=5))
def test_any_document_is_read_or_refused(document: dict[str, object]):
    assert holds(read(document))


@given(st.sampled_from(every_setting()), values)
def test_any_value_of_any_setting_is_read_or_refused(path: tuple[str, ...], value):
    document = value
    for name in reversed(path):
        document = [document] if name == "[]" else {name: document}

    assert holds(read(document))
