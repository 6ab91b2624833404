import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_cluster import processes
from local_cluster.layout import Layout
from local_cluster.processes import Daemons, all_pids, end, wait_gone
from local_cluster.shell import wait_until

STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True)\n"
PARENT = "import subprocess; subprocess.Popen(['sleep', '300']); print('up', flush=True)\n"


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Daemons]:
    layout = Layout.of(tmp_path / "state")
    layout.claim()
    started = Daemons(layout)
    yield started
    left = started.marked()
    end(left, signal.SIGKILL)
    assert wait_gone(left, 5)


def start_python(daemons: Daemons, name: str, program: str) -> int:
    pid = daemons.start(name, [sys.executable, "-c", program], dict(os.environ))
    log = daemons.layout.logs / f"{name}.log"
    wait_until("its first line", lambda: log.read_text().startswith("up"), timeout_s=20)
    return pid


def test_a_started_daemon_is_found_by_its_name(daemons: Daemons) -> None:
    pid = daemons.start("one", ["sleep", "300"], dict(os.environ))
    assert daemons.pid("one") == pid


def test_output_goes_to_the_daemons_log(daemons: Daemons) -> None:
    daemons.start("talker", ["sh", "-c", "echo out; echo err >&2"], dict(os.environ))
    log = daemons.layout.logs / "talker.log"
    wait_until("both lines", lambda: log.read_text() == "out\nerr\n", timeout_s=5)


def test_a_strangers_number_in_the_file_is_nobody(daemons: Daemons) -> None:
    (daemons.layout.pids / "one.pid").write_text(f"{os.getpid()}\n")
    assert daemons.pid("one") is None


def test_a_daemon_that_is_still_becoming_its_program_is_waited_for(
    daemons: Daemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = daemons.start("one", ["sleep", "300"], dict(os.environ))
    read, ready = processes.environment_of, time.monotonic() + 0.4
    monkeypatch.setattr(
        processes, "environment_of", lambda pid: read(pid) if time.monotonic() > ready else []
    )
    assert daemons.pid("one") == pid


def test_stop_ends_a_daemon(daemons: Daemons) -> None:
    pid = daemons.start("one", ["sleep", "300"], dict(os.environ))
    daemons.stop(["one"])
    assert pid not in all_pids()
    assert daemons.pid("one") is None


def test_a_daemon_deaf_to_sigterm_is_killed(daemons: Daemons) -> None:
    pid = start_python(daemons, "deaf", STUBBORN + "time.sleep(300)")
    daemons.stop(["deaf"], patience_s=0.3)
    assert pid not in all_pids()


def test_a_child_is_found_after_its_parent_has_died(daemons: Daemons) -> None:
    pid = start_python(daemons, "parent", PARENT + "import time; time.sleep(300)")
    end([pid], signal.SIGKILL)
    assert wait_gone([pid], 5)
    assert len(daemons.marked()) == 1


def test_another_clusters_processes_are_not_ours(daemons: Daemons, tmp_path: Path) -> None:
    other = Layout.of(tmp_path / "other")
    other.claim()
    daemons.start("one", ["sleep", "300"], dict(os.environ))
    assert Daemons(other).marked() == []


def test_a_zombie_counts_as_gone() -> None:
    with subprocess.Popen(["true"]) as child:
        assert wait_gone([child.pid], 5)
