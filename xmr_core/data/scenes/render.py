"""Scenes as pixels: 64 × 64 RGB, anti-aliased shapes on textured backgrounds, with noise and a change of light.

Shapes are drawn from their signed distances, with array operations on many images at once: a thousand images take
about a second on one core, and no drawing library is needed.
"""

import numpy as np
from jaxtyping import Float, UInt8

from xmr_core.data.scenes.world import LATTICE, MAX_OBJECTS, Scenes

RESOLUTION = 64
_CELL = RESOLUTION / LATTICE
_RADIUS = np.array([4.5, 6.5, 9.0], np.float32)  # pixels, for each size
_PATCH = np.arange(-12, 13, dtype=np.float32)  # pixels around an object; fits the largest with its tilt and smooth rim
# red, green and blue of each colour
_RGB = np.float32([[215, 35, 35], [240, 135, 20], [240, 220, 40], [35, 160, 60], [40, 80, 220], [140, 50, 180]])
NOISE_SD = 7.0  # grey levels
LIGHT = 0.12  # largest relative change of brightness, in both directions


def render(scenes: Scenes, rng: np.random.Generator) -> UInt8[np.ndarray, "n 64 64 3"]:
    """Draw the scenes. rng: for noise, the phase of textures and light; the scenes themselves hold everything else.

    >>> from xmr_core.data.scenes.world import sample_scenes
    >>> rng = np.random.default_rng(0)
    >>> render(sample_scenes(2, rng), rng).shape
    (2, 64, 64, 3)
    """
    canvas = _backgrounds(scenes.background, rng)
    for slot in range(MAX_OBJECTS):
        rows = np.flatnonzero(scenes.present[:, slot])
        if len(rows):
            _draw(canvas, rows, scenes, slot)
    light = 1 + rng.uniform(-LIGHT, LIGHT, (len(scenes), 1, 1, 1)).astype(np.float32)
    noise = rng.standard_normal(canvas.shape, dtype=np.float32) * NOISE_SD
    return np.clip(canvas * light + noise, 0, 255).astype(np.uint8)


def object_masks(scenes: Scenes) -> Float[np.ndarray, "n 5 64 64"]:
    """How much of each pixel each object covers, in [0, 1]; 0 throughout for objects that are not present.

    The hole of a ring is no part of it.

    >>> from xmr_core.data.scenes.world import sample_scenes
    >>> scenes = sample_scenes(2, np.random.default_rng(0))
    >>> bool(((object_masks(scenes).sum((2, 3)) > 0) == scenes.present).all())
    True
    """
    masks = np.zeros((len(scenes), MAX_OBJECTS, RESOLUTION, RESOLUTION), np.float32)
    for slot in range(MAX_OBJECTS):
        rows = np.flatnonzero(scenes.present[:, slot])
        if len(rows):
            (image, y, x), cover = _covered(rows, scenes, slot)
            masks[image, slot, y, x] = cover[..., 0]
    return masks


def _draw(canvas: Float[np.ndarray, "n h w 3"], rows: np.ndarray, scenes: Scenes, slot: int) -> None:
    """Blend one object of each image in `rows` into the canvas, in place."""
    pixels, cover = _covered(rows, scenes, slot)
    canvas[pixels] = canvas[pixels] * (1 - cover) + _RGB[scenes.colour[rows, slot]][:, None, None, :] * cover


def _covered(rows: np.ndarray, scenes: Scenes, slot: int) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """(index of the pixels around one object of each image in `rows`, the share of each that the object covers)."""
    dx, dy, dr, tilt = scenes.jitter[rows, slot].T
    row, column = np.divmod(scenes.place[rows, slot], LATTICE)
    x, y = (column + 0.5) * _CELL + 1.5 * dx, (row + 0.5) * _CELL + 1.5 * dy
    radius = (_RADIUS[scenes.size[rows, slot]] * (1 + 0.06 * dr))[:, None, None]
    ix, iy = np.floor(x).astype(int), np.floor(y).astype(int)
    u = _PATCH[None, None, :] - (x - ix)[:, None, None]
    v = _PATCH[None, :, None] - (y - iy)[:, None, None]
    angle = (0.14 * tilt)[:, None, None]  # at most 8 degrees: a tilted square stays a square, not a diamond
    u, v = (np.cos(angle) * u + np.sin(angle) * v) / radius, (np.cos(angle) * v - np.sin(angle) * u) / radius
    cover = np.clip(0.5 - _distance(scenes.shape[rows, slot], u, v) * radius, 0, 1).astype(np.float32)[..., None]
    pixels = (
        rows[:, None, None],
        (iy[:, None] + _PATCH.astype(int)).clip(0, RESOLUTION - 1)[:, :, None],
        (ix[:, None] + _PATCH.astype(int)).clip(0, RESOLUTION - 1)[:, None, :],
    )
    return pixels, cover


def _distance(shape: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Signed distance to the shape of each image, in units of its radius; negative inside. u: right, v: down."""
    out = np.empty(np.broadcast_shapes(u.shape, v.shape), np.float32)
    for s in np.unique(shape):
        rows = shape == s
        out[rows] = _SHAPES[s](u[rows], v[rows])
    return out


_SHAPES = (
    lambda u, v: np.hypot(u, v) - 1,  # circle
    lambda u, v: np.maximum(abs(u), abs(v)) - 0.86,  # square
    lambda u, v: np.maximum(0.866 * abs(u) - 0.5 * v, v) - 0.6,  # triangle, point up
    lambda u, v: (abs(u) * 1.25 + abs(v) * 0.8) * 0.8 - 0.86,  # diamond, taller than wide
    lambda u, v: np.minimum(np.maximum(abs(u) - 1, abs(v) - 0.32), np.maximum(abs(u) - 0.32, abs(v) - 1)),  # cross
    lambda u, v: abs(np.hypot(u, v) - 0.76) - 0.24,  # ring
)


def _backgrounds(kind: np.ndarray, rng: np.random.Generator) -> Float[np.ndarray, "n 64 64 3"]:
    """One texture for each background; a random phase makes two images with the same background different."""
    x, y = np.meshgrid(*[np.arange(RESOLUTION, dtype=np.float32)] * 2)
    phase = rng.integers(0, RESOLUTION, (len(kind), 2))
    stars = rng.random((RESOLUTION, RESOLUTION)) > 0.985
    flakes = rng.random((RESOLUTION, RESOLUTION)) > 0.95
    mortar = (y % 10 < 1.5) | ((x + 8 * (y // 10 % 2)) % 16 < 1.5)
    texture = np.stack(
        [
            np.stack([205 + 8 * np.sin(x / 7 + y / 3), 180 + 8 * np.sin(x / 7 + y / 3), 130 + 0 * x], -1),  # sand
            np.stack([110 + 18 * np.sin(x * 1.3), 150 + 18 * np.sin(x * 1.3), 85 + 0 * x], -1),  # grass
            np.stack([100 + 0 * x, 165 + 14 * np.sin(y / 2), 195 + 14 * np.sin(y / 2)], -1),  # water
            np.stack([25 + 190 * stars, 25 + 190 * stars, 45 + 170 * stars], -1),  # night
            np.stack([228 - 50 * flakes, 232 - 40 * flakes, 238 - 20 * flakes], -1),  # snow
            np.stack([150 + 45 * mortar, 95 + 80 * mortar, 80 + 85 * mortar], -1),  # brick
        ]
    ).astype(np.float32)
    rows = (np.arange(RESOLUTION)[None, :] + phase[:, :1]) % RESOLUTION
    columns = (np.arange(RESOLUTION)[None, :] + phase[:, 1:]) % RESOLUTION
    return texture[kind[:, None, None], rows[:, :, None], columns[:, None, :]]
