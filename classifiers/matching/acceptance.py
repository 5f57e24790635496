"""Do both scan engines take a regex? An engine that is not installed is not asked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from classifiers.errors import EngineError
from classifiers.knowledge.files import cache_dir, write_quietly
from schemas.identity import digest

#: Regexes that Hyperscan compiles at a time for a check: its time grows faster than their number.
_TOGETHER = 24


def all_accepted(regexes: Sequence[str]) -> bool:
    """Whether both engines take all of them. What Hyperscan took once is remembered: compiling all takes 10 s."""
    try:
        from classifiers.matching.re2_engine import compile_re2

        for regex in regexes:
            compile_re2(regex.encode())
    except ImportError:
        pass
    except EngineError:
        return False
    try:
        import hyperscan

        from classifiers.matching.hyperscan_engine import compile_database, library
    except ImportError:
        return True
    store = cache_dir() / f"accepted-{digest(library())}.json"
    try:
        known = set(json.loads(store.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        known = set()
    fresh = [regex for regex in regexes if digest(regex) not in known]
    try:
        for i in range(0, len(fresh), _TOGETHER):
            compile_database(fresh[i : i + _TOGETHER])
    except hyperscan.error:
        return False
    if fresh:
        write_quietly(store, json.dumps(sorted(known | {digest(regex) for regex in fresh})).encode())
    return True


def refusals(regex: str) -> Iterator[str]:
    """Why an engine refuses this regex, a sentence for each; nothing where both take it."""
    try:
        from classifiers.matching.re2_engine import compile_re2
    except ImportError:
        pass
    else:
        try:
            compile_re2(regex.encode())
        except EngineError as err:
            yield str(err)
    try:
        import hyperscan

        from classifiers.matching.hyperscan_engine import compile_database
    except ImportError:
        return
    try:
        compile_database([regex])
    except hyperscan.error as err:
        yield f"Hyperscan refuses {regex[:120]!r}: {err}"
