"""Memory and the marks of flow control, with the figures and messages of RabbitMQ's guide.

The guide is `Memory-based flow control` in reference document 001: each worked figure there is a
test here.
"""

import logging
import os

import pytest

from streaming.config import Absolute, FlowSettings, Relative, parse_config
from streaming.machine_memory import (
    Machine,
    Memory,
    detect_memory,
    process_tree_bytes,
    this_machine,
)
from streaming.pipeline.flow.memory import MemoryMarks, Note, memory_marks

MEGABYTE = 1024 * 1024
GIGABYTE = 1024 * MEGABYTE
HEAP = "2g"

OFF = Note(logging.INFO, "Memory-based flow control is off: vm_memory_high_watermark is 0.")


def a_machine(
    installed_bytes: int | None = 16 * GIGABYTE,
    *,
    address_limit_bytes: int | None = None,
    files: dict[str, str] | None = None,
    system: str = "linux",
    pointer_bits: int = 64,
) -> Machine:
    return Machine(
        system=system,
        pointer_bits=pointer_bits,
        installed_bytes=lambda: installed_bytes,
        address_limit_bytes=lambda: address_limit_bytes,
        read_text=(files or {}).get,
    )


def unknown_machine() -> Machine:
    return a_machine(None, system="magic_homebrew_os")


def marks(mark: Relative | Absolute, machine: Machine) -> MemoryMarks:
    return memory_marks(FlowSettings(vm_memory_high_watermark=mark), HEAP, machine)


def lines(found: MemoryMarks) -> list[str]:
    return [note.text for note in found.notes]


def test_the_default_is_40_percent_of_installed_memory_and_a_low_mark_of_80_percent_of_that():
    assert memory_marks(FlowSettings(), HEAP, a_machine(5 * GIGABYTE)) == MemoryMarks(
        high_bytes=2 * GIGABYTE,
        low_bytes=1_717_986_918,
        process_high_bytes=int(3.5 * GIGABYTE),
        process_low_bytes=3_006_477_107,
        notes=(
            Note(logging.INFO, "Memory limit set to 2048MB."),
            Note(
                logging.INFO,
                "Publishes are also throttled while the processes of the job use more than 3584MB.",
            ),
        ),
    )


def test_32_bit_means_4_gb():
    assert detect_memory(a_machine(16 * GIGABYTE, pointer_bits=32)).total_bytes == 4 * GIGABYTE


def test_40_percent_of_4_gb_are_1_6_gb():
    assert marks(Relative(0.4), a_machine(4 * GIGABYTE)).high_bytes == int(1.6 * GIGABYTE)


def test_an_unknown_system_is_assumed_to_have_1024_mb_with_a_warning():
    assert marks(Relative(0.4), unknown_machine()) == MemoryMarks(
        high_bytes=429_496_729,
        low_bytes=343_597_383,
        notes=(
            Note(
                logging.WARNING,
                "Unknown total memory size for your OS {unix,magic_homebrew_os}. "
                "Assuming memory size is 1024MB.",
            ),
            Note(logging.INFO, "Memory limit set to 410MB."),
        ),
    )


def test_on_an_unknown_system_3_means_3_gb():
    found = marks(Relative(3.0), unknown_machine())

    assert found.high_bytes == 3 * GIGABYTE
    assert lines(found)[-1] == "Memory limit set to 3072MB."


def test_the_high_mark_is_at_most_all_known_memory():
    assert marks(Relative(3.0), a_machine(8 * GIGABYTE)) == MemoryMarks(
        high_bytes=8 * GIGABYTE,
        low_bytes=6_871_947_673,
        notes=(
            Note(
                logging.WARNING,
                "vm_memory_high_watermark is 3, more than the whole memory: the limit is all of "
                "it, 8192MB.",
            ),
            Note(logging.INFO, "Memory limit set to 8192MB."),
            Note(
                logging.INFO,
                "Publishes are also throttled while the processes of the job use more than 8192MB.",
            ),
        ),
        process_high_bytes=8 * GIGABYTE,
        process_low_bytes=6_871_947_673,
    )


@pytest.mark.parametrize("mark", [Relative(0.0), Absolute(0)])
def test_0_switches_flow_control_off_without_reading_the_memory(mark):
    assert marks(mark, unknown_machine()) == MemoryMarks(None, None, (OFF,))


@pytest.mark.parametrize(
    ("written", "high_bytes", "line"),
    [
        ('"2GB"', 2_000_000_000, "Memory limit set to 2000MB."),
        ('{ absolute = "64MB" }', 64_000_000, "Memory limit set to 64MB."),
        ('{ absolute = "64MiB" }', 67_108_864, "Memory limit set to 64MB."),
        ('{ absolute = "3GiB" }', 3_221_225_472, "Memory limit set to 3072MB."),
        ("{ absolute = 1 }", 1, "Memory limit set to 1MB."),
    ],
)
def test_an_absolute_size_does_not_depend_on_the_machine(written, high_bytes, line):
    flow = parse_config(f"flow.vm_memory_high_watermark = {written}").flow

    found = memory_marks(flow, HEAP, unknown_machine())

    assert found.high_bytes == high_bytes
    assert lines(found) == [line]


def test_the_low_mark_is_a_fraction_of_the_high_mark():
    flow = FlowSettings(vm_memory_high_watermark=Absolute(1_000_000), low_mark_fraction=0.25)

    assert memory_marks(flow, HEAP, a_machine()).low_bytes == 250_000


def test_an_empty_broker_is_below_the_lowest_of_low_marks():
    assert marks(Absolute(1), a_machine()).low_bytes == 1
    assert marks(Relative(1e-12), a_machine(1024)).high_bytes == 1


def test_memory_is_the_least_of_installed_control_group_and_address_limit():
    files = {"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": f"{4 * GIGABYTE}\n"}

    assert detect_memory(a_machine(16 * GIGABYTE)) == Memory(16 * GIGABYTE, known=True)
    assert detect_memory(a_machine(16 * GIGABYTE, files=files)) == Memory(4 * GIGABYTE, known=True)
    assert detect_memory(a_machine(2 * GIGABYTE, files=files)) == Memory(2 * GIGABYTE, known=True)
    assert detect_memory(
        a_machine(16 * GIGABYTE, files=files, address_limit_bytes=GIGABYTE)
    ) == Memory(GIGABYTE, known=True)


def test_a_control_groups_limit_is_enough_to_know():
    files = {"/proc/self/cgroup": "0::/", "/sys/fs/cgroup/memory.max": str(GIGABYTE // 2)}

    assert detect_memory(a_machine(None, files=files)) == Memory(GIGABYTE // 2, known=True)


def test_an_address_limit_alone_does_not_reveal_the_memory():
    assert detect_memory(a_machine(None, address_limit_bytes=64 * GIGABYTE)) == Memory(
        GIGABYTE, known=False
    )
    assert detect_memory(a_machine(None, address_limit_bytes=512 * MEGABYTE)) == Memory(
        512 * MEGABYTE, known=False
    )


@pytest.mark.parametrize(
    "files",
    [
        # version 2: the own group, a group around it, the root as a container sees it
        {"/proc/self/cgroup": "0::/a/b", "/sys/fs/cgroup/a/b/memory.max": str(GIGABYTE)},
        {
            "/proc/self/cgroup": "0::/a/b",
            "/sys/fs/cgroup/a/b/memory.max": str(2 * GIGABYTE),
            "/sys/fs/cgroup/a/memory.max": str(GIGABYTE),
        },
        {"/proc/self/cgroup": "0::/host/path", "/sys/fs/cgroup/memory.max": str(GIGABYTE)},
        {"/proc/self/cgroup": "0::/../../x", "/sys/fs/cgroup/memory.max": str(GIGABYTE)},
        # version 1, alone and beside version 2
        {
            "/proc/self/cgroup": "4:memory:/docker/1",
            "/sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": str(GIGABYTE),
        },
        {
            "/proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/\n0::/\n",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes": str(GIGABYTE),
        },
    ],
)
def test_the_limits_of_both_kinds_of_control_groups_are_found(files):
    assert detect_memory(a_machine(files=files)) == Memory(GIGABYTE, known=True)


@pytest.mark.parametrize(
    "limit", ["max", "9223372036854771712", "18446744073709551615", "0", "", "rubbish", "-1"]
)
def test_a_control_group_without_a_limit_limits_nothing(limit):
    files = {
        "/proc/self/cgroup": "4:memory:/\n0::/\nrubbish\n",
        "/sys/fs/cgroup/memory.max": limit,
        "/sys/fs/cgroup/memory/memory.limit_in_bytes": limit,
    }

    assert detect_memory(a_machine(None, files=files)) == Memory(GIGABYTE, known=False)


def test_the_memory_of_this_machine_is_known():
    machine = this_machine()

    memory = detect_memory(machine)

    assert memory.known
    assert 64 * MEGABYTE < memory.total_bytes < 2**48
    assert machine.pointer_bits == 64
    assert machine.read_text("/no/such/file") is None


def test_an_address_limit_of_this_process_is_found():
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = 2**46
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        assert this_machine().address_limit_bytes() == limit
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert (this_machine().address_limit_bytes() is None) == (soft == resource.RLIM_INFINITY)


def test_a_system_that_reports_no_memory_is_unknown(monkeypatch):
    def sysconf(name: str) -> int:
        raise ValueError(name)

    monkeypatch.setattr("os.sysconf", sysconf)

    assert this_machine().installed_bytes() is None


@pytest.mark.parametrize(("fraction", "is_advised"), [(0.4, True), (0.5, True), (0.51, False)])
def test_a_mark_above_half_of_the_memory_causes_a_hint(fraction, is_advised):
    warnings = [note for note in marks(Relative(fraction), a_machine()).notes if note.level > 20]

    assert len(warnings) == (0 if is_advised else 1)


@pytest.mark.parametrize(
    ("heap", "installed_bytes", "limit_bytes"),
    [
        ("2g", 64 * GIGABYTE, int(0.4 * 64 * GIGABYTE)),  # the fraction
        ("2g", 4 * GIGABYTE, int(3.5 * GIGABYTE)),  # the memory of idle processes
        ("2048m", 4 * GIGABYTE, int(3.5 * GIGABYTE)),
        ("2g", 2 * GIGABYTE, int(1.8 * GIGABYTE)),  # nearly the whole machine
    ],
)
def test_idle_processes_are_below_their_high_mark(heap, installed_bytes, limit_bytes):
    found = memory_marks(FlowSettings(), heap, a_machine(installed_bytes))

    assert found.process_high_bytes == limit_bytes
    assert found.process_low_bytes == int(limit_bytes * 0.8)


@pytest.mark.parametrize("mark", [Absolute(1_000), Relative(0.0)])
def test_only_a_mark_as_a_fraction_limits_the_processes(mark):
    assert marks(mark, a_machine()).process_high_bytes is None
    assert marks(Relative(0.4), unknown_machine()).process_high_bytes is None


def test_the_measured_processes_are_this_one_and_the_tree_of_the_jvm(tmp_path):
    for pid, parent, pages in ((10, 1, 5), (20, 10, 100), (30, 20, 7), (31, 30, 8), (40, 10, 1000)):
        (tmp_path / str(pid)).mkdir()
        fields = ["S", str(parent), *["0"] * 19, str(pages)]
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a (b) c) {' '.join(fields)}")
    (tmp_path / "50").mkdir()  # has just ended
    page = os.sysconf("SC_PAGE_SIZE")

    assert process_tree_bytes(10, 20, tmp_path) == (5 + 100 + 7 + 8) * page
    assert process_tree_bytes(10, None, tmp_path) == 5 * page
    assert process_tree_bytes(10, 99, tmp_path) == 5 * page
    assert process_tree_bytes(10, 20, tmp_path / "nothing") is None


def test_this_process_has_a_size():
    found = process_tree_bytes(os.getpid(), None)

    assert found is not None
    assert 10 * MEGABYTE < found < 64 * GIGABYTE
