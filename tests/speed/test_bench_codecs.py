"""What `python -m bench.codecs` times is what clients and server do."""

import torch
from bench.codecs import CODECS, SIZES, works

from fedtrip.families import UPLOAD_CODEC
from fedtrip.models import build_model


def test_encoding_and_decoding_are_what_is_timed():
    assert {UPLOAD_CODEC.read(text).name for text in CODECS} == set(UPLOAD_CODEC.names()) - {"none"}
    x = torch.linspace(-1, 1, 100)
    for text in CODECS:
        encode, decode = works(UPLOAD_CODEC.make(text), x)
        payload, _kept = encode()
        assert payload["w"].dtype == torch.uint8
        assert decode()["w"].shape == (100,)


def test_the_vectors_are_as_long_as_the_models():
    models = {"CNN": "cnn", "McMahan's CNN": "cnn-mcmahan"}
    found = {
        name: sum(p.numel() for p in build_model(model, (1, 28, 28), 10, 0).parameters())
        for name, model in models.items()
    }
    assert found == SIZES
