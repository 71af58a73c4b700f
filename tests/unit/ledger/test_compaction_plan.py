"""The choice of files to compact: adjacent small ones, and no row too often."""

from hypothesis import given
from hypothesis import strategies as st

from streaming.ledger.upkeep.compaction import SmallFile, plan

files = st.lists(
    st.builds(
        SmallFile,
        st.uuids().map(str),
        st.integers(1, 1000),
        st.integers(1, 10),
        st.tuples(st.integers(0, 50)),
    ),
    max_size=40,
    unique_by=lambda file: file.path,
)


@given(files, st.integers(2, 600), st.integers(2, 12))
def test_a_plan_compacts_adjacent_small_files(some_files, target, least):
    groups = plan(some_files, target, least)

    order = sorted(some_files, key=lambda file: (file.order, file.path))
    unfinished = [file for file in order if file.size <= target // 2]
    for group in groups:
        start = unfinished.index(group[0])
        assert group == unfinished[start : start + len(group)]
        assert len(group) >= 2
        assert sum(file.size for file in group) <= target
    taken = [file.path for group in groups for file in group]
    assert len(taken) == len(set(taken))


def test_large_files_are_not_compacted():
    large = [SmallFile(str(n), 51, 1, (n,)) for n in range(20)]

    assert plan(large, 100, 2) == []


def test_files_above_16_mib_are_not_compacted_whatever_the_target():
    mebibyte = 1 << 20
    sizes = [17] * 10 + [15] * 10
    some = [SmallFile(f"{n:02}", size * mebibyte, 1, (n,)) for n, size in enumerate(sizes)]

    groups = plan(some, 128 * mebibyte, 10)

    assert {file.path for group in groups for file in group} == {f"{n:02}" for n in range(10, 20)}


def test_files_above_a_million_rows_are_not_compacted_however_small_they_are():
    some = [SmallFile(f"{n:02}", 1_000, 600_000 * (1 + n // 10), (n,)) for n in range(20)]

    groups = plan(some, 128 << 20, 10)

    assert {file.path for group in groups for file in group} == {f"{n:02}" for n in range(10)}


def test_a_few_small_files_are_compacted_later():
    small = [SmallFile(str(n), 1, 1, (n,)) for n in range(9)]

    assert (plan(small, 100, 10), len(plan([*small, SmallFile("9", 1, 1, (9,))], 100, 10))) == (
        [],
        1,
    )


def test_small_files_after_a_larger_one_are_compacted():
    old = [SmallFile(f"a{n}", 1, 1, (n,)) for n in range(10)]
    new = [SmallFile(f"c{n}", 1, 1, (100 + n,)) for n in range(10)]

    groups = plan([*old, SmallFile("b", 40, 1, (50,)), *new], 100, 10)

    assert groups == [new, [*old, SmallFile("b", 40, 1, (50,))]]


@given(st.integers(50, 400))
def test_the_rewrites_of_a_row_grow_logarithmically(batches):
    target = 1 << 30
    table: list[SmallFile] = []
    rewritten = 0
    for batch in range(batches):
        table += [SmallFile(f"{batch}-{n}", 1, 1, (batch, n)) for n in range(10)]
        for group in plan(table, target, 10):
            kept = [file for file in table if file not in group]
            size = sum(file.size for file in group)
            rewritten += size
            table = [*kept, SmallFile(f"j{batch}-{group[0].path}", size, size, group[0].order)]

    assert rewritten / (10 * batches) <= 2 + batches.bit_length()
    assert len(table) <= 10 + 10 + batches.bit_length()
