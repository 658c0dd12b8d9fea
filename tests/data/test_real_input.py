"""Flickr8k's official layout with its faults, pictures, word vectors and the feature cache."""

import json
import math
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image, ImageFile

from xmr_core.base import paths
from xmr_core.base.errors import BadInput, CannotWrite, DamagedFile
from xmr_core.data.readers.official import load_flickr8k
from xmr_core.features import cache
from xmr_core.features.cache import Reduction, cached_features, principal_components, reduced_features
from xmr_core.features.cells import CellDescriptor
from xmr_core.features.images import TrainingCrops, convert_to_rgb, read_image
from xmr_core.features.words import Vocabulary, load_word_vectors, tokenise

pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture
def flickr(tmp_path):
    """Eight pictures in the official layout, with every known fault once."""
    folder, text = tmp_path / "data" / "Flicker8k_Dataset", tmp_path / "data" / "Flickr8k_text"
    folder.mkdir(parents=True), text.mkdir()
    rng = np.random.default_rng(0)
    for n in range(8):
        Image.fromarray(rng.integers(0, 255, (40, 60, 3), np.uint8)).save(folder / f"{n}.jpg")
    lines = [f"{n}.jpg#{c}\tA dog number {n} runs in way {c} ." for n in range(8) for c in range(5)]
    lines[3] = lines[3].replace("\t", " ")
    lines += ["gone.jpg.1#0\tA caption of nothing .", "7.jpg#9\t ."]
    (text / "Flickr8k.token.txt").write_text("\n".join(lines) + "\n")
    for split, names in (("train", range(4)), ("dev", (4,)), ("test", (5, 6))):
        (text / f"Flickr_8k.{split}Images.txt").write_text("".join(f"{n}.jpg\n" for n in names))
    (text / "CrowdFlowerAnnotations.txt").write_bytes(
        b"5.jpg\t6.jpg#2\t0.667\t2\t1\n"
        + bytes(range(128, 250))
        + b"\n\xff\tx\n"
        + b"6.jpg\t5.jpg#0\t0.5\t2\t2\n5.jpg\t6.jpg#3\t1.2\t1\t1\n"
    )
    (text / "ExpertAnnotations.txt").write_text("5.jpg\t6.jpg#0\t3\t3\t4\n5.jpg\t6.jpg#1\t1\t2\t3\nrubbish\n")
    return tmp_path / "data"


def test_flickr8k_is_read_with_its_faults_counted(flickr):
    corpus = load_flickr8k(flickr)
    splits = corpus.images["split"].value_counts().to_dict()
    assert len(corpus.captions) == 40 and splits == {"train": 4, "test": 2, "val": 1, "": 1}
    assert corpus.faults == {
        "captions with a space for the tab": 1, "captions of a missing image": 1, "captions without a word": 1,
        "images in no split": 1, "rating lines that cannot be read": 4,
    }  # fmt: skip
    assert corpus.captions.loc["0.jpg#3", "text"] == "A dog number 0 runs in way 3 ."
    assert corpus.read_pixels(np.array([2])).shape == (1, 224, 224, 3)
    annotated, human = corpus.relevance_sets["annotated"]("test"), corpus.relevance_sets["human"]("test")
    assert annotated.counts.tolist() == [1] * 10
    extra = human.gallery_ids[human[list(human.query_ids).index("6.jpg#0")]]
    assert set(extra) == {"5.jpg", "6.jpg"} and human.counts.sum() == 11
    crowd = corpus.relevance_sets["crowd"]("test")
    assert set(crowd.gallery_ids[crowd[list(crowd.query_ids).index("6.jpg#2")]]) == {"5.jpg", "6.jpg"}
    assert crowd.counts.sum() == 11, "half of the crowd is not most of it"
    assert corpus.grades["expert"]["grade"].tolist() == pytest.approx([10 / 3, 2])
    assert corpus.grades["crowd"]["grade"].tolist() == [0.667, 0.5]


def test_the_fingerprint_is_of_content_and_not_of_paths(flickr, tmp_path):
    before = load_flickr8k(flickr)
    assert load_flickr8k(flickr).fingerprint == before.fingerprint
    shutil.copytree(flickr, tmp_path / "elsewhere")
    assert load_flickr8k(tmp_path / "elsewhere").fingerprint == before.fingerprint
    file = flickr / "Flickr8k_text" / "Flickr8k.token.txt"
    file.write_text(file.read_text().replace("way 2", "way 7", 1))
    after = load_flickr8k(flickr)
    assert after.fingerprint != before.fingerprint and after.image_fingerprint == before.image_fingerprint, (
        "features need not be made again"
    )
    picture = flickr / "Flicker8k_Dataset" / "3.jpg"
    raw = bytearray(picture.read_bytes())
    raw[-3] ^= 1  # same length, other content
    picture.write_bytes(raw)
    assert load_flickr8k(flickr).image_fingerprint != before.image_fingerprint


def test_an_image_in_two_splits_is_refused(flickr):
    (flickr / "Flickr8k_text" / "Flickr_8k.testImages.txt").write_text("5.jpg\n0.jpg\n")
    with pytest.raises(BadInput, match="another split"):
        load_flickr8k(flickr)


@pytest.mark.parametrize("missing", ["Flickr8k_text/Flickr8k.token.txt", "Flicker8k_Dataset/5.jpg"])
def test_missing_files_are_named(flickr, missing):
    target = flickr / missing
    target.rename(flickr / "elsewhere")
    with pytest.raises(BadInput, match=target.name):
        load_flickr8k(flickr)
    with pytest.raises(BadInput, match="does not exist"):
        load_flickr8k(flickr / "nowhere")


def test_pictures_of_any_kind_become_rgb(tmp_path):
    for mode in ("L", "CMYK", "P", "RGBA"):
        Image.new(mode, (30, 20)).save(tmp_path / f"{mode}.tiff")
        assert read_image(tmp_path / f"{mode}.tiff", 16).shape == (16, 16, 3)
    deep = (
        np.linspace(0, 65535, 16 * 16).astype(np.uint16).reshape(16, 16)
    )  # 16 bits a channel, as depth and scans have them
    Image.fromarray(deep).save(tmp_path / "deep.png")
    read = read_image(tmp_path / "deep.png", 16)
    assert np.abs(read[..., 0].astype(int) - deep / 257).max() <= 1 and (read[..., 0] == read[..., 2]).all()
    glass = Image.new("RGBA", (16, 16), (255, 0, 0, 0))
    glass.save(tmp_path / "glass.png")
    assert (read_image(tmp_path / "glass.png", 16) == 255).all(), (
        "what is transparent is white, not the colour under it"
    )
    turned = Image.new("RGB", (32, 32))
    turned.paste((255, 0, 0), (0, 0, 32, 16))  # red on top …
    exif = turned.getexif()
    exif[0x0112] = 3  # … stored upside down
    turned.save(tmp_path / "turned.png", exif=exif)
    assert read_image(tmp_path / "turned.png", 32)[-1, 0, 0] == 255
    floats = Image.fromarray(np.array([[0.0, 0.5, 1.0]], np.float32))
    assert np.asarray(convert_to_rgb(floats))[0, :, 0].tolist() == [0, 128, 255], "at most 1, and not black"


@pytest.mark.parametrize("suffix", ["jpg", "png", "gif", "webp", "bmp", "tif"])
def test_an_image_that_is_cut_short_is_refused_whatever_pillow_is_set_to(tmp_path, monkeypatch, suffix):
    whole, cut = tmp_path / f"whole.{suffix}", tmp_path / f"cut.{suffix}"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)).save(whole)
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size * 2 // 3])
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)

    def is_right(n: int) -> bool:
        try:
            read_image((whole, cut)[n % 2], 8)
        except DamagedFile:
            return n % 2 == 1
        return n % 2 == 0

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(is_right, range(40)))
    assert (ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS) == (True, 10), "left as it was"


def test_words_and_numbers():
    assert tokenise("A man's dog-walk, isn't IT? 2 dogs.") == ["a", "man's", "dog", "walk", "isn't", "it", "2", "dogs"]
    assert tokenise("Un café — L’été; кошка_и 3½ собаки") == ["un", "café", "l'été", "кошка", "и", "3½", "собаки"]
    with pytest.raises(BadInput, match="caption 1 is empty: ' . '"):
        Vocabulary.build(["x"]).encode(["a dog", " . "])
    with pytest.raises(DamagedFile, match="not a vocabulary file"):
        Vocabulary.from_json("{}")
    v = Vocabulary.build(["a dog", "a cat runs"], min_count=1)
    assert v.words == ("<pad>", "<start>", "<end>", "<unk>", "a", "cat", "dog", "runs")
    tokens = v.encode(["a dog", "a zebra runs"])
    assert tokens.ids.tolist() == [[1, 4, 6, 2, 0], [1, 4, 3, 7, 2]] and tokens.mask.sum(1).tolist() == [4, 5]
    assert Vocabulary.from_json(v.to_json()) == v and Vocabulary.build(["a a b"], min_count=2).words[4:] == ("a",)
    assert json.loads(v.to_json())["idx2word"]["6"] == "dog"


def test_the_rule_that_makes_words_is_kept_with_them():
    pytest.importorskip("nltk", reason="the optional tokeniser 'treebank' needs nltk")
    v = Vocabulary.build(["A dog isn't here, is it?"], tokeniser="treebank")
    assert set(v.words[4:]) == {"a", "dog", "is", "n't", "here", ",", "it", "?"}
    again = Vocabulary.from_json(v.to_json())
    assert again == v
    assert again.encode(["It isn't"]).ids.tolist() == [[1, v.numbers["it"], v.numbers["is"], v.numbers["n't"], 2]]
    assert v.hash != Vocabulary(v.words, "words").hash, "the same words by another rule are another vocabulary"
    with pytest.raises(BadInput, match="unknown tokeniser"):
        Vocabulary.build(["a"], tokeniser="spaces")


def test_word_vectors(tmp_path):
    file = tmp_path / "glove.txt"
    file.write_text("dog 1 2\ncat 3 4\nwalk 5 6\n")
    vectors, found = load_word_vectors(file, ("dog", "zebra", "cat", "wa-lk"))
    assert vectors[[0, 2, 3]].tolist() == [[1, 2], [3, 4], [5, 6]] and found.tolist() == [True, False, True, True]
    assert (load_word_vectors(file, ("dog", "zebra"))[0] == load_word_vectors(file, ("dog", "zebra"))[0]).all()
    # word2vec and fastText write a head, fastText a blank at the end of a line; some words of GloVe hold blanks
    file.write_text("3 2\ndog 1 2 \n. . . 3 4\ncat 5 6\n")
    assert load_word_vectors(file, ("cat", "dog"))[0].tolist() == [[5, 6], [1, 2]]
    for text, message in (("dog 1 2\ncat 3\n", "line 2 has 1 numbers"), ("dog 1 x\n", "no finite number")):
        file.write_text(text)
        with pytest.raises(BadInput, match=message):
            load_word_vectors(file, ("dog", "cat"))


class Counting(CellDescriptor):
    """The cell descriptor, counting how often it is asked; `spoil` makes what it returns unusable."""

    def __init__(self):
        super().__init__()
        self.asked, self.spoil = 0, False

    def __call__(self, pixels):
        self.asked += 1
        out = super().__call__(pixels)
        if self.spoil:
            out[-1, 0, 0] = np.nan
        return out


@pytest.fixture
def corpus():
    cache._verified.clear()
    from xmr_core.data.scenes import load_scenes

    return load_scenes("tiny")


def test_features_are_computed_once(corpus):
    extractor = Counting()
    first = np.array(cached_features(corpus, extractor, progress=iter))
    assert extractor.asked == 1 and (cached_features(corpus, extractor) == first).all() and extractor.asked == 1
    assert (first == CellDescriptor()(corpus.read_pixels(np.arange(128)))).all()


class Dying(CellDescriptor):
    """Small batches, and dies in the given call as a killed process would: without a word to anyone."""

    batch = 8

    def __init__(self, dies_at: int = 0):
        super().__init__()
        self.calls, self.dies_at = 0, dies_at

    def __call__(self, pixels):
        self.calls += 1
        if self.calls == self.dies_at:
            raise KeyboardInterrupt
        return super().__call__(pixels)


def test_extraction_that_was_killed_goes_on_where_it_was(corpus, monkeypatch):
    monkeypatch.setattr(cache, "_EVERY", 3 * 8 * 64 * 92 * 2)  # a note every third batch
    with pytest.raises(KeyboardInterrupt):
        cached_features(corpus, Dying(dies_at=12), progress=iter)
    assert not list(paths.folder("cache").glob("features-*.npy"))
    again = Dying()
    out = cached_features(corpus, again, progress=iter)
    assert again.calls == 16 - 9, "nine of the sixteen batches were noted"
    assert (out == CellDescriptor()(corpus.read_pixels(np.arange(128)))).all()
    assert not [f for f in paths.folder("cache").iterdir() if f.suffix in (".part", ".note")]


def test_what_is_left_of_other_work_is_not_continued(corpus, monkeypatch):
    monkeypatch.setattr(cache, "_EVERY", 1)
    with pytest.raises(KeyboardInterrupt):
        cached_features(corpus, Dying(dies_at=12), progress=iter)
    (part,) = paths.folder("cache").glob("features-*.part")
    (other := part.with_name("other")).write_bytes(cut := part.read_bytes()[:500])
    part.unlink()
    part.symlink_to(other)  # by whoever may write in the cache
    again = Dying()
    assert np.isfinite(cached_features(corpus, again, progress=iter)).all() and again.calls == 16
    assert other.read_bytes() == cut


def test_views_of_training_pictures_show_their_crops(corpus):
    train = corpus.rows("train")[0]
    crops = TrainingCrops(1)
    view = cached_features(corpus, CellDescriptor(), iter, train, crops)
    assert view.shape[0] == 64
    assert (view[5] == CellDescriptor()(corpus.read_pixels(train[5:6], crops=crops(train[5:6])))[0]).all()
    plain = cached_features(corpus, CellDescriptor(), iter)
    assert (view != plain[train]).mean() > 0.3
    boxes = np.array([c.box for v in range(1, 5) for c in TrainingCrops(v)(train)])
    sides = boxes[:, 2:] - boxes[:, :2]
    assert np.allclose(sides[:, 0], sides[:, 1]) and 0.6 <= sides.min() < 0.65 and 0.95 < sides.max() <= 1
    assert boxes.min() >= 0 and boxes.max() <= 1
    mirrored = [c.mirrored for v in range(1, 9) for c in TrainingCrops(v)(train)]
    assert 0.4 < np.mean(mirrored) < 0.6


@pytest.mark.parametrize("damage", ["flip", "truncate", "sidecar"])
def test_damaged_features_are_rebuilt_and_said_so(corpus, damage):
    first = np.array(cached_features(corpus, CellDescriptor(), progress=iter))
    (file,) = paths.folder("cache").glob("features-*.npy")
    if damage == "sidecar":
        file.with_suffix(".json").write_text("{")
    else:
        raw = file.read_bytes()
        file.write_bytes(raw[:-1000] if damage == "truncate" else raw[:-7] + bytes([raw[-7] ^ 1]) + raw[-6:])
    cache._verified.clear()
    with pytest.warns(UserWarning, match=f"{file.name} is damaged and is rebuilt"):
        again = cached_features(corpus, CellDescriptor(), progress=iter)
    assert (again == first).all()


def test_unusable_features_name_the_image_and_leave_nothing(corpus):
    extractor = Counting()
    extractor.spoil = True
    with pytest.raises(BadInput, match="image 'i127' are not finite"):
        cached_features(corpus, extractor, progress=iter)
    assert not [f for f in paths.folder("cache").iterdir() if f.suffix in (".npy", ".part", ".json")]


def test_a_full_disk_while_writing_features(corpus, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache, "_continued", full)
    with pytest.raises(CannotWrite, match="No space left"):
        cached_features(corpus, CellDescriptor(), progress=iter)


def test_what_an_extractor_cannot_find_is_not_called_a_full_disk_and_numbers_beyond_the_type_are_refused(tmp_path):
    def work(start):
        yield np.full((1, 2), 1e6, np.float32)
        (tmp_path / "no weights").read_bytes()

    with pytest.raises(FileNotFoundError, match="no weights"):
        cache.cached_array("mine", [1], (2, 2), np.float32, work)
    assert not list((tmp_path / "home" / "cache").glob("*.part"))
    with pytest.raises(BadInput, match="features of image 'a' are not finite as float16"):
        cache.cached_array("features", [1], (2, 2), np.float16, work, names=["a", "b"])


def test_principal_components_keep_distances(corpus):
    features = np.array(cached_features(corpus, CellDescriptor(), progress=iter), np.float32)

    def reduced(rows, width, x):
        learned = principal_components(features, rows, width)
        return (x - learned[0]) @ learned[1:].T

    z = reduced(np.arange(64), features.shape[-1], features[:2])
    ratio = np.linalg.norm(z[0] - z[1]) / np.linalg.norm(features[0] - features[1])
    other = np.linalg.norm(z[0, 3] - z[1, 9]) / np.linalg.norm(features[0, 3] - features[1, 9])
    assert ratio == pytest.approx(other, rel=1e-3)
    few = reduced(np.arange(64), 8, features[:64])
    assert np.square(few).mean() == pytest.approx(1, rel=0.05)
    (local, _), _, identity, reduction = reduced_features(corpus, features, "id", 8)
    assert np.allclose(local, reduced(corpus.rows("train")[0], 8, features), atol=0.01)
    assert np.array_equal(reduction(features[70:80])[0], local[70:80]) and identity == "id-pca8-root-mean"
    again = Reduction(np.array(reduction.components), np.array(reduction.root_mean))
    assert all(np.array_equal(x, y) for x, y in zip(again(features[:9]), reduction(features[:9]), strict=True))
    with pytest.raises(BadInput, match="reduced width must lie in"):
        reduced_features(corpus, features, "id", 500)


def test_reduced_features_bring_the_whole_picture_at_full_width(corpus):
    features = np.random.default_rng(0).normal(size=(len(corpus.images), 3, 5)).astype(np.float32)
    (_, whole), _, _, _ = reduced_features(corpus, features, "id", 2)
    train = corpus.rows("train")[0]
    expected = np.zeros(whole.shape)
    for i, picture in enumerate(features.astype(float)):
        for cell in picture:
            for c, x in enumerate(cell):
                expected[i, c] += math.copysign(math.sqrt(abs(x)), x) / len(picture)
    expected -= expected[train].mean(0)
    expected /= math.sqrt(np.square(expected[train]).mean())
    assert np.allclose(whole, expected, atol=2e-3)  # kept in half precision
    assert np.square(whole[train].astype(float)).mean() == pytest.approx(1, rel=1e-2)
    others = features.copy()
    others[np.setdiff1d(np.arange(len(features)), train)] *= 9
    assert np.array_equal(reduced_features(corpus, others, "other", 2)[0][1][train], whole[train]), (
        "only training pictures are learned from"
    )
