"""Notices at once that another process of a run is gone, and names it; jax alone waits a minute and prints a C++ stack.

Every process keeps a connection to process 0 open. The system closes it when a process dies, however it dies; a process
that finishes says so first. A process that is merely slow is never taken for dead.
"""

import contextlib
import os
import socket
import sys
import threading

BYE, GONE = "bye", "gone"


class Peers:
    """The connections of one process.

    Args:
        index, count: of this process, and of all.
        gone: ``(index) -> None``, called once, in a thread, when a process ends without saying so.
    """

    def __init__(self, index, count, *, gone):
        self._index, self._count, self._gone = index, count, gone
        self._lock, self._links, self._left = threading.Lock(), {}, False

    def listen(self):
        """Waits for the others, in a thread; returns the port. For process 0."""
        server = socket.create_server(("", 0), backlog=self._count)
        threading.Thread(target=self._accept, args=(server,), name="peers", daemon=True).start()
        return server.getsockname()[1]

    def join(self, host, port):
        """Connects to process 0."""
        link = socket.create_connection((host, port), timeout=60)
        link.settimeout(None)
        self._send(link, str(self._index))
        self._follow(0, link, link.makefile(encoding="ascii"))

    def leave(self):
        """Says that this process has finished."""
        with self._lock:
            self._left = True
            for link in self._links.values():
                self._send(link, BYE)

    def _accept(self, server):
        with server:
            for _ in range(self._count - 1):
                link, _ = server.accept()
                lines = link.makefile(encoding="ascii")
                with contextlib.suppress(ValueError, OSError):
                    self._follow(int(lines.readline()), link, lines)

    def _follow(self, index, link, lines):
        with self._lock:
            self._links[index] = link
            if self._left:
                self._send(link, BYE)
        threading.Thread(target=self._read, args=(index, lines), name="peer", daemon=True).start()

    def _read(self, index, lines):
        line = ""
        with contextlib.suppress(OSError):
            line = lines.readline().strip()
        if line == BYE:
            return
        who = int(line.removeprefix(GONE)) if line else index
        with self._lock:
            if self._left:
                return
            self._left = True
            for other, link in self._links.items():
                if other not in (index, who):
                    self._send(link, f"{GONE} {who}")
        self._gone(who)

    @staticmethod
    def _send(link, text):
        with contextlib.suppress(OSError):
            link.sendall(f"{text}\n".encode("ascii"))


def watch(coordinator, *, index, count):
    """The `Peers` of this process after `jax.distributed` has begun; ends the process when another one is gone."""
    from jax._src import distributed  # the only way to tell the others the port

    def gone(who):
        print(
            f"error: process {who} of {count} is gone, so this one stops; start all of them again with the same flags, "
            "and they resume from the last checkpoint",
            file=sys.stderr,
            flush=True,
        )
        os._exit(2)

    peers, client = Peers(index, count, gone=gone), distributed.global_state.client
    with contextlib.suppress(OSError, RuntimeError):  # without the connections, jax notices in its own time
        if index == 0:
            client.key_value_set("lwt/peers", str(peers.listen()))
        else:
            port = client.blocking_key_value_get("lwt/peers", 60_000)
            peers.join(coordinator.rpartition(":")[0].strip("[]"), int(port))
    return peers
