"""What listens, and which processes belong together, as Linux tells it in /proc."""

import ipaddress
import os
import re
from pathlib import Path

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def listening() -> dict[str, Address]:
    """The addresses of all TCP sockets that listen, by their inodes."""
    found = {}
    for name in ("tcp", "tcp6"):
        for line in Path("/proc/net", name).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A":
                raw = bytes.fromhex(words[1].partition(":")[0])
                # words of four bytes, each the other way round
                ordered = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
                found[words[9]] = ipaddress.ip_address(ordered)
    return found


def is_local(address: Address) -> bool:
    """Whether only this machine can reach it."""
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def sockets_of(process: int) -> set[str]:
    """The inodes of the sockets that a process has open."""
    found = set()
    for entry in Path(f"/proc/{process}/fd").iterdir():
        try:
            match = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(entry))
        except OSError:  # closed meanwhile
            continue
        if match:
            found.add(match[1])
    return found


def children_of(process: int) -> list[int]:
    """The processes that ``process`` started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
        if parent == process:
            found.append(int(path.parent.name))
    return sorted(found)
