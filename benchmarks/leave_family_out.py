"""Families of job-log rules switched off, one after the other: what the text model makes of their cases.

    python -m benchmarks.leave_family_out DIR [DIR ...]

Every DIR is a set of cases as `faultbeam evaluate` reads them; the table sums over all of them. `off`: the rules are
gone, so a line is seen only where a generic failure rule marks it. `muted`: their lines are still marked, without a
meaning. `rules`, `text`, `all`: right (acceptable) cases of the family, and right of those answered with a component.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from pipeline.measuring.ablation import FAMILIES, PARTS, leave_out
from pipeline.measuring.scoring import wilson
from schemas.settings import Settings


def _share(k: int, n: int) -> str:
    share = wilson(k, n)
    return "-" if share.value is None else f"{k}/{n} ({share.low:.2f}-{share.high:.2f})"


def main(folders: list[Path]) -> None:
    """Print one line a family and mode."""
    settings = Settings()
    print("\t".join(["family", "rules", "", "cases", *(f"{p} {w}" for p in PARTS for w in ("right", "precision"))]))
    for family in FAMILIES:
        for muted in (False, True):
            found = [leave_out(folder, family, settings, muted=muted) for folder in folders]
            sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
            for one in found:
                for part, (right, precision) in one.by_part.items():
                    for i, n in enumerate((right.k, right.n, precision.k, precision.n)):
                        sums[part][i] += n
            cells = [cell for p in PARTS for cell in (_share(*sums[p][:2]), _share(*sums[p][2:]))]
            cases = sum(len(one.cases) for one in found)
            print(
                "\t".join([family, str(found[0].rules_off), "muted" if muted else "off", str(cases), *cells]),
                flush=True,
            )


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
