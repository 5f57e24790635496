"""One spelling for each device, so that signals of different sources meet: `pci:0000:4d:00`, `gpu:3`, `nic:mlx5_4`,
`disk:nvme2`, `cpu:57`, `dimm:B2`, `switch:nvswitch1`, `link:28`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_BDF = re.compile(r"(?:PCI:)?(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.[0-7])?$")
_NVME = re.compile(r"nvme(\d+)(?:c\d+)?(?:n\d+)?(?:p\d+)?$")
_PARTITION = re.compile(r"(sd[a-z]+|vd[a-z]+|xvd[a-z]+|hd[a-z]+)\d+$")


def pci(address: str) -> str:
    """`pci:` with a lower-case address of a four digit domain and no function; "" if it is no PCI address."""
    match = _BDF.match(address.strip().strip("[]"))
    if not match:
        return ""
    domain = (match[1] or "0").lower()[-4:].rjust(4, "0")
    return f"pci:{domain}:{match[2].lower()}:{match[3].lower()}"


def disk(name: str) -> str:
    """`disk:` with the whole drive's name: `/dev/nvme2n1p1` -> `disk:nvme2`, `sda3` -> `disk:sda`."""
    base = name.strip().rstrip(",").rsplit("/", 1)[-1]
    match = _NVME.match(base)
    if match:
        return f"disk:nvme{match[1]}"
    match = _PARTITION.match(base)
    return f"disk:{match[1] if match else base}"


def device(fields: Mapping[str, str]) -> str:
    """The device that the named groups of a rule name, "" if none. The part that fails comes before where it sits."""
    if fields.get("bdf") and (address := pci(fields["bdf"])):
        return address
    if fields.get("gpu"):
        number = fields["gpu"].removeprefix("GPU").removeprefix("gpu").lstrip("-:_ ")
        return pci(number) or f"gpu:{number}"
    if fields.get("uuid", "").startswith("GPU-"):
        return f"gpu:{fields['uuid']}"
    for name in ("hca", "ibdev", "nic"):
        if fields.get(name):
            return f"nic:{fields[name].split(':', 1)[0]}"
    if fields.get("disk"):
        return disk(fields["disk"])
    if fields.get("dimm"):
        return f"dimm:{fields['dimm']}"
    if fields.get("cpu"):
        return f"cpu:{fields['cpu']}"
    if fields.get("sw"):
        return f"switch:nvswitch{fields['sw']}"
    if fields.get("psu"):
        return f"psu:{fields['psu']}"
    return ""
