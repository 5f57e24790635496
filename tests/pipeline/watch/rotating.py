"""A writer that logs at speed and rotates its files in every way that is in use, by a seed.

Nothing that was written is ever removed for good, so that all lines can be counted at the end.
"""

from __future__ import annotations

import gzip
import os
import random
import shutil
import tempfile
from pathlib import Path

from tests.pipeline.watch.site import noise, xid

_HEAD = "2026-03-04T10:00:00.000000+00:00 node01 kernel: Linux version 5.15.0-1042 (buildd@lcy02) #1 SMP\n"


class Writer:
    """Writes below a folder. lines: how many with a signal were written, with those that are not ended yet."""

    def __init__(self, folder: Path, seed: int, files: int = 4) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.names = [f"host{n:02d}/kern.log" for n in range(files)]
        self.lines = 0
        self._number = 0
        self._rest: dict[str, bytes] = {}
        self._rotated: dict[str, int] = dict.fromkeys(self.names, 0)
        self.done: dict[str, int] = {}
        for name in self.names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            self._fresh(name)

    def step(self) -> None:
        """A burst of lines into one file, and perhaps a rotation."""
        name = self.random.choice(self.names)
        self._burst(name)
        if self.random.random() < 0.04:
            how = self.random.choice(["rename", "rename", "dated", "copytruncate", "pack", "pack", "replace"])
            self.done[how] = self.done.get(how, 0) + 1
            getattr(self, f"_{how}")(self.random.choice(self.names))

    def end(self) -> None:
        """End the lines that are not ended."""
        for name in self.names:
            self._append(name, b"")

    def _burst(self, name: str) -> None:
        host = name.split("/")[0]
        out = []
        for _ in range(self.random.randint(1, 400)):
            self._number += 1
            minute = self._number // 200_000 % 60
            if self.random.random() < 0.03:
                out.append(xid(self._number, minute, host))
                self.lines += 1
            else:
                out.append(noise(self._number, minute, host))
        self._append(name, "".join(out).encode(), cut=self.random.random() < 0.3)

    def _append(self, name: str, data: bytes, *, cut: bool = False) -> None:
        data = self._rest.pop(name, b"") + data
        if cut:
            at = len(data) - self.random.randint(1, 120)
            data, self._rest[name] = data[:at], data[at:]
        with (self.folder / name).open("ab") as out:
            out.write(data)

    def _fresh(self, name: str) -> None:
        # some files begin alike, as logs of one kernel do
        (self.folder / name).touch()
        if name in self.names[:2]:
            self._append(name, _HEAD.encode() * self.random.randint(1, 3))

    def _rename(self, name: str) -> None:
        """logrotate's create: all numbers move up."""
        self._append(name, b"")
        path = self.folder / name
        for number in range(self._rotated[name], 0, -1):
            for ending in ("", ".gz"):
                old = path.with_name(f"{path.name}.{number}{ending}")
                if old.exists():
                    old.rename(path.with_name(f"{path.name}.{number + 1}{ending}"))
        path.rename(path.with_name(f"{path.name}.1"))
        self._rotated[name] += 1
        self._fresh(name)

    def _dated(self, name: str) -> None:
        """logrotate's dateext."""
        self._append(name, b"")
        path = self.folder / name
        path.rename(path.with_name(f"{path.name}-20260304-{self._number}"))
        self._fresh(name)

    def _copytruncate(self, name: str) -> None:
        self._append(name, b"")
        path = self.folder / name
        shutil.copyfile(path, path.with_name(f"{path.name}-20260305-{self._number}"))
        os.truncate(path, 0)
        self._fresh(name)

    def _pack(self, name: str) -> None:
        """gzip of a rotated file, in place under its final name, as logrotate's does."""
        path = self.folder / name
        plain = [p for p in path.parent.glob(f"{path.name}[.-]*") if p.suffix != ".gz"]
        if not plain:
            return
        old = self.random.choice(sorted(plain))
        packed = old.with_name(f"{old.name}.gz")
        with old.open("rb") as raw, gzip.open(packed, "wb", compresslevel=1) as out:
            shutil.copyfileobj(raw, out, 1 << 14)
        old.unlink()

    def _replace(self, name: str) -> None:
        """An editor's way: the same text and one more line in a new file that takes the place of the old one."""
        self._append(name, b"")
        path = self.folder / name
        self._number += 1
        with tempfile.NamedTemporaryFile(dir=self.folder.parent, delete=False) as out:
            out.write(path.read_bytes() + noise(self._number, 1, name.split("/")[0]).encode())
        Path(out.name).rename(path)
