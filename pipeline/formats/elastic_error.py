"""Error files that torchelastic's `@record` writes, one a failed worker.

Shape: `{"message": {"message": ..., "extraInfo": {"py_callstack": ..., "timestamp": "..."}}}`. The lines of the
traceback and the message go through the rules with the file's own stamp (epoch seconds, UTC). Rank and host come from
the path where it names them (`.../attempt_0/3/error.json`: local rank 3 of attempt 0). A message that is a plain
string, written by the agent when the worker left no traceback, is read too.
"""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath

from pipeline.formats.base import LineMatcher, SourceInfo
from pipeline.formats.records import Collector
from pipeline.stamps import parse_field
from schemas.facts import NO_STAMP, Facts

_SHAPE = re.compile(rb'"message"\s*:\s*(?:\{|")')
_STACK = re.compile(rb'"(?:py_callstack|extraInfo)"\s*:')
_RANK = re.compile(r"(?:^|[/!_.-])(?:global_?)?rank[_-]?(\d{1,6})(?=[/_.-]|$)")
_ATTEMPT = re.compile(r"attempt_(\d+)/(\d+)/")
_HOST = re.compile(r"(?:^|/)(?:hosts?|nodes?)/([A-Za-z0-9][\w.-]*)/")


class ElasticError:
    """Error file of a PyTorch worker."""

    name = "torchelastic.error"
    family = "job"

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{" or not _SHAPE.search(head[:4096]):
            return 0.0
        return 0.9 if _STACK.search(head) else 0.0

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        out = Collector(info, self.name, self.family, data)
        try:
            document = json.loads(data.decode("utf-8", "replace").removeprefix("\ufeff"))
        except (ValueError, RecursionError) as err:
            out.quarantine(0, len(data), f"not JSON: {err}"[:200])
            return out.result()
        body = document.get("message") if isinstance(document, dict) else None
        message = body.get("message") if isinstance(body, dict) else body
        extra = body.get("extraInfo") if isinstance(body, dict) else None
        if not isinstance(message, str):
            out.quarantine(0, len(data), "no text under message.message")
            return out.result()
        stack = extra.get("py_callstack") if isinstance(extra, dict) else None
        stamp = parse_field(str(extra.get("timestamp", ""))) if isinstance(extra, dict) else NO_STAMP
        where = info.inner_path.replace("\\", "/")
        rank = int(m[1]) if (m := _RANK.search(where)) else None
        host = m[1] if (m := _HOST.search(where)) else ""
        if m := _ATTEMPT.search(where):
            out.facts.add(f"elastic_attempt={m[1]}")
            out.facts.add(f"local_rank={m[2]}")
        out.facts.add(f"error_file={PurePosixPath(where).name}")
        seen: set[str] = set()
        texts = [*(stack.split("\n") if isinstance(stack, str) else ()), *message.split("\n")]
        for text in texts:
            text = text.rstrip()
            # The message is the stack's last line once more.
            if not text or text in seen:
                continue
            seen.add(text)
            at = _offset(data, text)
            line = data.count(b"\n", 0, at) + 1
            out.matched(match(text, offset=at, line=line, stamp=stamp, host=host, rank=rank), stamp)
        out.host = host
        return out.result()


def _offset(data: bytes, text: str) -> int:
    """Where a line of the stack stands in the file, as JSON writes it; 0 if it is written otherwise."""
    for ascii_only in (True, False):
        written = json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode("utf-8", "surrogatepass")
        found = data.find(written)
        if found >= 0:
            return found
    return 0


FORMATS = (ElasticError(),)
