"""Does the truth leak into the logs? Names of components, fault ids and the simulator's own words must not be there."""

from __future__ import annotations

import csv
from pathlib import Path

import re2

from schemas.taxonomy import components

#: Words of the simulator that no site would print.
_OWN = ("simulat", "fault_id", "ground truth", "root cause:", "acceptable", "recovered fault")
MAX_REPORTED = 20


def leaks(logs: Path, truth: Path) -> list[str]:
    """`file:line: word` for each leak, at most 20. Also a truth file inside the folder to ingest is one."""
    words = [c for c in components() if "." in c]
    with (truth / "attempts.tsv").open(encoding="utf-8") as rows:
        words += sorted({r["fault_id"] for r in csv.DictReader(rows, delimiter="\t") if r["fault_id"]})
    words += list(_OWN)
    pattern = re2.compile("(?i)" + "|".join(re2.escape(w) for w in words))
    found: list[str] = []
    if truth.resolve().is_relative_to(logs.resolve()):
        found.append(f"{truth}: lies inside the logs")
    for path in sorted(p for p in logs.rglob("*") if p.is_file()):
        inner = path.relative_to(logs)
        if hit := pattern.search(str(inner)):
            found.append(f"{inner}: {hit.group(0)} in the name")
        content = path.read_bytes()
        for hit in pattern.finditer(content):
            line = content.count(b"\n", 0, hit.start()) + 1
            found.append(f"{inner}:{line}: {hit.group(0).decode(errors='replace')}")
            if len(found) >= MAX_REPORTED:
                return found
    return found
