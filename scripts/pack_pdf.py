"""A PDF as a browser printed it, in fewer bytes: no letter is lost, and what is drawn keeps its pixels or 256 colours.

Browsers store a PNG as the deflated bytes of its pixels, three for each, without the filters of PNG, and write their
objects one by one. scripts/render_site.py uses it.
"""

import io
import struct
from pathlib import Path

import pikepdf
from PIL import Image

COLOURS = 256  # the most that a palette holds


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
