"""`nvidia-smi -q -x`: the state of all GPUs as XML, DTDs v10 to v13.

The document is read without its DTD and without entities (an input is never trusted to name files or to unfold). See
`pipeline.records.gpu_report` for what comes of it. Positions are those of a GPU's element.
"""

from __future__ import annotations

import re
from xml.parsers import expat

from pipeline.formats.base import LineMatcher, SourceInfo
from pipeline.formats.nvidia_smi import tell
from pipeline.formats.records import Collector
from pipeline.records import gpu_report
from pipeline.records.gpu_report import Gpu
from pipeline.stamps import parse_field
from schemas.facts import NO_STAMP, Facts

_ROOT = re.compile(rb"<nvidia_smi_log[\s>]")


class NvidiaSmiXml:
    """State of GPUs as XML."""

    name = "nvidia_smi.xml"
    family = "other"

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        start = head[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
        return 0.98 if start.startswith(b"<") and _ROOT.search(head[:8192]) else 0.0

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        out = Collector(info, self.name, self.family, data)
        reader = _Tree()
        try:
            reader.read(data)
        except expat.ExpatError as err:
            at = min(max(0, reader.position), len(data))
            out.quarantine(at, len(data) - at, f"not XML from here on: {expat.ErrorString(err.code)}")
        except _UnwantedError as err:
            out.quarantine(0, len(data), str(err))
            return out.result()
        stamp = parse_field(reader.head.get("timestamp", ""))
        out.facts.update(gpu_report.scalar_facts(reader.head))
        if stamp != NO_STAMP:
            out.stamps.append(stamp)
        for gpu in reader.gpus:
            gpu.stamp = stamp
            tell(gpu, out, match)
        return out.result()


class _UnwantedError(ValueError):
    """The document declares entities."""


class _Tree:
    """Flat paths of all values: of the head, and of each GPU."""

    def __init__(self) -> None:
        self.head: dict[str, str] = {}
        self.gpus: list[Gpu] = []
        self._path: list[str] = []
        self._text: list[str] = []
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text.append
        self._parser.EntityDeclHandler = self._entity

    @property
    def position(self) -> int:
        return self._parser.CurrentByteIndex

    def read(self, data: bytes) -> None:
        self._parser.Parse(data, True)

    def _entity(self, *_declared: object) -> None:
        raise _UnwantedError("declares entities, which nvidia-smi never does: not read")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._path.append(name)
        self._text.clear()
        if name == "gpu" and len(self._path) == 2:
            place = (self._parser.CurrentByteIndex, self._parser.CurrentLineNumber)
            self.gpus.append(Gpu(*place, attributes.get("id", "")))

    def _end(self, name: str) -> None:
        text = "".join(self._text).strip()
        self._text.clear()
        if text and len(self._path) == 2 and self._path[1] != "gpu":
            self.head[name] = text
        elif text and self.gpus and len(self._path) > 2 and self._path[1] == "gpu":
            path = ".".join(self._path[2:])
            place = (self._parser.CurrentByteIndex, self._parser.CurrentLineNumber)
            self.gpus[-1].values.setdefault(path, text)
            self.gpus[-1].places.setdefault(path, place)
        self._path.pop()


FORMATS = (NvidiaSmiXml(),)
