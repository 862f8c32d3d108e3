"""What NCCL chose, from what it prints with NCCL_DEBUG=INFO; formats of NCCL 2.10 to 2.27.

Its algorithm for each size is there with NCCL_DEBUG_SUBSYS=INIT,NET,P2P,SHM,TUNING only, from rank
0, by number until 2.21 and by name since. Lines that several ranks wrote into each other say
nothing here. gloo prints nothing of the kind.
"""

import re
from collections import Counter

from service.stats.nccl import Choice, Library

Parsed = Library

_VERSION = re.compile(r"\b[NR]CCL version :? ?(\d\S*)")
_NETWORK = re.compile(r"NCCL INFO Using network (.+)")
_PLUGIN = re.compile(r"NET/Plugin: ?Loaded net plugin (.+?) \(v\d+\)")
_CHANNELS = re.compile(r"\b(\d+) coll channels,")
_CONNECTION = re.compile(
    r"NCCL INFO (?:Channel|Ring) \d+(?:/\d+)? : \S+ -> \S+ (?:\[\w+\] )?"
    r"via (NET/[^/\n]+(?:/\S+)?|P2P/direct pointer|[A-Z]\w*/\S+)"
)
_CHOICE = re.compile(r"NCCL INFO (?:(\w+): )?(\d+) Bytes -> Algo (\w+) proto (\w+)")
# nccl_common.h: NCCL_ALGO_* and NCCL_PROTO_*.
_ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
_PROTOCOLS = ("LL", "LL128", "SIMPLE")


def parse(text: str) -> Library:
    """What NCCL told in a log, whatever else is in it."""
    return Library(
        version=_first(_VERSION, text),
        network=_first(_NETWORK, text),
        plugin=_first(_PLUGIN, text),
        num_channels=max(map(int, _CHANNELS.findall(text)), default=None),
        transports=Counter(map(_transport, _CONNECTION.findall(text))),
        choices=tuple(sorted({_choice(*found) for found in _CHOICE.findall(text)})),
    )


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return found[1].strip() if found else None


def _transport(text: str) -> str:
    """A transport without the number of its network card: `NET/IB/0/GDRDMA` is `NET/IB/GDRDMA`."""
    return "/".join(word for word in text.split("/") if not word[:1].isdigit())


def _choice(collective: str, message_bytes: str, algorithm: str, protocol: str) -> Choice:
    return Choice(
        collective=collective,
        message_bytes=int(message_bytes),
        algorithm=_name(algorithm, _ALGORITHMS),
        protocol=_name(protocol, _PROTOCOLS),
    )


def _name(word: str, names: tuple[str, ...]) -> str:
    """A name in capitals; a number that this version of the table does not know stays one."""
    if word.isdecimal() and int(word) < len(names):
        return names[int(word)]
    return word.upper()
