import io
from pathlib import Path

import pytest
from local_cluster.errors import NotReady
from local_cluster.progress import Steps, tail


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_off_a_terminal_there_is_no_colour_and_no_bar() -> None:
    stream = io.StringIO()
    with Steps(stream).step("Build") as step:
        step.note("half")
        step.advance_to(1, 2)
    assert "\x1b" not in stream.getvalue()
    assert [line.split("] ")[1].split(" (")[0] for line in stream.getvalue().splitlines()] == [
        "Build ...",
        "Build: ok",
    ]


def test_a_step_says_its_own_outcome() -> None:
    stream = io.StringIO()
    with Steps(stream).step("Build") as step:
        step.finish_as("cached")
    assert "Build: cached (" in stream.getvalue()


def test_a_failing_step_shows_the_logs_end_and_its_path(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    log.write_text("".join(f"line {number}\n" for number in range(100)))
    stream = io.StringIO()
    with pytest.raises(ValueError, match="no"), Steps(stream).step("Build", log=log):
        raise ValueError("no")
    text = stream.getvalue()
    assert "Build: FAILED" in text
    assert "line 99" in text
    assert "line 50" not in text
    assert f"The log: {log}" in text


def test_the_errors_own_log_wins(tmp_path: Path) -> None:
    general, precise = tmp_path / "general.log", tmp_path / "precise.log"
    general.write_text("general\n")
    precise.write_text("precise\n")
    stream = io.StringIO()
    with pytest.raises(NotReady), Steps(stream).step("Start", log=general):
        raise NotReady("no node", log=precise)
    assert f"The log: {precise}" in stream.getvalue()
    assert str(general) not in stream.getvalue()


def test_a_failing_step_without_a_log_still_says_so(tmp_path: Path) -> None:
    stream = io.StringIO()
    step = Steps(stream).step("Start", log=tmp_path / "never.log")
    with pytest.raises(ValueError, match="no"), step:
        raise ValueError("no")
    assert "Start: FAILED" in stream.getvalue()
    assert "The log" not in stream.getvalue()


def test_on_a_terminal_steps_nest() -> None:
    stream = Terminal()
    steps = Steps(stream)
    with steps.step("Outer"), steps.step("Inner") as inner:
        inner.advance_to(1, 2)
    assert "Outer: ok" in stream.getvalue()
    assert "Inner: ok" in stream.getvalue()


def test_raw_lines_stand_alone() -> None:
    stream = io.StringIO()
    line = "export PATH=" + "/a-long-folder" * 30
    Steps(stream).raw(line)
    assert stream.getvalue() == line + "\n"


def test_tail_of_a_large_file_is_its_end(tmp_path: Path) -> None:
    log = tmp_path / "large.log"
    log.write_text("x" * 100_000 + "\nlast\n")
    assert tail(log, 1) == ["last"]
