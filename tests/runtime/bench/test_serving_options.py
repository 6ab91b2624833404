import pytest

from kvasir_runtime.bench.arrivals import Arrival
from kvasir_runtime.bench.openai_server import ServerAddress
from kvasir_runtime.bench.serving_options import parse_options
from kvasir_runtime.errors import InvalidConfigError

SERVER = ["--base-url", "http://localhost:1/v1", "--served-model-name", "tiny"]


def test_each_rate_is_a_load_of_so_many_requests():
    loads = parse_options([*SERVER, "--rates", "4,16.5", "--requests", "7"]).loads
    assert [(load.rate, len(load.arrivals)) for load in loads] == [(4.0, 7), (16.5, 7)]


def test_seconds_give_as_many_requests_as_the_rate_brings():
    loads = parse_options([*SERVER, "--rates", "4,16", "--seconds", "10"]).loads
    assert [len(load.arrivals) for load in loads] == [40, 160]


def test_a_thousand_requests_where_nothing_is_said():
    (load,) = parse_options([*SERVER, "--rates", "4"]).loads
    assert len(load.arrivals) == 1000


def test_a_file_of_arrivals_is_one_load_cut_to_what_is_wanted(tmp_path):
    path = tmp_path / "trace.txt"
    path.write_text('1\n3\n{"offset_s": 2, "input_len": 9}\n')
    given = [*SERVER, "--arrivals", str(path), "--input-len", "5", "--output-len", "6"]
    (load,) = parse_options(given).loads
    assert load.arrivals == (Arrival(1.0, 5, 6), Arrival(2.0, 9, 6), Arrival(3.0, 5, 6))
    assert (load.rate, load.source) == (1.0, "trace.txt")
    assert len(parse_options([*given, "--requests", "1"]).loads[0].arrivals) == 1
    assert len(parse_options([*given, "--seconds", "2.5"]).loads[0].arrivals) == 2
    with pytest.raises(InvalidConfigError, match="3 arrivals"):
        parse_options([*given, "--seconds", "0.5"])


def test_a_key_may_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "from-env")
    target = parse_options([*SERVER, "--rates", "4", "--no-ignore-eos"]).target
    assert target == ServerAddress(
        base_url="http://localhost:1/v1", model="tiny", api_key="from-env", ignore_eos=False
    )


def test_the_engine_gets_its_flags_and_no_tokenizer():
    target = parse_options(["model", "--rates", "4", "--max-num-seqs", "9"]).target
    assert (target.model, target.max_num_seqs) == ("model", 9)
    assert target.skip_tokenizer_init
    assert not target.enable_prefix_caching


@pytest.mark.parametrize(
    "arguments",
    [
        [*SERVER],
        [*SERVER, "--rates", "4", "--arrivals", "f"],
        [*SERVER, "--rates", "4", "--requests", "1", "--seconds", "1"],
        ["model", *SERVER, "--rates", "4"],
        ["--rates", "4"],
    ],
)
def test_options_that_contradict_each_other_end_with_2(arguments, capsys):
    with pytest.raises(SystemExit, match="2"):
        parse_options(arguments)
    assert "usage" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--rates", "0"],
        ["--rates", "4,x"],
        ["--rates", "4", "--requests", "-1"],
        ["--rates", "4", "--plot", "picture.pdf"],
        ["--rates", "4", "--plot", "/no/such/folder/picture.svg"],
        ["--arrivals", "/no/such/file"],
    ],
)
def test_values_that_cannot_be_are_refused_before_anything_runs(arguments):
    with pytest.raises(InvalidConfigError):
        parse_options([*SERVER, *arguments])
