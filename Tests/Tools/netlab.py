#!/usr/bin/env python3
"""A network of nodes on one machine, whose links can be cut, slowed down and made to lose packets.

Each node is a network namespace with the address 10.77.0.N. Its packets go through a TUN device to this process, which
passes them on to the other node, late or not at all. Needs root and /dev/net/tun; `Lab.problem()` says what is missing.

    with Lab(["hq", "store"]) as lab:
        process = lab.popen("hq", ["cairnd", "--config", "hq"])
        lab.set("hq", "store", delay=0.2, loss=0.05)     # both ways, seconds and a share
        lab.cut("hq", "store"); lab.mend("hq", "store")

As a program: `netlab.py NODE... -- COMMAND` runs COMMAND in the first node, with a network that is whole.
"""
import ctypes
import fcntl
import heapq
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
SIOCSIFADDR, SIOCSIFNETMASK, SIOCSIFMTU = 0x8916, 0x891C, 0x8922
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1
DEVICE = b"link0"
MTU = 1500
libc = ctypes.CDLL(None, use_errno=True)


def check(result):
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def set_flags_up(sock, device):
    flags = struct.unpack("16sh", fcntl.ioctl(sock, SIOCGIFFLAGS, struct.pack("16sh", device, 0)))[1]
    fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sh", device, flags | IFF_UP))


def open_device(address):
    """In the namespace of the caller: the device, with its address, up."""
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22s", DEVICE, IFF_TUN | IFF_NO_PI, b""))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        def put(request, text):
            inside = struct.pack("HH4s8s", socket.AF_INET, 0, socket.inet_aton(text), b"")
            fcntl.ioctl(sock, request, struct.pack("16s16s", DEVICE, inside))
        put(SIOCSIFADDR, address)
        put(SIOCSIFNETMASK, "255.255.255.0")
        fcntl.ioctl(sock, SIOCSIFMTU, struct.pack("16si", DEVICE, MTU))
        set_flags_up(sock, DEVICE)
        set_flags_up(sock, b"lo")
    return tun


class Link:
    """One way between two nodes."""

    def __init__(self):
        self.delay, self.loss, self.is_cut = 0.0, 0.0, False


class Lab:
    @staticmethod
    def problem():
        """Why there can be no lab on this machine; None: there can."""
        if os.geteuid() != 0:
            return "needs root, for network namespaces"
        if not os.path.exists("/dev/net/tun"):
            return "there is no /dev/net/tun"
        try:
            Lab(["probe"]).close()
        except OSError as error:
            return f"cannot make a network namespace: {error}"
        return None

    def __init__(self, names, seed=1):
        self.names = list(names)
        self.random = random.Random(seed)
        self.links = {(a, b): Link() for a in range(len(names)) for b in range(len(names)) if a != b}
        self.tuns, self.holders, self.namespaces = [], [], []
        self.lock = threading.Lock()
        self.passed = self.dropped = 0
        self.wake_reader, self.wake_writer = os.pipe()
        self.is_open = True
        try:
            for number in range(len(self.names)):
                self._add(number)
        except BaseException:
            self.close()
            raise
        self.router = threading.Thread(target=self._route, daemon=True)
        self.router.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def address(self, name):
        return f"10.77.0.{self.names.index(name) + 1}"

    def _add(self, number):
        """A process of its own holds the namespace, and hands over the device."""
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        process = os.fork()
        if process == 0:
            try:
                mine.close()
                check(libc.unshare(CLONE_NEWNET))
                tun = open_device(f"10.77.0.{number + 1}")
                socket.send_fds(its, [b"ok"], [tun])
                signal.pause()
            except OSError as error:
                its.sendall(str(error).encode())
            finally:
                os._exit(0)
        its.close()
        self.holders.append(process)
        word, descriptors, _, _ = socket.recv_fds(mine, 200, 1)
        mine.close()
        if not descriptors:
            raise OSError(word.decode() or "the namespace's process ended")
        os.set_inheritable(descriptors[0], False)
        self.tuns.append(descriptors[0])
        self.namespaces.append(os.open(f"/proc/{process}/ns/net", os.O_RDONLY | os.O_CLOEXEC))

    # Links

    def _pair(self, a, b):
        a, b = self.names.index(a), self.names.index(b)
        return self.links[a, b], self.links[b, a]

    def set(self, a, b, delay=0.0, loss=0.0):
        """Both ways: `delay` seconds each, `loss` is the share of packets that get lost."""
        with self.lock:
            for link in self._pair(a, b):
                link.delay, link.loss = delay, loss

    def cut(self, a, b):
        """Nothing passes any more, and no node is informed: connections stay half-open."""
        with self.lock:
            for link in self._pair(a, b):
                link.is_cut = True

    def mend(self, a, b):
        with self.lock:
            for link in self._pair(a, b):
                link.is_cut = False

    def _route(self):
        poller = select.epoll()
        for number, tun in enumerate(self.tuns):
            os.set_blocking(tun, False)
            poller.register(tun, select.EPOLLIN)
        poller.register(self.wake_reader, select.EPOLLIN)
        by_descriptor = {tun: number for number, tun in enumerate(self.tuns)}
        waiting, order = [], 0
        while self.is_open:
            now = time.monotonic()
            while waiting and waiting[0][0] <= now:
                _, _, target, packet = heapq.heappop(waiting)
                self._deliver(target, packet)
            pause = max(0.0, waiting[0][0] - now) if waiting else 1.0
            for descriptor, _ in poller.poll(pause):
                if descriptor == self.wake_reader:
                    return
                source = by_descriptor[descriptor]
                for _ in range(64):
                    try:
                        packet = os.read(descriptor, 65536)
                    except BlockingIOError:
                        break
                    target = packet[19] - 1 if packet[0] >> 4 == 4 and packet[16:19] == b"\x0a\x4d\x00" else -1
                    with self.lock:
                        link = self.links.get((source, target))
                        if link is None or link.is_cut or self.random.random() < link.loss:
                            self.dropped += 1
                            continue
                        delay = link.delay
                    if delay > 0:
                        order += 1
                        heapq.heappush(waiting, (time.monotonic() + delay, order, target, packet))
                    else:
                        self._deliver(target, packet)

    def _deliver(self, target, packet):
        try:
            os.write(self.tuns[target], packet)
            self.passed += 1
        except OSError:
            self.dropped += 1

    # Programs

    def popen(self, name, command, **options):
        """Starts a program in a node's network, as `subprocess.Popen` does."""
        namespace = self.namespaces[self.names.index(name)]
        return subprocess.Popen(command, preexec_fn=lambda: check(libc.setns(namespace, CLONE_NEWNET)), **options)

    def run(self, name, command, **options):
        namespace = self.namespaces[self.names.index(name)]
        return subprocess.run(command, preexec_fn=lambda: check(libc.setns(namespace, CLONE_NEWNET)), **options)

    def close(self):
        self.is_open = False
        os.write(self.wake_writer, b"x")
        if hasattr(self, "router"):
            self.router.join(5)
        for descriptor in self.tuns + self.namespaces + [self.wake_reader, self.wake_writer]:
            os.close(descriptor)
        for process in self.holders:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        self.tuns, self.holders, self.namespaces = [], [], []


def main():
    if "--" not in sys.argv[1:] or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        return 0 if sys.argv[1:2] in (["-h"], ["--help"]) else 64
    at = sys.argv.index("--")
    problem = Lab.problem()
    if problem:
        print(f"netlab: {problem}", file=sys.stderr)
        return 69
    with Lab(sys.argv[1:at]) as lab:
        return lab.popen(lab.names[0], sys.argv[at + 1:]).wait()


if __name__ == "__main__":
    sys.exit(main())
