"""A PDF as a browser printed it, in fewer bytes and with bookmarks: no letter is lost, and what is drawn keeps its
pixels or 256 colours.

Browsers store a PNG as the deflated bytes of its pixels, three for each, without the filters of PNG, and write their
objects one by one. Bookmarks they write with tags for screen readers alone. scripts/print_pdf.py uses it.
"""

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pikepdf
from PIL import Image

COLOURS = 256  # the most that a palette holds


@dataclass(frozen=True)
class Place:
    """Where something stands: the number of its page, from 1, and points from the page's left and lower edge."""

    page: int
    left: float
    top: float


def places(pdf: Path) -> list[Place]:
    """Where the bookmarks of a PDF lead, in order; [] without any."""

    def below(items: list[pikepdf.OutlineItem]) -> Iterator[pikepdf.OutlineItem]:
        for item in items:
            yield item
            yield from below(item.children)

    with pikepdf.open(pdf) as document, document.open_outline() as outline:
        pages = {page.objgen: number for number, page in enumerate(document.pages, 1)}
        targets = [item.destination for item in below(outline.root)]
        return [Place(pages[target[0].objgen], float(target[2]), float(target[3])) for target in targets]


def bookmark(pdf: Path, headings: list[tuple[str, int, str, Place]]) -> None:
    """Give a PDF bookmarks: parts, in them the chapters (level 2), and in these what is below them, folded.

    headings: part, level, words and place of each, in order.
    """
    with pikepdf.open(pdf, allow_overwriting_input=True) as document:
        with document.open_outline() as outline:
            above: list[tuple[int, list[pikepdf.OutlineItem]]] = []  # the open items' levels and lists of children
            part = None
            for name, level, words, at in headings:
                if name != part:
                    part = name
                    outline.root.append(item := _item(name, at, folded=False))
                    above = [(1, item.children)]
                while above[-1][0] >= level:
                    above.pop()
                above[-1][1].append(item := _item(words, at, folded=True))
                above.append((level, item.children))
        document.save(pdf)


def _item(words: str, at: Place, folded: bool) -> pikepdf.OutlineItem:
    item = pikepdf.OutlineItem(words, at.page - 1, "XYZ", left=at.left, top=at.top)
    item.is_closed = folded
    return item


def pack(pdf: Path) -> None:
    """Write a PDF anew: drawings that a palette holds become indexed images, and all streams are deflated anew."""
    pikepdf.settings.set_flate_compression_level(9)
    with pikepdf.open(pdf, allow_overwriting_input=True) as document:
        for thing in document.objects:
            if isinstance(thing, pikepdf.Stream) and thing.get("/Subtype") == "/Image":
                index(thing)
        document.save(
            pdf,
            compress_streams=True,
            recompress_flate=True,
            object_stream_mode=pikepdf.ObjectStreamMode.generate,
        )


def index(thing: pikepdf.Stream) -> None:
    """Store an image of red, green and blue by a palette, with PNG's filters, where that takes fewer bytes. An image
    with more colours than that loses the difference between near ones; one that is a JPEG is left as it is."""
    if thing.get("/Filter") != "/FlateDecode" or "/SMask" in thing or int(thing.get("/BitsPerComponent", 0)) != 8:
        return
    size = int(thing.Width), int(thing.Height)
    pixels = thing.read_bytes()
    if len(pixels) != 3 * size[0] * size[1]:
        return  # a grey one, or one of four inks
    image = Image.frombytes("RGB", size, pixels)
    depth, palette, filtered = png_parts(image.quantize(COLOURS, dither=Image.Dither.NONE))
    if len(palette) + len(filtered) >= len(thing.read_raw_bytes()):
        return
    thing.write(
        filtered,
        filter=pikepdf.Name.FlateDecode,
        decode_parms=pikepdf.Dictionary(Predictor=15, Colors=1, BitsPerComponent=depth, Columns=size[0]),
    )
    thing.ColorSpace = pikepdf.Array(
        [pikepdf.Name.Indexed, pikepdf.Name.DeviceRGB, len(palette) // 3 - 1, pikepdf.String(palette)]
    )
    thing.BitsPerComponent = depth


def png_parts(image: Image.Image) -> tuple[int, bytes, bytes]:
    """Bits for each pixel, palette and deflated, filtered lines of an image, as a PNG of it holds them."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    data, at, parts = buffer.getvalue(), 8, {}
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        parts[kind] = parts.get(kind, b"") + data[at + 8 : at + 8 + length]
        at += length + 12
    return parts[b"IHDR"][8], parts[b"PLTE"], parts[b"IDAT"]
