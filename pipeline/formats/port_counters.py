"""Error counters of network ports as hosts print them: `ethtool -S`, `rdma statistic show`, files of sysfs.

| name | what |
|---|---|
| `ethtool` | `NIC statistics:` and `name: value` lines below, of one port or of several behind prompts or names |
| `rdma_statistic` | `link mlx5_0/1 name value name value ...` |
| `sysfs_counters` | `/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed:3`, as `grep -r .` prints them |

They hold no time and rise for ever, so a counter of errors that is not zero becomes a sentence and is context, no
fault: `ib counters: mlx5_0/1: local_ack_timeout_err 12`. Which counters tell of errors is in `_ERRORS`; those of
traffic and of congestion (pauses, marked packets) are left out. Source: Linux Documentation/ABI/stable/
sysfs-class-infiniband, Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst, iproute2 rdma.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipeline.formats.base import LineMatcher, SourceInfo
from pipeline.formats.records import Collector, RawLine, raw_lines
from schemas.facts import NO_STAMP, Facts

_ERRORS = frozenset(
    """
    symbol_error link_error_recovery link_downed port_rcv_errors port_rcv_remote_physical_errors
    port_rcv_switch_relay_errors port_xmit_constraint_errors port_rcv_constraint_errors local_link_integrity_errors
    excessive_buffer_overrun_errors
    out_of_buffer out_of_sequence packet_seq_err implied_nak_seq_err local_ack_timeout_err rnr_nak_retry_err
    req_cqe_error req_remote_access_errors req_remote_invalid_request req_transport_retries_exceeded
    req_rnr_retries_exceeded resp_cqe_error resp_local_length_error resp_remote_access_errors roce_adp_retrans_to
    rx_icrc_encapsulated
    rx_crc_errors rx_crc_errors_phy rx_symbol_err_phy rx_pcs_symbol_err_phy rx_in_range_len_errors_phy
    rx_err_lane_0_phy rx_err_lane_1_phy rx_err_lane_2_phy rx_err_lane_3_phy link_down_events_phy rx_discards_phy
    tx_errors_phy tx_timeout tx_queue_dropped rx_wqe_err module_unplug module_bus_stuck module_high_temp
    module_bad_shorted
    rx_errors tx_errors rx_fcs_err symbol_err
    """.split()  # noqa: SIM905
)
_TITLE = re.compile(r"(?:NIC|Standard) (?:statistics|stats)[^:]{0,60}:\s*$")
_VALUE = re.compile(r"\s{1,20}(?:\[\d{1,4}\]: ?)?(?P<name>[A-Za-z][\w.-]{1,60}): {1,8}(?P<value>\d{1,20})\s*$")
_ASKED = re.compile(r"(?:.{0,120}[#$] )?(?:sudo )?ethtool (?:-S|--statistics) (?P<port>[A-Za-z][\w.-]{0,30})\s*$")
_NAMED = re.compile(r"(?:[=#-]{1,8} ?)?(?P<port>(?:en|eth|ib|rdma|mlx|roce|p)\w{1,20}):?(?: ?[=#-]{1,8})?\s*$")
_LINK = re.compile(r"(?:\d{1,4}: )?link (?P<port>[A-Za-z][\w.-]{0,30}/\d{1,3}) (?P<rest>[a-z_0-9]{2,60} \d.{0,8000})$")
_PAIR = re.compile(r"(?P<name>[a-z][a-z_0-9]{1,60}) (?P<value>\d{1,20})(?= |$)")
_SYSFS = re.compile(
    r"(?:/sys/class/infiniband/)?(?P<hca>[A-Za-z][\w.-]{0,30})/ports/(?P<n>\d{1,3})/(?:hw_)?counters/"
    r"(?P<name>[a-zA-Z]\w{1,60})[:= ]\s?(?P<value>\d{1,20})\s*$"
)
_PROMPT = re.compile(
    r"\s*$|#|.{0,120}[#$] |no stats available|.{0,200}(?:[Nn]o such file|[Pp]ermission denied|Invalid argument)"
)


class Counters:
    """One of the three forms. Each counter that tells of errors and is not zero is a sentence."""

    family = "other"

    def __init__(self, name: str) -> None:
        self.name = name

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        lines = [line for line in raw_lines(head[:16384]) if not _PROMPT.match(line.text)]
        mine = sum(self._known(line) for line in lines)
        titled = self.name != "ethtool" or any(_TITLE.match(line.text) for line in lines[:40])
        return 0.95 if titled and mine >= 2 and mine * 10 >= 8 * (len(lines) - 1) else 0.0

    def _known(self, line: RawLine) -> bool:
        if self.name == "ethtool":
            text = line.text
            return bool(_TITLE.match(text) or _VALUE.match(text) or _ASKED.match(text) or _NAMED.match(text))
        return bool((_LINK if self.name == "rdma_statistic" else _SYSFS).match(line.text))

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        out = Collector(info, self.name, self.family, data)
        port = "port ?"
        for line in raw_lines(data):
            if asked := _ASKED.match(line.text):
                port = asked["port"]
                continue
            if not self._known(line):
                if not _PROMPT.match(line.text):
                    out.quarantine(line.offset, line.length, "not a counter")
                continue
            if self.name == "ethtool" and (named := _NAMED.match(line.text)):
                port = named["port"]
                continue
            for where, name, value in self._counters(line.text, port):
                if name in _ERRORS and value:
                    text = f"ib counters: {where}: {name} {value}"
                    out.matched(match(text, offset=line.offset, line=line.number, stamp=NO_STAMP), NO_STAMP)
        return out.result()

    def _counters(self, text: str, port: str) -> Iterator[tuple[str, str, int]]:
        if self.name == "rdma_statistic":
            if m := _LINK.match(text):
                for pair in _PAIR.finditer(m["rest"]):
                    yield m["port"], pair["name"], int(pair["value"])
        elif m := (_SYSFS if self.name == "sysfs_counters" else _VALUE).match(text):
            where = f"{m['hca']}/{m['n']}" if self.name == "sysfs_counters" else port
            yield where, m["name"], int(m["value"])


FORMATS = (Counters("ethtool"), Counters("rdma_statistic"), Counters("sysfs_counters"))
