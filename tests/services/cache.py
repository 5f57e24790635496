"""What the servers of the tests need, fetched and built once: jars of a Kafka broker, Beam's Prism.

The place is `FAULTBEAM_SERVICES`, else `.cache/services` in the work tree. A part is made in a folder of its own and
then renamed, under a lock: a part that is there is whole, whoever else runs tests at the same time. Standard library
only, so that the set-up can run before the environment of the tests exists.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

KAFKA_VERSION = "4.0.0"
SLF4J_VERSION = "1.7.36"
PRISM_VERSION = "2.77.0"

ROOT = Path(__file__).resolve().parents[2]

_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>faultbeam.tests</groupId>
  <artifactId>broker</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-simple</artifactId>
      <version>{SLF4J_VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""


class Unavailable(Exception):  # noqa: N818 - a state of the machine, told as a reason
    """This machine cannot run a service; the text says why and what would help."""


def place() -> Path:
    """Folder of the cache; made where it is not there."""
    folder = Path(os.environ.get("FAULTBEAM_SERVICES") or ROOT / ".cache" / "services")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def kafka_jars() -> Path:
    """Folder of the broker's jars (40 MB), fetched from Maven Central where it is not there yet (about 10 s).

    Raises Unavailable without Java 17 or Maven, or where the fetch fails.
    """
    java()
    target = place() / f"kafka-{KAFKA_VERSION}"
    with _making(target) as draft:
        if draft is not None:
            tool("mvn", "fetches the broker's jars from Maven Central (Debian: maven)")
            draft.mkdir()
            pom = draft / "pom.xml"
            pom.write_text(_POM, encoding="utf-8")
            goal = ["dependency:copy-dependencies", f"-DoutputDirectory={draft}", "-DincludeScope=runtime"]
            _run(["mvn", "--batch-mode", "--quiet", "-f", str(pom), *goal], "the broker's jars were not fetched")
    return target


def prism() -> Path:
    """Beam's Prism runner (66 MB), built by Go through its module proxy where it is not there yet (about 2.5 min).

    Raises Unavailable without Go, or where the build fails.
    """
    target = place() / f"prism-{PRISM_VERSION}"
    with _making(target) as draft:
        if draft is not None:
            tool("go", "builds Beam's Prism runner (https://go.dev/dl)")
            package = f"github.com/apache/beam/sdks/v2/go/cmd/prism@v{PRISM_VERSION}"
            with tempfile.TemporaryDirectory(dir=place(), prefix=".build") as folder:
                _run(["go", "install", package], "Prism was not built", {"GOBIN": folder})
                (Path(folder) / "prism").rename(draft)
    return target


def java() -> str:
    """Path of a Java that can run the broker (17 or later). Raises Unavailable without one."""
    found = tool("java", "runs the broker (Debian: default-jre-headless)")
    done = subprocess.run([found, "-version"], capture_output=True, text=True, check=False, timeout=60)
    words = done.stderr.split('"')
    version = words[1] if len(words) > 1 else ""
    major = version.split(".", 1)[0]
    if not major.isdigit() or int(major) < 17:
        raise Unavailable(f"java is {version or 'of an unknown version'}, the broker needs 17 or later")
    return found


def tool(name: str, why: str) -> str:
    """Path of a program. Raises Unavailable with what it is for."""
    found = shutil.which(name)
    if found is None:
        raise Unavailable(f"no {name} on the path; it {why}")
    return found


@contextmanager
def _making(target: Path) -> Iterator[Path | None]:
    """A path to make the part at, then renamed to `target`; None where the part is there already."""
    if target.exists():
        yield None
        return
    lock = target.with_name(f".{target.name}.lock")
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if target.exists():
            yield None
            return
        draft = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            yield draft
            draft.rename(target)
        finally:
            if draft.is_dir():
                shutil.rmtree(draft)
            else:
                draft.unlink(missing_ok=True)


def _run(command: list[str], failed: str, more: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **(more or {})})
    if done.returncode != 0:
        printed = (done.stdout + done.stderr).strip().splitlines()
        raise Unavailable(f"{failed} ({' '.join(command)} ended with {done.returncode}): {' / '.join(printed[-3:])}")


def set_up() -> list[tuple[str, str, float]]:
    """Every part made or found: (part, path or the reason why not, seconds); a reason starts with `not available`."""
    done = []
    for name, make in (("kafka", kafka_jars), ("prism", prism)):
        began = time.monotonic()
        try:
            told = str(make())
        except Unavailable as error:
            told = f"not available: {error}"
        done.append((name, told, time.monotonic() - began))
    return done
