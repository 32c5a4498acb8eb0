"""Measures, and writes docs/benchmarks.md.

make bench                     all of it, an hour on two cores
make bench BENCH="watching"    one part; the others keep their figures
"""

from __future__ import annotations

import argparse
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
    for name in parser.parse_args().parts or PARTS:
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
