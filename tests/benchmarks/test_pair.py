import json
import sys

import pair
import pytest

HEADER = {"date": "2026-12-01", "gpu": "NVIDIA H200", "kvasir_commit": "abc", "batched": 8192}


def kvasir(rate, workload="256:512:256", seconds=5.0, **more):
    return {
        "engine": "kvasir", "model": "m", "workload": workload, "seconds": seconds,
        "output_tokens_per_s": rate, "start_s": 20.0, "complete": True,
    } | more  # fmt: skip


def peer(engine, rate, sizes=(256, 512, 256), seconds=5.0, **more):
    return {
        "engine": engine, "model": "m", "num_prompts": sizes[0], "input_len": sizes[1],
        "output_len": sizes[2], "output_tok_s": rate, "elapsed_s": seconds, "load_s": 60.0,
        "complete": True,
    } | more  # fmt: skip


def serving(engine, **metrics):
    sizes = {"model": "m", "rate": 16.0, "input_len": 512, "output_len": 256}
    return {"engine": engine, **sizes, **metrics}


def rows(*lines, **header):
    """Pair lines, or (header's changes, line) where a line has settings of its own."""
    found = []
    for line in lines:
        changes, line = line if isinstance(line, tuple) else ({}, line)
        found += pair.figures(HEADER | header | changes, line)
    return pair.pair(found)


def test_a_row_has_each_engines_median_and_the_ratio_to_the_better_peer():
    alternating = [
        line
        for ours, vllm, sglang in ((100, 80, 90), (120, 70, 95), (110, 99, 50))
        for line in (kvasir(ours), peer("vllm", vllm), peer("sglang", sglang))
    ]
    assert rows(*alternating) == [
        {
            "date": "2026-12-01", "gpu": "NVIDIA H200", "model": "m", "workload": "256:512:256",
            "kvasir": 110, "vllm": 80, "sglang": 90, "ratio": round(110 / 90, 3),
            "unit": "output tokens/s", "kvasir_commit": "abc", "start_s": 20.0,
        }
    ]  # fmt: skip


def test_a_peer_counts_with_its_best_settings_never_with_a_lucky_run():
    large = {"batched": 16384}
    (row,) = rows(
        kvasir(100), peer("vllm", 80), peer("vllm", 82), peer("vllm", 84),
        (large, peer("vllm", 60)), (large, peer("vllm", 81)), (large, peer("vllm", 999)),
    )  # fmt: skip
    assert row["vllm"] == 82
    (row,) = rows(kvasir(100), peer("vllm", 80), (large, peer("vllm", 90)))
    assert row["vllm"] == 90


def test_kvasir_may_not_pick_its_settings_row_by_row():
    with pytest.raises(ValueError, match="16384, 8192"):
        rows(kvasir(100), ({"batched": 16384}, kvasir(120)), peer("vllm", 80))


def test_a_peer_that_was_not_run_is_null():
    (row,) = rows(kvasir(100), peer("vllm", 80))
    assert (row["vllm"], row["sglang"], row["ratio"]) == (80, None, 1.25)
    (row,) = rows(kvasir(100))
    assert (row["vllm"], row["sglang"], row["ratio"]) == (None, None, None)


def test_without_kvasir_there_is_no_row():
    assert rows(peer("vllm", 80), peer("sglang", 90)) == []


def test_a_long_prompt_with_a_short_answer_is_compared_in_seconds():
    sizes = (1, 32000, 16)
    (row,) = rows(
        kvasir(14, "1:32000:16", 1.0), peer("vllm", 13, sizes, 1.1), peer("sglang", 13, sizes, 1.2)
    )
    assert (row["kvasir"], row["vllm"], row["sglang"]) == (1.0, 1.1, 1.2)
    assert (row["ratio"], row["unit"]) == (1.1, "s")


@pytest.mark.parametrize(("workload", "unit"), [("1:512:17", "output tokens/s"), ("1:9:16", "s")])
def test_the_unit_depends_on_the_answers_length(workload, unit):
    assert rows(kvasir(14, workload))[0]["unit"] == unit


def test_serving_gives_a_row_for_each_latency_that_was_measured():
    found = rows(
        serving("kvasir", ttft_p99=0.05, tpot_p50=0.004, ttft_mean=0.1, complete=True),
        serving("vllm", ttft_p99=0.1, tpot_p50=0.003, e2e_p50=1.0),
    )
    by_name = {row["workload"]: row for row in found}
    assert set(by_name) == {"poisson-16:512:256:ttft_p99", "poisson-16:512:256:tpot_p50"}
    assert by_name["poisson-16:512:256:ttft_p99"]["ratio"] == 2.0
    assert by_name["poisson-16:512:256:tpot_p50"]["ratio"] == 0.75
    assert {row["unit"] for row in found} == {"s"}


def test_runs_that_were_not_complete_do_not_count():
    (row,) = rows(kvasir(100), kvasir(900, complete=False), peer("vllm", 80, complete=False))
    assert (row["kvasir"], row["vllm"]) == (100, None)


def test_commits_cards_and_models_are_never_mixed():
    found = rows(
        kvasir(100), peer("vllm", 80), ({"kvasir_commit": "def"}, kvasir(50)),
        ({"gpu": "2x NVIDIA H200"}, kvasir(70)), kvasir(60, model="n"),
    )  # fmt: skip
    assert sorted((row["kvasir"], row["vllm"]) for row in found) == [
        (50, None), (60, None), (70, None), (100, 80),
    ]  # fmt: skip


def test_several_files_make_one_comparison_that_is_appended(tmp_path, monkeypatch, capsys):
    ours, theirs, results = (tmp_path / name for name in ("ours", "theirs", "results"))
    ours.write_text("".join(json.dumps(line) + "\n" for line in (HEADER, kvasir(100))))
    broken = peer("vllm", 1, complete=False)
    lines = (HEADER, peer("vllm", 80), HEADER | {"batched": 1024}, peer("vllm", 85), broken)
    theirs.write_text("".join(json.dumps(line) + "\n" for line in lines))
    results.write_text('{"kept": true}\n')
    monkeypatch.setattr(
        sys, "argv", ["pair.py", str(ours), str(theirs), "--results", str(results)]
    )  # fmt: skip
    pair.main()
    kept, row = (json.loads(line) for line in results.read_text().splitlines())
    assert kept == {"kept": True}
    assert (row["kvasir"], row["vllm"]) == (100, 85)
    assert "not complete" in capsys.readouterr().err


def test_a_line_without_a_header_is_refused():
    with pytest.raises(ValueError, match="line 1"):
        list(pair.read_raw([json.dumps(kvasir(100))]))
