import random

import pytest

from kvasir_runtime.bench.workload import Workload, parse_workloads, random_ids, random_words
from kvasir_runtime.errors import InvalidConfigError


def test_workloads_read_as_they_are_written():
    read = parse_workloads("256:512:128, 1:32000:16")
    assert read == [Workload(256, 512, 128), Workload(1, 32000, 16)]
    assert [str(workload) for workload in read] == ["256:512:128", "1:32000:16"]


@pytest.mark.parametrize("text", ["", "1:2", "1:2:3:4", "a:2:3", "1:0:3", "1:2:-3", "1:2:3,"])
def test_a_workload_that_is_none_is_quoted(text):
    with pytest.raises(InvalidConfigError, match="N:in:out"):
        parse_workloads(text)


def test_prompts_have_their_length_and_stay_in_the_vocabulary():
    ids = random_ids(random.Random(0), 1000, 20)
    assert len(ids) == 1000
    assert set(ids) == set(range(20))
    assert len(random_words(random.Random(0), 30).split(" ")) == 30
