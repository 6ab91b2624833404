from kvasir_runtime.server.histograms import token_buckets


def test_token_buckets_go_up_to_the_models_length():
    assert token_buckets(8192) == (
        1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000,
    )  # fmt: skip
    assert token_buckets(1) == (1,)
