"""Any folder of images, with captions in one of the layouts that people use, or without captions."""

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath

import pandas as pd

from xmr_core.base.errors import BadInput
from xmr_core.base.files import existing
from xmr_core.base.types import Corpus
from xmr_core.data.images.files import SUFFIXES
from xmr_core.data.readers.assembly import image_table, photograph_corpus, require_name
from xmr_core.data.readers.caption_file import caption_table, frame_records
from xmr_core.data.readers.caption_sources import SOUGHT, WrittenCaptions, read_captions
from xmr_core.data.readers.fault_log import FaultLog
from xmr_core.data.readers.files import list_images
from xmr_core.data.readers.folder_splits import completed, folder_splits, hash_split, written_splits


def load_folder(data_root: Path | str, faults: FaultLog | None = None) -> Corpus:
    """Corpus of the images in a folder and its sub-folders. image_id: the path below the folder ('holiday/beach.jpg').

    Captions, any number for an image, stand in files that `read_captions` finds: a table, lines of JSON, metadata of
    the library datasets, or COCO's JSON. A line names its image by this path, by a longer path that ends in it, or by
    an end of it that only one image has. Without such a file the corpus can be searched: every image is in test, and
    there are no captions.
    Splits come from a column split; a blank means none. Without it they come, for metadata and COCO's JSON, from lists
    of names, names of files and sub-folders, where a missing val or test is a tenth of train; otherwise an image with
    captions gets a split by a hash of its image_id, 80 % train, 10 % val and 10 % test, so that adding images moves no
    other; an image without captions gets none. about['captions'] says which file was read, about['splits'] which way
    was taken.
    Tolerated: as in read_caption_file and photograph_corpus; captions given twice in a table (in metadata and COCO's
    JSON they count twice, as in published collections), names that fit several images, names whose accents are written
    in another form than those of the files.
    Raises: BadInput for a folder without images, two caption files, captions of which none names an image in the
        folder, unknown splits, an image in two splits.
    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("RGB", (9, 9)).save(f"{folder}/dog.png")
    ...     load_folder(folder).images["split"].to_dict()
    {'dog.png': 'test'}
    """
    faults = faults or FaultLog()
    base, files = _images_of(data_root, faults)
    written = read_captions(base, files, faults)
    if written is None:
        suffixes = (".csv", ".tsv", ".json", ".jsonl", ".txt", ".parquet")
        texts = sorted(path.name for path in base.iterdir() if path.suffix.lower() in suffixes)
        faults.tolerate(f"text files that are not read (captions are looked for in {SOUGHT})", texts)
    return _corpus("folder", base, files, written, faults)


def from_frame(frame: pd.DataFrame, images: Path | str, name: str = "frame") -> Corpus:
    """A Corpus of captions in a pandas frame and images in a folder, on which every method can be trained.

    frame: a row for each caption, or for each image with a list of captions; columns as in a caption file: image (or
    file, filename, file_name), caption (or text, captions) and, if wanted, split and caption_id. images: the folder;
    names of images and splits are understood as by `load_folder`. name: of the corpus, for tables and names of runs.
    Train on it with `train_or_load(base_config("dive").replace(data=config_for(corpus)))`.
    Raises: BadInput for a frame without rows or without a column that is needed, for a name that is no word, and as
        `load_folder`.
    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("RGB", (9, 9)).save(f"{folder}/dog.png")
    ...     frame = pd.DataFrame({"image": ["dog.png"], "caption": [["A dog.", "A pet."]], "split": ["train"]})
    ...     from_frame(frame, folder).captions["text"].to_dict()
    {'dog.png#0': 'A dog.', 'dog.png#1': 'A pet.'}
    """
    require_name(name)
    faults = FaultLog()
    base, files = _images_of(images, faults)
    table = caption_table(frame_records(frame), "the frame", faults)
    return _corpus(name, base, files, WrittenCaptions(table, "the frame", "a frame", "column split"), faults)


def _images_of(folder: Path | str, faults: FaultLog) -> tuple[Path, dict[str, str]]:
    """(the folder, image_id → path of each image in it)."""
    base = existing(folder, "data_root of folder")
    files = list_images(base, deep=True, faults=faults) if base.is_dir() else {}
    if not files:
        formats = f"({', '.join(SUFFIXES)} are looked for, in sub-folders too)"
        raise BadInput(f"folder: no image in {base} {formats}. Give the right data_root.")
    return base, files


def _corpus(
    name: str, base: Path, files: Mapping[str, str], written: WrittenCaptions | None, faults: FaultLog
) -> Corpus:
    if written is None:
        captions = pd.DataFrame({"image_id": [], "text": []}, index=pd.Index([], name="caption_id"), dtype=object)
        split_of, origin = dict.fromkeys(files, "test"), "no captions: every image in test, to be searched"
    else:
        captions, split_of, origin = _captions(written, base, files, faults)
    about = {"splits": origin, **({"captions": written.names} if written else {})}
    return photograph_corpus(name, image_table(files, split_of), captions, faults, usual=0, about=about)


def _captions(
    written: WrittenCaptions, base: Path, files: Mapping[str, str], faults: FaultLog
) -> tuple[pd.DataFrame, dict[str, str], str]:
    """(captions, image_id → split, how the splits came about)."""
    table = written.table
    matches = _match_names(table["image"].unique(), files, faults)
    several = {name: f"{name}: {', '.join(ids[:3])}" for name, ids in matches.items() if len(ids) > 1}
    faults.tolerate("names that fit several images, their captions dropped", several.values())
    table = table[~table["image"].isin(several)]
    owners = [(matches[name] or [name])[0] for name in table["image"]]
    table = table.assign(image_id=pd.Series(owners, table.index, dtype=object))
    exists = table["image_id"].isin(files)
    if len(table) and not exists.any():
        faults.refuse(
            f"{written.source}: none of the {len(table):,} captions names an image of the folder. The first names "
            f"{table['image'].iloc[0]!r}; the images in {base} are called like {min(files)!r}."
        )
    split_of, origin = _splits(written, table[exists], files, faults)
    if not written.collection:
        twice = table.duplicated(["image_id", "text"])
        faults.tolerate("captions given twice for an image", table["image"][twice])
        table = table[~twice]
    default_ids = table["image_id"] + "#" + table.groupby("image_id").cumcount().astype(str)
    ids = table["caption_id"].where(table["caption_id"] != "", default_ids)
    return table.set_index(pd.Index(ids.tolist(), name="caption_id"))[["image_id", "text"]], split_of, origin


def _splits(
    written: WrittenCaptions, table: pd.DataFrame, files: Mapping[str, str], faults: FaultLog
) -> tuple[dict[str, str], str]:
    """(image_id → split, how it came about). table: the captions whose image exists, with their image_id."""
    ids = table["image_id"].unique().tolist()
    if written.listed:
        names = _match_names(written.listed, files)
        split_of = {i: split for name, split in written.listed.items() for i in names[name] if len(names[name]) == 1}
        absent = [name for name in written.listed if not names[name]]
        faults.refuse_items(absent, "the lists of splits name", "images that are not in the folder")
        return {i: split_of[i] for i in ids if i in split_of}, "lists of names, train.txt and so on"
    if "split" in table:
        split_of, how = written_splits(table, written.source, faults), ""
        if written.collection:
            split_of, how = completed(split_of)
        return split_of, f"{written.split_origin}{how}"
    if written.collection and (in_folders := folder_splits(ids)):
        split_of, how = completed(in_folders)
        return split_of, f"names of sub-folders{how}"
    rule = "by a hash of each image's name, 80 % train, 10 % val, 10 % test"
    return {image_id: hash_split(image_id) for image_id in ids}, f"{rule}, because {written.names} has no column split"


def _match_names(
    names: Iterable[str], files: Mapping[str, str], faults: FaultLog | None = None
) -> dict[str, list[str]]:
    """Name of an image as somebody wrote it → the image_ids that it can mean.

    Where none fits letter by letter, é as one character and as e with an accent are the same: macOS writes the second.
    """
    index = _by_last_part(files, str)
    matches = {name: _fitting(name, index) for name in names}
    if other := [name for name, ids in matches.items() if not ids and not name.isascii()]:
        index = _by_last_part(files, _composed)
        matches |= {name: _fitting(_composed(name), index) for name in other}
        if faults is not None:
            fault = "names of images whose accents are written in another form"
            faults.tolerate(fault, [name for name in other if matches[name]])
    return matches


def _by_last_part(files: Iterable[str], form: Callable[[str], str]) -> dict[str, dict[str, list[str]]]:
    """Last part of a name → the names with it, in that form → their image_ids."""
    out: dict[str, dict[str, list[str]]] = {}
    for image_id in files:
        name = form(image_id)
        out.setdefault(PurePosixPath(name).name, {}).setdefault(name, []).append(image_id)
    return out


def _fitting(written: str, index: Mapping[str, Mapping[str, list[str]]]) -> list[str]:
    """The image_ids of the name itself, else of the longest name that ends it, else of all names that it ends."""
    plain = written.replace("\\", "/").removeprefix("./")
    names = index.get(PurePosixPath(plain).name, {})
    if ends := [name for name in names if f"/{plain}".endswith(f"/{name}")]:
        return names[max(ends, key=len)]
    return [image_id for name, ids in names.items() if name.endswith(f"/{plain}") for image_id in ids]


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)
