"""The map from codes to numbers, for columns of codes."""

import numpy as np

from streaming.pipeline.intake.publications import CodeMap


def test_codes_without_a_number_are_listed_once_in_order():
    numbers = CodeMap()
    numbers.add([2], [7])

    assert numbers.missing(np.array([5, 2, 1, 5, 1])) == [1, 5]


def test_the_map_grows_and_keeps_its_numbers():
    numbers = CodeMap()
    numbers.add([0, 100_000], [3, 4])
    assert numbers.missing(np.array([0, 250_000, 100_000])) == [250_000]
    numbers.add([250_000], [0])

    assert numbers.of(np.array([250_000, 0, 100_000, 0])).tolist() == [0, 3, 4, 3]
