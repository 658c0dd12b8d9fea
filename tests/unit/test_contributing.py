"""The contract that a new similarity is held to notices one that does not keep it."""

import pytest
import test_similarities as contract


def test_the_contract_catches_a_similarity_that_reads_padding(monkeypatch):
    careless = lambda images, captions: (images.x.sum(1) @ captions.x.sum(1).T) / images.x.shape[1]  # noqa: E731
    monkeypatch.setitem(contract.SETWISE, "careless", careless)
    with pytest.raises(AssertionError):
        contract.test_padding_has_no_say_and_gets_no_gradient("careless", 1e3)
