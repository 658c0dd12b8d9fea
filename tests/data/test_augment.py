"""The papers' augmentations do what docs/data.md says, as often as it says, and never to what must stay."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from xmr_core.base.types import Batch, Features, Pixels, Tokens
from xmr_core.data.batches import Augmentation
from xmr_core.methods.pcmepp import MixedSamples

WORDS = 60


def captions(n=400, longest=12, seed=0) -> Tokens:
    """<start> words <end> of 1 to `longest` − 2 words, none of them <unk> or the mask."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, longest + 1, n)
    mask = np.arange(longest)[None] < lengths[:, None]
    ids = np.where(mask, rng.integers(5, WORDS, (n, longest)), 0)
    ids[:, 0] = 1
    ids[np.arange(n), lengths - 1] = 2
    return Tokens(torch.from_numpy(ids), torch.from_numpy(mask))


def rng(seed=0):
    return np.random.default_rng(seed)


@given(st.sampled_from(["unknown", "vse", "pcme"]), st.floats(0.01, 0.95), st.integers(0, 50))
def test_start_end_and_padding_are_never_touched(rule, p, seed):
    before = captions(30, seed=seed)
    after = Augmentation(word_drop=p, word_rule=rule, words=WORDS, mask_id=4).captions(before, rng(seed))
    lengths = after.mask.sum(1)
    assert (after.ids[:, 0] == 1).all() and (after.ids[torch.arange(30), lengths - 1] == 2).all()
    assert (after.ids[~after.mask] == 0).all() and ((after.ids == 1).sum(1) == 1).all()
    assert ((after.ids == 2).sum(1) == 1).all()
    assert after.mask[:, :-1].ge(after.mask[:, 1:]).all() and after.mask.any(0).all(), (
        "real words stand together, nothing but padding is cut"
    )


def test_vse_masks_half_swaps_a_tenth_and_deletes_the_rest():
    before = captions(4000)
    after = Augmentation(word_drop=0.2, word_rule="vse", words=WORDS, mask_id=4).captions(before, rng())
    words = int((before.ids > 2).sum())
    deleted = words - int((after.ids > 2).sum())
    assert int((after.ids == 4).sum()) / words == pytest.approx(0.1, abs=0.006)
    assert deleted / words == pytest.approx(0.08, abs=0.006)
    kept = [
        (b[b > 0], a[a > 0])
        for b, a in zip(before.ids, after.ids, strict=True)
        if int((b > 0).sum()) == int((a > 0).sum())
    ]
    changed = sum(int(((b != a) & (a != 4)).sum()) for b, a in kept) / sum(len(b) - 2 for b, _ in kept)
    assert 0.01 < changed < 0.03, "2 % of the words, but for those that are swapped with themselves"


def test_pcme_makes_unknown_words_and_then_deletes_a_fixed_share():
    before = captions(1000)
    after = Augmentation(word_drop=0.25, word_rule="pcme").captions(before, rng())
    n = (before.ids > 2).sum(1)
    assert torch.equal((after.ids > 2).sum(1), n - torch.floor(0.25 * n).long())
    assert int((after.ids == 3).sum()) / int((after.ids > 2).sum()) == pytest.approx(0.25, abs=0.02)


def test_grid_drop_leaves_a_fifth_of_the_pictures_whole():
    images = Features(torch.zeros(4000, 49, 1), torch.ones(4000, 49, dtype=torch.bool))
    mask = Augmentation(cell_drop=0.2, cell_rule="grid").images(images, rng()).mask
    lost = 1 - mask.float().mean(1)
    assert lost.mean() == pytest.approx(0.2 * (1 - 0.2**2) / 2, abs=0.004), "E[0.2 r; r > 0.2]"
    each = Augmentation(cell_drop=0.2).images(images, rng()).mask
    assert (1 - each.float().mean()) == pytest.approx(0.2, abs=0.004)
    assert lost.std() > 1.1 * (1 - each.float().mean(1)).std(), "the share differs from picture to picture"
    assert Augmentation(cell_drop=0.999).images(images, rng()).mask.any(1).all(), "never all cells"


def test_cells_that_were_no_cells_stay_so():
    mask = torch.tensor([[True, True, False, False], [True, False, False, False]])
    for _ in range(5):
        out = Augmentation(cell_drop=0.9).images(Features(torch.zeros(2, 4, 1), mask), rng(_)).mask
        assert out.any(1).all() and not (out & ~mask).any()


def test_erasing_greys_one_rectangle_of_the_right_size():
    x = torch.zeros(3000, 3, 32, 32)
    out = Augmentation(erase=0.2).images(Pixels(x), rng()).x
    hit = out.flatten(1).any(1)
    assert 0.16 < hit.float().mean() <= 0.21 and (x == 0).all(), "given pictures stay as they are"
    for picture in out[hit][:100]:
        rows, columns = picture[0].any(1).nonzero().flatten(), picture[0].any(0).nonzero().flatten()
        height, width = int(rows[-1] - rows[0]) + 1, int(columns[-1] - columns[0]) + 1
        assert (picture == 0.5).sum() == 3 * height * width, "one full rectangle, in all channels"
        assert 0.01 < height * width / 1024 < 0.4 and 0.2 < height / width < 5


def test_cut_mix_cuts_no_regions_even_where_their_number_is_a_square():
    torch.manual_seed(0)
    images = Features(torch.rand(8, 36, 5), torch.ones(8, 36, dtype=torch.bool))
    rows = torch.arange(8)
    batch = Batch(images, None, torch.eye(8, dtype=torch.bool), rows, rows)

    def cut(mixer: MixedSamples) -> bool:
        """Whether some cells of an image are its own whole and others its partner's."""
        mixed = mixer(batch).images.local_feats
        own, other = (mixed == images.local_feats).all(2), (mixed == images.local_feats.flip(0)).all(2)
        return bool((own.any(1) & other.any(1)).any())

    assert cut(MixedSamples(share=1.0, cut=1.0)) and not cut(MixedSamples(share=1.0, cut=1.0, grid=False))
