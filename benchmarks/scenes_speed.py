"""How many images a second does `scenes` give, from seed to features? Prints three rounds and the median.

python benchmarks/scenes_speed.py [images]
"""

import statistics
import sys
import time

import numpy as np

from xmr_core.data.features.cells import CellDescriptor
from xmr_core.data.scenes.corpus import DEFAULT_AMBIGUITY, WORLD_VERSION, make_world


def main(n: int) -> None:
    spec = {"world": WORLD_VERSION, "pictures": (n,), "seed": 0, "ambiguity": DEFAULT_AMBIGUITY}
    describe, rates = CellDescriptor(), []
    for _ in range(3):
        started = time.perf_counter()
        pixels = make_world(spec)["pixels"]
        made = time.perf_counter()
        for at in range(0, n, describe.batch):
            describe(np.asarray(pixels[at : at + describe.batch]))
        done = time.perf_counter()
        rates.append(n / (done - started))
        print(
            f"world and captions {n / (made - started):.0f}/s, features {n / (done - made):.0f}/s, "
            f"both {rates[-1]:.0f}/s"
        )
    print(f"median {statistics.median(rates):.0f} images a second")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
