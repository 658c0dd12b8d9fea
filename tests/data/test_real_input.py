"""Flickr8k's official layout with its faults, pictures, word vectors and the feature cache."""

import io
import json
import math
import shutil
import struct
from concurrent.futures import ThreadPoolExecutor
from unicodedata import normalize

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image, ImageFile, ImageOps

from xmr_core.base import paths
from xmr_core.base.errors import BadInput, CannotWrite, DamagedFile
from xmr_core.base.fingerprint import content_hash
from xmr_core.data import config_for, prepare
from xmr_core.data.inputs import pixels_of
from xmr_core.data.readers.folder import from_frame, load_folder
from xmr_core.data.readers.official import load_flickr8k
from xmr_core.features import cache
from xmr_core.features.cache import Reduction, cached_features, principal_components, reduced_features
from xmr_core.features.cells import CellDescriptor
from xmr_core.features.images import (
    TrainingCrops,
    convert_to_rgb,
    image_reader,
    inspect_image,
    inspect_images,
    read_image,
    read_thumbnail,
)  # fmt: skip
from xmr_core.features.words import (
    UNKNOWN,
    NearestWords,
    Vocabulary,
    load_word_vectors,
    read_vocabulary,
    tokenise,
    tokenise_1,
)
from xmr_core.retrieval.ranking import Query

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


# Doors: one image is the same however it is given.

PHOTO = np.random.default_rng(3).integers(0, 256, (20, 12, 4), np.uint8)
FORMATS = {  # suffix → modes that Pillow writes there
    "png": ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"), "jpg": ("L", "RGB", "CMYK"), "webp": ("RGB", "RGBA"),
    "tiff": ("1", "L", "LA", "RGB", "RGBA", "CMYK", "LAB", "YCbCr", "I;16", "F"), "gif": ("L", "P", "RGBA"),
    "bmp": ("1", "L", "RGB", "RGBA"),
}  # fmt: skip


def in_mode(mode: str) -> Image.Image:
    if mode == "I;16":
        return Image.fromarray(PHOTO[..., 0].astype(np.uint16) * 256 + PHOTO[..., 1])
    if mode == "F":
        return Image.fromarray(PHOTO[..., 0] / np.float32(255))
    return Image.fromarray(PHOTO).convert("L" if mode == "LA" else "RGBA" if mode == "RGBA" else "RGB").convert(mode)


@pytest.mark.parametrize(("suffix", "mode"), [(s, m) for s, modes in FORMATS.items() for m in modes])
def test_every_door_gives_the_same_pixels(tmp_path, suffix, mode):
    for orientation in (1,) if suffix in ("gif", "bmp") else range(1, 9) if mode in ("RGB", "L") else (1, 6):
        image, file = in_mode(mode), tmp_path / f"ein \u00fcber # 100%, u\u0308.{suffix.upper()}"
        exif = Image.Exif()
        exif[0x0112] = orientation
        image.save(file, **({"exif": exif} if orientation > 1 else {}))
        want, content = pixels_of(file), file.read_bytes()
        assert want.shape == ((20, 12, 3) if orientation < 5 else (12, 20, 3)) and want.dtype == np.uint8
        (wrong := tmp_path / "wrong.jpe").write_bytes(content)
        (loaded := Image.open(file)).load()
        forms = [str(file), wrong, content, io.BytesIO(content), Image.open(file)]
        forms += [loaded] * (suffix != "tiff" or orientation < 5)  # Pillow turns what it mapped into rubbish
        forms += [{"bytes": content, "path": None}, {"bytes": None, "path": str(file)}]
        forms += [Query("upload", pixels=content).pixels]
        turned = ImageOps.exif_transpose(Image.open(io.BytesIO(content)))
        forms += [turned] + [np.asarray(turned)] * (turned.mode in ("1", "L", "LA", "RGB", "RGBA", "I;16", "F"))
        for form in forms:
            assert np.array_equal(pixels_of(form), want), (type(form), orientation)
        for corpus in (
            load_folder(tmp_path),
            from_frame(pd.DataFrame({"image": [file.name], "caption": ["a"]}), tmp_path),
        ):
            assert np.array_equal(corpus.read_pixels([0], 12)[0], read_image(file, 12))
        assert np.array_equal(read_thumbnail(file, 20), want) or suffix == "jpg"


RGB, GREY, ALPHA = PHOTO[..., :3], np.stack([PHOTO[..., 0]] * 3, -1), pixels_of(Image.fromarray(PHOTO))
ARRAYS = {  # what is given → its pixels
    "h w": (PHOTO[..., 0], GREY), "h w 1": (PHOTO[..., :1], GREY), "1 h w": (PHOTO[None, ..., 0], GREY),
    "h w 4": (PHOTO, ALPHA), "4 h w": (np.moveaxis(PHOTO, 2, 0), ALPHA), "3 h w": (np.moveaxis(RGB, 2, 0), RGB),
    "h w 2": (PHOTO[..., [0, 3]], pixels_of(Image.fromarray(np.ascontiguousarray(PHOTO[..., [0, 3]])))),
    "torch": (torch.from_numpy(RGB / np.float32(255)).permute(2, 0, 1), RGB), "float64": (RGB / 255, RGB),
    "float16": ((RGB / 255).astype(np.float16), RGB), "bfloat16": (torch.ones(20, 12, 3).bfloat16(), RGB * 0 + 255),
    "uint16": (RGB.astype(np.uint16) * 256 + 9, RGB), "of another order": (RGB.astype(">u2") * 256, RGB),
    "bool": (RGB > 99, (RGB > 99) * np.uint8(255)),
}  # fmt: skip


@pytest.mark.parametrize("form", ARRAYS)
def test_arrays_are_read_by_their_type_and_shape(form):
    given, want = ARRAYS[form]
    assert np.array_equal(pixels_of(given), want) and pixels_of(given).dtype == np.uint8


UNREAD = {
    "int64": RGB.astype(int), "uint32": RGB.astype(np.uint32), "floats to 255": RGB.astype(float),
    "NaN": np.full((4, 4, 3), np.nan), "negative": RGB / -255, "infinite": np.full((4, 4), np.inf), "none": RGB[:0],
    "5 channels": np.zeros((9, 9, 5), np.uint8), "4 axes": RGB[None], "a tensor of 3 × 9 × 3": torch.zeros(3, 9, 3),
    "mode I": Image.fromarray(PHOTO[..., 0]).convert("I"), "mode F": Image.fromarray(PHOTO[..., 0]).convert("F"),
    "no image": b"GIF89a", "a number": 3, "no row of a data set": {"label": 3},
}  # fmt: skip


@pytest.mark.parametrize("form", UNREAD)
def test_what_has_no_known_white_or_shape_is_refused(form):
    with pytest.raises((BadInput, DamagedFile)):
        pixels_of(UNREAD[form])


@pytest.mark.parametrize("top", [255, 256, 4095, 65535])
def test_the_largest_number_of_an_image_does_not_scale_it(tmp_path, top):
    values = np.arange(top - 15, top + 1, dtype=np.uint16).reshape(4, 4)
    Image.fromarray(values).save(tmp_path / "a.png"), Image.fromarray(values).save(tmp_path / "a.tif")
    for suffix in ("png", "tif"):
        assert np.array_equal(pixels_of(tmp_path / f"a.{suffix}")[..., 0], values >> 8)
    assert np.array_equal(pixels_of(values)[..., 2], values >> 8)


def tiff_of(values: np.ndarray, **tags: int) -> bytes:
    """A grey TIFF of these numbers. tags: as _262=0 for one in which white is zero."""
    h, w = values.shape
    head = {256: w, 257: h, 258: 8 * values.itemsize, 259: 1, 262: 1, 277: 1, 278: h, 279: values.nbytes}
    head |= {int(name[1:]): value for name, value in tags.items()}
    head[273] = 8 + 2 + 12 * (len(head) + 1) + 4
    rows = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in sorted(head.items()))
    return struct.pack("<2sHIH", b"II", 42, 8, len(head)) + rows + bytes(4) + values.tobytes()


def test_numbers_of_tiffs():
    deep, packed = (
        np.array([[0, 1000, 40000, 65535]], "<u2"),
        np.array([[0x00, 0x0F, 0xFF, 0x80, 0x0F, 0xFF]], np.uint8),
    )
    assert pixels_of(tiff_of(deep, _262=0))[0, :, 0].tolist() == [255, 252, 99, 0], "white is zero"
    assert pixels_of(tiff_of(packed, _256=4, _258=12))[0, :, 0].tolist() == [0, 255, 128, 255], "12 bits"
    for signed in (deep, packed):
        with pytest.raises(DamagedFile, match="signed"):
            pixels_of(tiff_of(signed, _339=2))
    for floats in ([0, 2], [0, np.nan]):
        with pytest.raises(DamagedFile, match="must lie from 0"):
            pixels_of(tiff_of(np.array([floats], "<f4"), _339=3))
    with pytest.raises(DamagedFile, match="more than"):  # before a tile of gigabytes is filled
        pixels_of(tiff_of(deep, _322=30000, _323=30000, _324=8, _325=8))


def test_truncated_images_are_no_images_whatever_the_program_has_asked_of_pillow(monkeypatch):
    Image.fromarray(np.tile(RGB, (9, 9, 1))).save(file := io.BytesIO(), "JPEG")
    half = file.getvalue()[: len(file.getvalue()) // 2]
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    for form in (half, io.BytesIO(half), Image.open(io.BytesIO(half))):
        with pytest.raises(DamagedFile, match="truncated"):
            pixels_of(form)
    assert ImageFile.LOAD_TRUNCATED_IMAGES and inspect_images([io.BytesIO(half)])[0][0]


@pytest.mark.parametrize("suffix", ["jpeg", "png", "webp"])
def test_exif_data_that_are_none_turn_nothing(suffix):
    plain, odd = io.BytesIO(), io.BytesIO()
    Image.fromarray(RGB).save(plain, suffix), Image.fromarray(RGB).save(odd, suffix, exif=b"Exif\0\0garbage")
    assert np.array_equal(pixels_of(odd), pixels_of(plain))


def test_a_jpeg_of_very_many_scans_is_refused_at_once():
    Image.new("L", (3000, 3000)).save(file := io.BytesIO(), "JPEG", progressive=True)
    content = file.getvalue()
    assert pixels_of(content).shape == (3000, 3000, 3)
    with pytest.raises(DamagedFile, match="scans"):
        pixels_of(content[:-2] + content[content.rindex(b"\xff\xda") : -2] * 300 + content[-2:])


@pytest.mark.parametrize("error", [MemoryError(), OSError("out of memory error when reading image file")])
def test_a_lack_of_memory_is_no_fault_of_a_file(tmp_path, monkeypatch, error):
    Image.fromarray(RGB).save(tmp_path / "a.png")

    def fails(*_, **__):
        raise error

    monkeypatch.setattr("xmr_core.features.images.convert_to_rgb", fails)
    for read in (read_image, pixels_of, inspect_image, lambda path: image_reader([path])([0])):
        with pytest.raises(MemoryError):
            read(tmp_path / "a.png")


def test_all_images_that_cannot_be_read_are_named_before_any_is_described(flickr, monkeypatch):
    whole = load_flickr8k(flickr)
    for n in (2, 5, 6):
        (flickr / "Flicker8k_Dataset" / f"{n}.jpg").write_bytes(b"no image")
    corpus, extractor = load_flickr8k(flickr), CellDescriptor(32)
    monkeypatch.setattr(CellDescriptor, "__call__", None)
    config = config_for(corpus, features="pixels")
    for read in (lambda: cached_features(corpus, extractor, iter), lambda: prepare(config)):
        with pytest.raises(DamagedFile, match=r"3 of 8 images cannot be read: 2\.jpg .*, 5\.jpg .*, 6\.jpg "):
            read()
    shutil.rmtree(flickr / "Flicker8k_Dataset")  # and what is known to be whole is not read again
    cache_of = paths.folder("cache") / f"readable-{whole.image_fingerprint}.json"
    cache_of.write_text("{}")
    assert prepare(config_for(whole, features="pixels")).corpus is whole


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


# writing system → two sentences that differ in one person, thing or deed
SCRIPTS = {
    "Latin": ("un garçon mange", "un garcon mange"), "Turkish": ("İki köpek koşuyor", "İki köpek kosuyor"),
    "Vietnamese": ("một cậu bé", "một cầu bé"), "Greek": ("ένα αγόρι παίζει", "ένα κορίτσι παίζει"),
    "Cyrillic": ("мой мальчик", "мои мальчик"), "Hebrew": ("יֶלֶד רָץ", "יַלְדָּה רָצָה"),
    "Arabic": ("وَلَد يَلعَبُ", "وُلِد يَلعَبُ"), "Persian": ("نامه‌ای آنجا", "نامهای آنجا"),
    "Devanagari": ("एक लड़का खेल रहा है", "एक लड़की खेल रही है"), "Bengali": ("একটি ছেলে", "একটি ছোলা"),
    "Tamil": ("ஒரு சிறுவன்", "ஒரு சிறுவனி"), "Malayalam": ("അവന്‍ ഓടി", "അവന് ഓടി"),
    "Sinhala": ("ශ්‍රී", "ශ්රි"), "Thai": ("เด็กชายวิ่ง", "เด็กหญิงวิ่ง"), "Lao": ("ເດັກຊາຍ", "ເດັກຍິງ"),
    "Khmer": ("ក្មេងប្រុស", "ក្មេងស្រី"), "Burmese": ("ယောက်ျားလေး", "မိန်းကလေး"), "Tibetan": ("བུ་རྒྱུག", "བུ་མོ་རྒྱུག"),
    "Han": ("一只狗在跑", "一只猫在跑"), "Japanese": ("パンを食べる", "ハンを食べる"),
    "Hangul": ("소년이 논다", "소녀가 논다"),
    "Ethiopic": ("ወንድ ልጅ", "ሴት ልጅ"), "Georgian": ("ბიჭი თამაშობს", "გოგო თამაშობს"),
}  # fmt: skip


@pytest.mark.parametrize("one, other", SCRIPTS.values(), ids=SCRIPTS)
def test_words_of_every_script(one, other):
    v = Vocabulary.build([one, other])
    assert len({tuple(row) for row in v.encode([one, other]).ids.tolist()}) == 2
    for text in (one, other):
        forms = [f"\ufeff\u200e{normalize('NFD', text)}.\u200d", text.replace(" ", "\u2060 \u00ad")]
        assert all(tokenise(form) == tokenise(text) for form in (normalize("NFC", text), *forms))
        assert UNKNOWN not in (v.words[n] for n in v.encode(forms).ids.flatten())
    again = Vocabulary.from_json(v.to_json())
    assert again == v and again.hash == v.hash


def test_words_as_they_were():
    rng = np.random.default_rng(0)
    signs = [chr(c) for c in range(0x250) if c not in (0xAD, 0x130)]
    texts = ["".join(rng.choice(signs, 30)) for _ in range(300)] + ["".join(rng.choice(signs[:128], 30)) for _ in "ab"]
    assert [tokenise(t) for t in texts] == [tokenise_1(t) for t in texts], "of Latin letters in one piece"
    assert tokenise("İki 只狗 3️⃣ كـلـب co\u00adop do\u200dg") == ["iki", "只", "狗", "3", "كلب", "coop", "dog"]


def test_a_vocabulary_of_the_rule_before_marks_keeps_its_meaning():
    latin, hindi = ["a dog", "un café"], ["एक लड़का"]
    assert Vocabulary.build(latin).hash == content_hash([Vocabulary.build(latin).words, "words"])
    words = ("<pad>", "<start>", "<end>", "<unk>", *sorted(tokenise_1(hindi[0])))
    stored = {"idx2word": {str(n): word for n, word in enumerate(words)}, "tokeniser": "words"}
    old, now = Vocabulary.from_json(json.dumps(stored)), Vocabulary.build(hindi)
    assert UNKNOWN not in (words[n] for n in old.encode(hindi).ids[0]), "read as it was made"
    assert old.hash == content_hash([words, "words"]) and Vocabulary.from_json(old.to_json()) == old
    assert Vocabulary(words).hash != old.hash and json.loads(now.to_json())["tokeniser"] != "words"


def test_files_of_words_in_decomposed_letters(tmp_path):
    (tmp_path / "v.txt").write_text(normalize("NFD", "café 1 2\nthé 1 2.1\nniño 3 -1\n"))
    v = Vocabulary.build(["un café", "niño"])
    assert load_word_vectors(tmp_path / "v.txt", v.words)[1].sum() == 2
    assert dict(NearestWords(tmp_path / "v.txt", v)) == {"thé": "café"}
    words = [*v.words[:4], *(normalize("NFD", word) for word in v.words[4:])]
    (tmp_path / "v.json").write_text(json.dumps({"idx2word": dict(enumerate(words))}))
    assert read_vocabulary(tmp_path / "v.json").encode(["Un CAFÉ niño"]).ids.equal(v.encode(["un café niño"]).ids)


def test_files_of_words_in_capitals_and_with_a_damaged_line_elsewhere(tmp_path):
    (tmp_path / "v.txt").write_text("Hund 1 2\nman’s 2 1\nDogs 1 2.1\nhound 1 8x\n")
    v = Vocabulary.build(["ein Hund", "man's"])
    assert load_word_vectors(tmp_path / "v.txt", v.words)[1].sum() == 2
    assert dict(NearestWords(tmp_path / "v.txt", v)) == {"dogs": "hund"}
    (tmp_path / "v.txt").write_text("DOG 1 2\nDog 3 4\ndogs 5 6\n")
    assert load_word_vectors(tmp_path / "v.txt", ["dog", "dogs"])[0].tolist() == [[1, 2], [5, 6]], "the first one"


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


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252", "cp1251", "gb18030"])
def test_words_of_files_in_any_encoding(encoding, tmp_path):
    """Read as they were written, or refused: never other words."""
    word = {"cp1251": "собака", "gb18030": "小狗在跑"}.get(encoding, "größe")
    lists, vectors = tmp_path / "vocabulary.json", tmp_path / "glove.txt"
    vocabulary = Vocabulary.build([f"a {word}"])
    text = json.dumps(json.loads(vocabulary.to_json()), ensure_ascii=False)
    lists.write_bytes(text.encode(encoding))
    vectors.write_bytes(f"{word} 1 2\na 3 4\n".encode(encoding))
    if encoding.startswith("utf"):
        assert read_vocabulary(lists) == vocabulary
    else:
        with pytest.raises(BadInput, match="UTF-8 .from string"):
            read_vocabulary(lists)
    if word == "größe" and encoding != "utf-16":
        assert load_word_vectors(vectors, (word, "a"))[1].all()
    else:
        with pytest.raises(BadInput, match=r"glove\.txt"):
            load_word_vectors(vectors, (word, "a"))


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
