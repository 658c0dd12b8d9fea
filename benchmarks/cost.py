"""What scoring costs: seconds and memory of every similarity over gallery size, set size, width and words, and DivE's
comparison of three.

    python benchmarks/cost.py [--method SAF …] [--device cpu] [--seconds 1] [--rows reports/cost.csv] [--tiny] [--again]

Each case runs in a process of its own, so that its peak memory is its own, and its rows are written at once. Asked
again, the benchmark
goes on where it was killed: rows of the same commit, machine, threads and torch are kept; others of the same case are
replaced. Leave the machine alone meanwhile. About ten minutes on two cores; --tiny takes seconds and says nothing about
speed.
"""

import argparse
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from tqdm.auto import tqdm

from xmr_core.base.errors import XmrError
from xmr_core.study.cost import sweeps
from xmr_core.study.cost.timing import TIMED

ROWS = Path(__file__).resolve().parents[1] / "reports" / "cost.csv"


def context() -> multiprocessing.context.BaseContext:
    """Processes that start with torch imported and nothing else, where the system can fork."""
    how = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    made = multiprocessing.get_context(how)
    if how == "forkserver":
        made.set_forkserver_preload(["xmr_core.study.cost.sweeps"])
    return made


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", choices=tuple(TIMED), action="append", help="only this method; may be repeated")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--seconds", type=float, default=1.0, help="to spend on repetitions of each case")
    parser.add_argument("--rows", type=Path, default=ROWS, help="the CSV file to add to")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try it")
    parser.add_argument("--again", action="store_true", help="measure what is already there as well")
    args = parser.parse_args(words)
    start, failed = context(), 0
    try:
        rows = sweeps.read(args.rows) if args.rows.exists() else sweeps.table_of([])
        cases = sweeps.plan(args.method or TIMED, args.tiny)
        wanted = [case for case in cases if args.again or not sweeps.is_measured(rows, case, args.device)]
        print(f"{len(wanted)} of {len(cases)} cases to measure, rows in {args.rows}", flush=True)
        for case in tqdm(wanted, disable=None):
            with ProcessPoolExecutor(1, mp_context=start) as pool:
                try:
                    fresh = pool.submit(sweeps.run_case, case, args.device, args.seconds).result()
                except (BrokenProcessPool, RuntimeError, MemoryError) as e:  # killed for its memory, or refused it
                    failed += 1
                    print(f"error: {case.method}, {case.varied} {case.value}: {type(e).__name__}: {e}", file=sys.stderr)
                    continue
            rows = sweeps.joined(rows, sweeps.table_of(fresh))
            sweeps.write(rows, args.rows)
    except XmrError as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
