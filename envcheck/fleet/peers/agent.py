"""The agent that runs on each host during tests between hosts: one line of JSON requests, one line answers.

It must be self-contained and run on Python 3.8, because only its text is sent.  It changes nothing and ends with its
connection.  Its listeners respond only to peers with the token, which was sent over ssh.
"""

from __future__ import annotations

import fcntl
import json
import os
import selectors
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from typing import Any

MARK = "envcheck-between"
SIOCGIFADDR, SIOCGIFMTU = 0x8915, 0x8921  # linux/sockios.h
IP_MTU_DISCOVER, IP_PMTUDISC_PROBE = 10, 3  # linux/in.h: never fragment, ignore the learned path MTU
PINGS, CHUNK, CLIENTS = 40, 1 << 18, 64
UDP_HEADERS = 28
# The client closes with a reset, so that the job can open a tested port at once, even without SO_REUSEADDR.
AT_ONCE = struct.pack("ii", 1, 0)
state: dict[str, Any] = {"token": "", "sockets": []}


def send_answer(answer: dict[str, Any]) -> None:
    """Print the answer as a marked line."""
    sys.stdout.write(f"\n{MARK} {json.dumps(answer)}\n")
    sys.stdout.flush()


def clock() -> float:
    """Return the host's time."""
    return time.time()


def about() -> dict[str, Any]:
    """Return the host's facts, with the address where others reach it: of the named interface, else the one that ssh
    uses.
    """
    found: dict[str, tuple[str, int]] = {}
    for _, name in socket.if_nameindex():
        address, mtu = _query_interface(name, SIOCGIFADDR), _query_interface(name, SIOCGIFMTU)
        if address and mtu:
            found[name] = (socket.inet_ntoa(address[20:24]), struct.unpack("i", mtu[16:20])[0])
    came_in = (os.environ.get("SSH_CONNECTION", "").split() + [""] * 4)[2]
    chosen = [name for name in sorted(os.environ) if name.endswith("_SOCKET_IFNAME")]
    chosen.sort(key=lambda name: name.startswith("GLOO_"))  # gloo only starts the job, the others move its data
    wanted = [os.environ[name].lstrip("=").split(",")[0] for name in chosen]
    named = [found[name][0] for want in wanted if want for name in sorted(found) if name.startswith(want)]
    outer = [address for address, _ in found.values() if not address.startswith("127.")]
    reached = (named + [came_in] * (came_in in outer) + outer + [came_in])[0]
    size = next((most for one, most in found.values() if one == reached), None)
    return {
        "hostname": socket.gethostname(),
        "address": reached,
        "addresses": outer,
        "mtu": size,
        "hccn": bool(shutil.which("hccn_tool")),
    }


def _query_interface(name: str, what: int) -> bytes | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            return fcntl.ioctl(asking.fileno(), what, struct.pack("256s", name[:15].encode()))
        except OSError:
            return None


def resolve(names: list[str], seconds: float) -> dict[str, list[str]]:
    """Return addresses by name, [] if a name does not resolve; names that take longer than `seconds` are left out."""
    return run_in_parallel(names, resolve_name, seconds)


def resolve_name(name: str) -> list[str]:
    try:
        return sorted({str(a[4][0]) for a in socket.getaddrinfo(name, None, 0, socket.SOCK_STREAM)})
    except (OSError, UnicodeError):
        return []


def reverse(addresses: list[str], seconds: float) -> dict[str, Any]:
    """Return by address [names, addresses of the first name], [[], []] without a name; late answers are left out."""
    found = run_in_parallel(addresses, _find_names, seconds)
    return {address: names for address, names in found.items() if names is not None}


def _find_names(address: str) -> list[list[str]] | None:
    """Return the names of the address, None if unknown.  h_errno (netdb.h): 1 and 4 mean no name, 2 and 3 no answer."""
    try:
        name, more, _ = socket.gethostbyaddr(address)
    except socket.herror as err:
        return [[], []] if err.errno in (1, 4) else None
    except (OSError, UnicodeError):
        return None
    return [[name, *more], resolve_name(name)]


def run_in_parallel(words: list[str], ask: Any, seconds: float) -> dict[str, Any]:
    """Return the answers that arrive in time, by word."""
    found: dict[str, Any] = {}
    waiting = list(words)

    def work() -> None:
        while waiting:
            try:
                word = waiting.pop()
            except IndexError:
                return
            found[word] = ask(word)

    end = time.monotonic() + seconds
    threads = [threading.Thread(target=work, daemon=True) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return dict(found)


def listen(token: str, ports: list[int]) -> dict[str, Any]:
    """Open the ports; return the open ones and why others failed.  Without ports the system chooses one."""
    state["token"] = token
    opened: list[int] = []
    taken: dict[str, str] = {}
    for port in ports:
        try:
            opened.append(_open_listener(port))
        except OSError as err:
            taken[str(port)] = err.strerror or str(err)
    data = opened[0] if opened else _open_listener(0)
    _start_udp_echo(data)
    return {"open": opened, "taken": taken, "data": data}


def _open_listener(port: int) -> int:
    one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(("", port))
        one.listen(CLIENTS)
    except (OSError, OverflowError):
        one.close()
        raise
    state["sockets"].append(one)
    threading.Thread(target=_accept_peers, args=(one,), daemon=True).start()
    return int(one.getsockname()[1])


def _accept_peers(one: socket.socket) -> None:
    while True:
        try:
            peer, _ = one.accept()
        except OSError:
            return
        threading.Thread(target=_serve_peer, args=(peer,), daemon=True).start()


def _serve_peer(peer: socket.socket) -> None:
    """Serve a peer: token, a letter and a line feed; then n: the host's name, p: echo each byte, b: count all bytes."""
    with peer:
        peer.settimeout(10)
        try:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            head = _receive_exactly(peer, 34).decode("ascii", "replace")
            if head[:32] != state["token"]:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
                return
            if head[32] == "n":
                peer.sendall(socket.gethostname().encode()[:64] + b"\n")
                peer.recv(1)
            elif head[32] == "p":
                while _send_back(peer):
                    pass
            elif head[32] == "b":
                peer.sendall(b"%d\n" % _count_bytes(peer))
        except OSError:
            return


def _send_back(peer: socket.socket) -> bytes:
    data = peer.recv(64)
    if data:
        peer.sendall(data)
    return data


def _count_bytes(peer: socket.socket) -> int:
    room, total = bytearray(CHUNK), 0
    while True:
        got = peer.recv_into(room)
        if not got:
            return total
        total += got


def _receive_exactly(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = peer.recv(size - len(data))
        if not more:
            raise OSError("connection closed by the peer")
        data += more
    return data


def _start_udp_echo(port: int) -> None:
    """Reply to packets that carry the token with their size."""
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        one.bind(("", port))
    except OSError:
        one.close()
        return
    state["sockets"].append(one)

    def work() -> None:
        while True:
            try:
                data, peer = one.recvfrom(1 << 16)
                if data[:32].decode("ascii", "replace") == state["token"]:
                    one.sendto(b"%d" % len(data), peer)
            except OSError:
                return

    threading.Thread(target=work, daemon=True).start()


def knock(targets: list[tuple[str, int]], seconds: float) -> dict[str, str]:
    """Return "" by host:port if envcheck's listener responds, else the reason; all in parallel."""
    choose = selectors.DefaultSelector()
    found: dict[str, str] = {}
    for host, port in targets:
        one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        one.setblocking(False)
        key = f"{host}:{port}"
        try:
            one.connect_ex((host, port))
        except OSError as err:
            found[key] = err.strerror or str(err)
            one.close()
            continue
        choose.register(one, selectors.EVENT_WRITE, key)
    end = time.monotonic() + seconds
    while choose.get_map() and time.monotonic() < end:
        for ready, _ in choose.select(max(0.0, end - time.monotonic())):
            choose.unregister(ready.fileobj)
            found[ready.data] = _check_listener(ready.fileobj, end)  # type: ignore[arg-type]  # the registered socket
    for left in list(choose.get_map().values()):
        found[left.data] = "timed out"
        left.fileobj.close()  # type: ignore[union-attr]  # as above
    choose.close()
    return found


def _check_listener(one: socket.socket, end: float) -> str:
    with one:
        wrong = one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if wrong:
            return os.strerror(wrong)
        try:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
            one.settimeout(max(0.5, end - time.monotonic()))
            one.sendall(state["token"].encode() + b"n\n")
            return "" if one.recv(80) else "another program uses this port"
        except OSError as err:
            return err.strerror or str(err)


def measure(host: str, port: int, seconds: float, most: int) -> dict[str, float]:
    """Return {"rtt_s": median round-trip time of small messages, "rate": bytes per second to the peer}."""
    with _connect_peer(host, port, b"p") as one:
        times = []
        for _ in range(PINGS):
            began = time.perf_counter()
            one.sendall(b"x")
            _receive_exactly(one, 1)
            times.append(time.perf_counter() - began)
    with _connect_peer(host, port, b"b") as one:
        data, sent, began = bytes(CHUNK), 0, time.perf_counter()
        while sent < most and time.perf_counter() - began < seconds:
            one.sendall(data)
            sent += len(data)
        one.shutdown(socket.SHUT_WR)
        got = int(_receive_exactly(one, 1) + one.recv(30))
        took = time.perf_counter() - began
    return {"rtt_s": sorted(times)[PINGS // 2], "rate": got / took}


def _connect_peer(host: str, port: int, letter: bytes) -> socket.socket:
    one = socket.create_connection((host, port), 5)
    one.settimeout(20)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    one.sendall(state["token"].encode() + letter + b"\n")
    return one


def packets(host: str, port: int, mtu: int) -> dict[str, bool]:
    """Return whether a small packet, and an unfragmented one of full MTU size, arrive: three attempts each."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(0.7)
        one.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE)
        one.connect((host, port))
        return {"small": _try_packet(one, 100), "full": _try_packet(one, mtu - UDP_HEADERS)}


def _try_packet(one: socket.socket, size: int) -> bool:
    for _ in range(3):
        try:
            one.send(state["token"].encode() + bytes(max(0, size - 32)))
            if one.recv(20) == b"%d" % size:
                return True
        except OSError:
            continue
    return False


def hccn(pings: list[tuple[int, str]]) -> dict[str, Any]:
    """Return hccn_tool's output for pings [die, address] from each card's own port."""
    found: dict[str, Any] = {}

    def one(die: int, address: str) -> None:
        argv = ["hccn_tool", "-i", str(int(die)), "-ping", "-g", "address", address]
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=15)  # fmt: skip
            found[str(die)] = [done.returncode, done.stdout.decode("utf-8", "replace")[:2000]]
        except (OSError, subprocess.TimeoutExpired) as err:
            found[str(die)] = [None, str(err)[:200]]

    threads = [threading.Thread(target=one, args=pair, daemon=True) for pair in pings[:64]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return dict(found)


DO: dict[str, Any] = {f.__name__: f for f in (clock, about, resolve, reverse, listen, knock, measure, packets, hccn)}
DO.update(globals().get("MORE", {}))  # defined by agent_rdma.py, which is sent ahead of this file


def main() -> None:
    send_answer({"ready": True})
    for line in sys.stdin:
        asked: Any = None
        try:
            asked = json.loads(line)
            send_answer({"id": asked["id"], "answer": DO[asked["do"]](*asked["with"])})
        except Exception as err:  # reported; the next request may succeed
            send_answer(
                {"id": asked.get("id") if isinstance(asked, dict) else None, "error": str(err)[:200] or repr(err)}
            )


if __name__ == "__main__":
    try:
        main()
    finally:
        globals().get("leave", int)()
    os._exit(0)  # ends threads that still wait for a name or a peer
