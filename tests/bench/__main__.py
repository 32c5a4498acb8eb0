"""Measures, and writes docs/benchmarks.md.

make bench                     all of it, an hour on two cores
make bench BENCH="watching"    one part; the others keep their figures
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

from ansible_collections.llmops.vllm.tests.bench import (
    deploy,
    growth,
    judging,
    page,
    rerun,
    results,
    scanning,
    watching,
)

PARTS = {part.__name__.rpartition(".")[2]: part for part in (watching, scanning, judging, rerun, deploy, growth)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help=", ".join(PARTS))
    names = parser.parse_args().parts or list(PARTS)
    if len(names) == 1:
        measure(*names)
        return
    # Each by a process of its own, as what a process held is counted to all that it starts (plays.py).
    for name in names:
        subprocess.run([sys.executable, "-m", __spec__.parent, name], check=True)


def measure(name: str) -> None:
    began = time.monotonic()
    print(f"{name} ...", flush=True)
    for result in PARTS[name].measure():
        results.keep(result)
        page.write()
        print(f"  {result.title}")
        for way, figures in result.rows.items():
            print(f"    {way:24} {'  '.join(str(figure) for figure in figures)}", flush=True)
    print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
