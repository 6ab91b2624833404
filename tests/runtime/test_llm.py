import pytest

from kvasir_runtime import LLM, SamplingParams
from kvasir_runtime.errors import (
    InvalidConfigError,
    InvalidParamsError,
    KVCacheTooSmallError,
    PromptTooLongError,
    RequestError,
)
from support.device import SMALL


@pytest.fixture(scope="module")
def llm(tiny_models):
    return LLM(str(tiny_models.folder("llama")), max_num_seqs=8, **SMALL)


def greedy(**params):
    return SamplingParams(temperature=0, ignore_eos=True, **params)


def texts(llm, prompts, params):
    return [out.outputs[0].text for out in llm.generate(prompts, params, use_tqdm=False)]


def test_strings_and_token_ids_are_prompts_alone_and_in_lists(llm):
    ids = llm.get_tokenizer().encode("Hello")
    params = greedy(max_tokens=5)
    alone = texts(llm, "Hello", params)
    assert alone == texts(llm, ids, params) == texts(llm, ["Hello"], params)
    assert texts(llm, ["Hello", ids], params) == alone * 2


def test_each_prompt_may_have_its_own_parameters(llm):
    outs = llm.generate(["a", "b"], [greedy(max_tokens=3), greedy(max_tokens=7)], use_tqdm=False)
    assert [len(out.outputs[0].token_ids) for out in outs] == [3, 7]
    assert [out.outputs[0].finish_reason for out in outs] == ["length", "length"]


def test_n_completions_of_one_prompt_differ_and_repeat_with_the_seed(llm):
    params = SamplingParams(n=3, seed=4, max_tokens=12, ignore_eos=True)
    first, second = (llm.generate("x", params, use_tqdm=False)[0].outputs for _ in range(2))
    assert [out.token_ids for out in first] == [out.token_ids for out in second]
    assert len({tuple(out.token_ids) for out in first}) == 3
    assert [out.index for out in first] == [0, 1, 2]


def test_a_stop_string_ends_the_text_before_it_and_frees_the_blocks(llm):
    whole = llm.generate("Hello", greedy(max_tokens=40), use_tqdm=False)[0].outputs[0].text
    stop = whole[5:7]
    out = llm.generate("Hello", greedy(max_tokens=40, stop=stop), use_tqdm=False)[0].outputs[0]
    assert out.text == whole[: whole.find(stop)]
    assert (out.finish_reason, out.stop_reason) == ("stop", stop)
    assert llm.engine.stats().gpu_blocks_used == 0


def test_a_stop_token_ends_the_sequence_and_is_not_in_the_text(llm):
    whole = llm.generate("Hello", greedy(max_tokens=20), use_tqdm=False)[0].outputs[0]
    token = whole.token_ids[6]
    first = whole.token_ids.index(token)
    out = llm.generate("Hello", greedy(max_tokens=20, stop_token_ids=[token]), use_tqdm=False)
    completion = out[0].outputs[0]
    assert completion.token_ids == whole.token_ids[: first + 1]
    assert (completion.finish_reason, completion.stop_reason) == ("stop", token)
    assert completion.text == llm.get_tokenizer().decode(whole.token_ids[:first])


def test_chat_uses_the_template(llm):
    out = llm.chat([{"role": "user", "content": "Hi"}], greedy(max_tokens=4), use_tqdm=False)[0]
    assert out.prompt == "<s>user: Hi\n<s>assistant:"


def test_a_prompt_too_long_is_refused_with_both_numbers_and_the_llm_goes_on(llm):
    with pytest.raises(PromptTooLongError, match=r"600.*512"):
        llm.generate([[1] * 600, [1]], greedy(), use_tqdm=False)
    with pytest.raises(PromptTooLongError, match=r"500.*20.*520.*512"):
        llm.generate([[1] * 500], greedy(max_tokens=20), use_tqdm=False)
    assert not llm.engine.has_work()
    assert texts(llm, "a", greedy(max_tokens=2))


def test_generation_ends_at_the_models_length(llm):
    out = llm.generate([[1] * 500], greedy(max_tokens=None), use_tqdm=False)[0].outputs[0]
    assert (len(out.token_ids), out.finish_reason) == (12, "length")


@pytest.mark.parametrize("prompt", [[], [320], [-1]])
def test_token_ids_outside_the_vocabulary_are_refused(llm, prompt):
    with pytest.raises(RequestError):
        llm.generate([prompt], greedy(), use_tqdm=False)


def test_logprobs_have_the_shape_that_vllms_users_know(llm):
    params = greedy(max_tokens=4, logprobs=2, prompt_logprobs=1)
    out = llm.generate([[5, 6, 7]], params, use_tqdm=False)[0]
    completion = out.outputs[0]
    assert len(completion.logprobs) == 4
    for token, position in zip(completion.token_ids, completion.logprobs, strict=True):
        assert position[token].rank == 1
        assert len(position) == 2
        assert position[token].decoded_token == llm.get_tokenizer().decode([token])
    total = sum(
        p[t].logprob for t, p in zip(completion.token_ids, completion.logprobs, strict=True)
    )
    assert completion.cumulative_logprob == pytest.approx(total)
    assert out.prompt_logprobs[0] is None
    assert [
        set(position) >= {token}
        for token, position in zip([6, 7], out.prompt_logprobs[1:], strict=True)
    ]
    assert len(out.prompt_logprobs) == 3


def test_bad_words_never_come_and_allowed_tokens_alone_do(llm):
    whole = llm.generate("Hello", greedy(max_tokens=30), use_tqdm=False)[0].outputs[0]
    letter = next(c for c in whole.text if c.isascii() and c.isalnum())
    out = llm.generate("Hello", greedy(max_tokens=30, bad_words=[letter]), use_tqdm=False)
    assert letter not in out[0].outputs[0].text
    out = llm.generate("Hello", greedy(max_tokens=9, allowed_token_ids=[66, 67]), use_tqdm=False)
    assert set(out[0].outputs[0].token_ids) <= {66, 67}
    biased = greedy(max_tokens=5, logit_bias={70: 100.0})
    assert llm.generate("Hello", biased, use_tqdm=False)[0].outputs[0].token_ids == [70] * 5


def test_urgent_prompts_are_answered_first_under_the_priority_policy(tiny_models):
    llm = LLM(
        str(tiny_models.folder("llama")), max_num_seqs=1, scheduling_policy="priority", **SMALL
    )
    ends = []
    engine = llm.engine
    step = engine.step

    def noting():
        outputs = step()
        ends.extend(o.request_id for o in outputs.outputs if o.finish_reason)
        return outputs

    engine.step = noting
    llm.generate(["a", "b", "c"], greedy(max_tokens=3), priority=[2, 1, 0], use_tqdm=False)
    assert ends == ["2", "1", "0"]


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"logit_bias": {320: 1.0}}, "logit_bias.*320"),
        ({"allowed_token_ids": [-1]}, "allowed_token_ids.*-1"),
    ],
)
def test_token_ids_in_parameters_must_be_of_the_vocabulary(llm, params, match):
    with pytest.raises(InvalidParamsError, match=match):
        llm.generate("a", greedy(**params), use_tqdm=False)


def test_a_step_smaller_than_a_block_is_refused_with_both_numbers():
    with pytest.raises(InvalidConfigError, match=r"8, a block has 16"):
        LLM("nowhere", max_num_batched_tokens=8)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1), ("temperature", float("nan")), ("top_p", 0.0), ("top_p", 1.1),
        ("top_k", -2), ("min_p", 1.5), ("max_tokens", -1), ("max_tokens", 0), ("min_tokens", -1),
        ("presence_penalty", 3), ("frequency_penalty", -3), ("repetition_penalty", 0),
        ("logprobs", 21), ("n", 0), ("stop", ""), ("prompt_logprobs", -1), ("bad_words", [""]),
        ("allowed_token_ids", []), ("logit_bias", {1: 101}),
    ],
)  # fmt: skip
def test_a_wrong_parameter_is_named_with_its_value(field, value):
    with pytest.raises(InvalidParamsError, match=field) as caught:
        SamplingParams(**{field: value})
    assert caught.value.param == field
    assert caught.value.hint


def test_a_cache_too_small_for_one_sequence_says_what_would_fit(tiny_models):
    with pytest.raises(
        KVCacheTooSmallError, match=r"160 tokens.*512, which is 0\.0\d GiB more"
    ) as caught:
        LLM(str(tiny_models.folder("llama")), **(SMALL | {"num_gpu_blocks_override": 10}))
    assert "--max-model-len" in caught.value.hint


def test_an_unknown_setting_and_a_wrong_one_are_refused(tiny_models):
    folder = str(tiny_models.folder("llama"))
    with pytest.raises(TypeError, match="max_num_sequences"):
        LLM(folder, max_num_sequences=3)
    with pytest.raises(InvalidConfigError, match="max_num_seqs is 0"):
        LLM(folder, max_num_seqs=0)


def test_a_shut_down_llm_says_so(tiny_models):
    llm = LLM(str(tiny_models.folder("llama")), **SMALL)
    llm.shutdown()
    with pytest.raises(RuntimeError, match="shut down"):
        llm.generate("a", use_tqdm=False)


def test_random_weights_without_a_tokenizer_need_a_config_alone(tiny_models, tmp_path):
    source = tiny_models.folder("llama")
    (tmp_path / "config.json").write_text((source / "config.json").read_text())
    llm = LLM(str(tmp_path), load_format="dummy", skip_tokenizer_init=True, **SMALL)
    out = llm.generate([[1, 2, 3]], greedy(max_tokens=4), use_tqdm=False)[0].outputs[0]
    assert (len(out.token_ids), out.text) == (4, "")
    with pytest.raises(InvalidConfigError, match="no tokenizer"):
        llm.generate("text", use_tqdm=False)
