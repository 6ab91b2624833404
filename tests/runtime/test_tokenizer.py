import json

import pytest
import transformers
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers

from kvasir_runtime.errors import InvalidConfigError, InvalidParamsError, ModelNotFoundError
from kvasir_runtime.tokenizer import load_tokenizer

TEXTS = ["Hello, world", "Grüße an 日本 🎉", "  two  spaces\n", "", "<s>special</s>"]
CHAT = [{"role": "user", "content": "Hi"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, save_tokenizer):
    return save_tokenizer(tmp_path_factory.mktemp("byte-level"))


@pytest.fixture(scope="module")
def save_tokenizer():
    from support.tiny_models import save_byte_tokenizer

    def save(folder):
        save_byte_tokenizer(folder)
        return folder

    return save


@pytest.fixture(scope="module")
def tokenizer(folder):
    return load_tokenizer(folder)


@pytest.mark.parametrize("text", TEXTS)
def test_texts_are_encoded_as_transformers_does(folder, tokenizer, text):
    reference = transformers.AutoTokenizer.from_pretrained(folder)
    assert tokenizer.encode(text) == reference(text)["input_ids"]
    assert tokenizer.encode(text, False) == reference(text, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("text", TEXTS)
def test_the_bytes_of_single_tokens_make_up_the_text(tokenizer, text):
    ids = tokenizer.encode(text)
    assert b"".join(map(tokenizer.token_bytes, ids)) == text.encode()


def test_a_part_of_a_character_is_shown_as_a_replacement(tokenizer):
    assert tokenizer.token_text(tokenizer.encode("é")[0]) == "\ufffd"


def test_an_unknown_token_id_has_no_bytes(tokenizer):
    assert tokenizer.token_bytes(99999) == b""


def test_special_tokens_are_left_out_of_the_text_unless_asked_for(tokenizer):
    ids = tokenizer.encode("<s>Hi</s>")
    assert tokenizer.decode(ids) == "Hi"
    assert tokenizer.decode(ids, skip_special_tokens=False) == "<s>Hi</s>"


def test_sentencepiece_tokens_have_their_spaces_and_byte_fallbacks(tmp_path):
    vocab = {"<unk>": 0, "▁Hi": 1, "▁there": 2, "<0xC3>": 3, "<0xA9>": 4}
    backend = Backend(models.BPE(vocab=vocab, merges=[], byte_fallback=True, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    transformers.PreTrainedTokenizerFast(tokenizer_object=backend).save_pretrained(tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    assert b"".join(map(tokenizer.token_bytes, [1, 2, 3, 4])) == " Hi thereé".encode()


def test_prompts_are_neither_cut_nor_padded(folder, tmp_path):
    content = json.loads((folder / "tokenizer.json").read_text())
    content["truncation"] = {
        "direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0,
    }  # fmt: skip
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    assert len(load_tokenizer(tmp_path).encode("a" * 100)) == 100


def test_a_chat_template_may_come_from_a_file_or_as_text(folder, tmp_path):
    template = "{{ messages[0]['content'] }}!"
    (tmp_path / "chat.jinja").write_text(template)
    for given in (template, str(tmp_path / "chat.jinja")):
        assert load_tokenizer(folder, chat_template=given).apply_chat_template(CHAT) == "Hi!"


def test_template_variables_reach_the_template(folder):
    tokenizer = load_tokenizer(folder, chat_template="{{ mood }}")
    assert tokenizer.apply_chat_template(CHAT, template_kwargs={"mood": "calm"}) == "calm"


def test_what_a_template_raises_is_the_requests_fault(folder):
    template = "{{ raise_exception('roles must alternate') }}"
    tokenizer = load_tokenizer(folder, chat_template=template)
    with pytest.raises(InvalidParamsError, match="roles must alternate") as caught:
        tokenizer.apply_chat_template(CHAT)
    assert caught.value.param == "messages"


def test_a_model_without_a_template_says_what_to_do_instead(tmp_path, folder):
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    with pytest.raises(InvalidParamsError, match="/v1/completions"):
        load_tokenizer(tmp_path).apply_chat_template(CHAT)


@pytest.mark.parametrize("template", ["{% for %}", "no/such/file.jinja"])
def test_a_template_that_is_none_stops_the_start(folder, template):
    with pytest.raises(InvalidConfigError, match="template"):
        load_tokenizer(folder, chat_template=template)


def test_a_folder_without_a_tokenizer_is_told_from_a_broken_one(tmp_path):
    with pytest.raises(ModelNotFoundError, match="no tokenizer"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(InvalidConfigError, match="can't be loaded"):
        load_tokenizer(tmp_path)
