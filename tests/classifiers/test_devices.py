"""One spelling for each device, whatever the source printed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifiers.devices import device, disk, pci


@pytest.mark.parametrize(
    ("printed", "same"),
    [
        ("PCI:0000:4D:00", "pci:0000:4d:00"),
        ("0000:4d:00.0", "pci:0000:4d:00"),
        ("00000000:4D:00.0", "pci:0000:4d:00"),
        ("4d:00.0", "pci:0000:4d:00"),
        ("0019:01:00", "pci:0019:01:00"),
        ("[5e:00.0]", "pci:0000:5e:00"),
        ("node017", ""),
        ("", ""),
    ],
)
def test_pci(printed: str, same: str) -> None:
    assert pci(printed) == same


@pytest.mark.parametrize(
    ("printed", "same"),
    [("/dev/nvme2n1p1", "disk:nvme2"), ("nvme2", "disk:nvme2"), ("nvme0c1n1", "disk:nvme0"), ("sda3", "disk:sda"),
     ("dm-0", "disk:dm-0"), ("sdaa", "disk:sdaa"), ("nvme1n1,", "disk:nvme1")],
)  # fmt: skip
def test_disk(printed: str, same: str) -> None:
    assert disk(printed) == same


@pytest.mark.parametrize(
    ("fields", "same"),
    [
        ({"bdf": "0000:4d:00.0", "gpu": "3"}, "pci:0000:4d:00"),
        ({"gpu": "3"}, "gpu:3"),
        ({"gpu": "GPU-3"}, "gpu:3"),
        ({"gpu": "0000:4D:00.0"}, "pci:0000:4d:00"),
        ({"uuid": "GPU-5c1d7e02-1111-2222-3333-444400000003"}, "gpu:GPU-5c1d7e02-1111-2222-3333-444400000003"),
        ({"uuid": "MIG-5c1d7e02-1111-2222-3333-444400000003"}, ""),
        ({"hca": "mlx5_4:1"}, "nic:mlx5_4"),
        ({"nic": "ens2f0np0"}, "nic:ens2f0np0"),
        ({"disk": "nvme2n1"}, "disk:nvme2"),
        ({"dimm": "B2"}, "dimm:B2"),
        ({"cpu": "57"}, "cpu:57"),
        ({"sw": "1"}, "switch:nvswitch1"),
        ({"host": "node017"}, ""),
    ],
)
def test_device(fields: dict[str, str], same: str) -> None:
    assert device(fields) == same


@given(st.integers(0, 0xFFFF), st.integers(0, 255), st.integers(0, 31), st.integers(0, 7))
def test_all_spellings_of_an_address_meet(domain: int, bus: int, slot: int, function: int) -> None:
    forms = (
        f"{domain:04x}:{bus:02x}:{slot:02x}.{function}",
        f"{domain:08X}:{bus:02X}:{slot:02X}.{function}",
        f"PCI:{domain:04x}:{bus:02x}:{slot:02x}",
    )
    assert len({pci(form) for form in forms}) == 1
