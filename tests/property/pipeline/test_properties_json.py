"""Properties that are encoded by column have the JSON that msgspec gives for each message."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from streaming.pipeline.rows.amqp_columns import properties_array, properties_json
from streaming.protocol.amqp_properties import PROPERTIES, WHOLE_PROPERTIES, Properties

texts = st.text(max_size=4) | st.sampled_from(['"', "\\", "\n", "\x1f", "\x7f", "é\u2028", ""])
known = st.fixed_dictionaries(
    {},
    optional={
        name: st.integers(*WHOLE_PROPERTIES[name]) if name in WHOLE_PROPERTIES else texts
        for name in PROPERTIES
    },
)
alike = st.sets(st.sampled_from(PROPERTIES), min_size=1).flatmap(
    lambda names: st.lists(
        st.fixed_dictionaries(
            {
                name: st.integers(*WHOLE_PROPERTIES[name]) if name in WHOLE_PROPERTIES else texts
                for name in sorted(names)
            }
        ),
        min_size=1,
        max_size=4,
    )
)


@given(st.lists(known, min_size=1, max_size=5) | alike, st.integers(0, 2))
def test_both_ways_of_encoding_properties_agree(rows, skipped):
    columns = {name: [row.get(name) for row in rows] for name in PROPERTIES}
    column = properties_array(columns, len(rows))
    expected = [msgspec.json.encode(Properties(**row)) if row else None for row in rows]

    found = properties_json(column.slice(skipped)).to_pylist()

    assert found == expected[skipped:]
