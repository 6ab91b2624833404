import os
import subprocess
import sys
import time
from dataclasses import replace

from kvasir_runtime import LLM
from kvasir_runtime.engine.kernel_watch import KernelWatch
from kvasir_runtime.engine.startup import (
    BEFORE,
    Stage,
    Startup,
    StartupClock,
    process_age_s,
)
from support.device import SMALL


def test_each_stage_has_its_own_time_and_kernels():
    kernels = KernelWatch()
    clock = StartupClock(kernels)
    clock.enter("weights")
    time.sleep(0.05)
    clock.enter("weights")  # its progress, not a new stage
    kernels.counts = replace(kernels.counts, compiled=3, loaded=1)
    clock.enter("warm up")
    kernels.counts = replace(kernels.counts, compiled=5)
    before, weights, warm_up = clock.finish().stages
    assert (before.name, weights.name, warm_up.name) == (BEFORE, "weights", "warm up")
    assert 0.05 <= weights.seconds < 5
    assert (before.compiled, weights.compiled, weights.loaded, warm_up.compiled) == (0, 3, 1, 2)


def test_the_table_ends_with_the_totals():
    startup = Startup((Stage("weights", 1.5, 0, 2), Stage("warm up", 2.25, 11, 1)))
    assert startup.table() == (
        "         seconds  kernels compiled  from cache\n"
        "weights     1.50                 0           2\n"
        "warm up     2.25                11           1\n"
        "total       3.75                11           3"
    )
    assert startup.fields() == {
        "startup_s": 3.75, "stages_s": {"weights": 1.5, "warm up": 2.25},
        "kernels_compiled": 11, "kernels_from_cache": 3,
    }  # fmt: skip


def test_the_age_is_this_processes_own():
    code = "import time; from kvasir_runtime.engine.startup import process_age_s as age\n"
    code += "a = age(); time.sleep(0.3); print(a, age())"
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    lasted = time.monotonic() - started
    first, second = map(float, done.stdout.split())
    assert 0 < first < second <= lasted + 0.05
    assert 0.25 <= second - first < 5


def test_a_system_that_does_not_say_gives_no_age(tmp_path):
    assert process_age_s(tmp_path / "missing") == 0.0
    (tmp_path / "odd").write_text("7 (a b) R")
    assert process_age_s(tmp_path / "odd") == 0.0


def test_an_engine_says_how_it_started(tiny_models):
    llm = LLM(str(tiny_models.folder("llama")), use_tqdm=False, **SMALL)
    names = [stage.name for stage in llm.engine.startup.stages]
    assert names[:4] == [BEFORE, "load weights", "profile", "allocate KV cache"]
    assert llm.engine.startup.total_s <= process_age_s()
