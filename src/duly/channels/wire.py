"""The sockets of the HTTP channel: bounded as a whole, checked before they connect.

Decides which addresses may be connected to, and notes whether anything of a request has left. It
never retries, and connects to the very address that was checked.
"""

from __future__ import annotations

import ipaddress
import socket
import time
from typing import TYPE_CHECKING, Any, Final

import httpcore

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable

__all__ = ["AddressForbidden", "Wire", "is_public"]

_HOLDS_IPV4: Final = (
    (ipaddress.IPv6Network("::ffff:0:0/96"), 0),  # IPv4-mapped (RFC 4291)
    (ipaddress.IPv6Network("64:ff9b::/96"), 0),  # NAT64 (RFC 6052)
    (ipaddress.IPv6Network("::ffff:0:0:0/96"), 0),  # IPv4-translated (RFC 2765)
    (ipaddress.IPv6Network("::/96"), 0),  # IPv4-compatible (RFC 4291)
    (ipaddress.IPv6Network("2002::/16"), 80),  # 6to4 (RFC 3056)
)
"""Networks whose packets reach an IPv4 address within, and how many bits stand after it."""

_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
"""All that is given out of the public IPv6 internet (RFC 4291). Beside it lie fec0::/10, which was
site-local, 64:ff9b:1::/48, the NAT64 of one network, and what has no meaning yet."""

# Not public either, and public to the `ipaddress` of some Python or other.
_ALSO_PRIVATE: Final = (
    ipaddress.IPv4Network("192.0.0.0/24"),  # of IETF protocols (RFC 6890)
    ipaddress.IPv4Network("192.88.99.0/24"),  # the nearest 6to4 gateway (RFC 7526)
    ipaddress.IPv6Network("2001::/23"),  # of IETF protocols, with Teredo (RFC 4380) in it
    ipaddress.IPv6Network("3fff::/20"),  # of documentation (RFC 9637)
)


class AddressForbidden(Exception):
    """The receiver's name means an address inside this network, which is not allowed."""


class Wire(httpcore.NetworkBackend):
    """Connects for one request at a time.

    Args:
        allow_private: Addresses that are not on the public internet may be connected to.

    Attributes:
        wrote: A byte of the request has left, or is about to.
    """

    def __init__(self, *, allow_private: bool) -> None:
        self._allow_private = allow_private
        self._until_s = 0.0
        self.wrote = False

    def begin(self, until_s: float) -> None:
        """A request begins, and is over by then, by `time.monotonic()`."""
        self._until_s = until_s
        self.wrote = False

    def hurry(self, within_s: float) -> None:
        """What is left of the request ends within so many seconds."""
        self._until_s = min(self._until_s, time.monotonic() + within_s)

    def left_s(self, timeout: float | None, error: type[Exception]) -> float:
        """How long the next step may take.

        Raises:
            Exception: *error*; the time for the whole request is over.
        """
        left = self._until_s - time.monotonic()
        if left <= 0:
            raise error("the time for the whole request is over")
        return left if timeout is None else min(left, timeout)

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002 - httpcore's signature
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002 - as above
    ) -> httpcore.NetworkStream:
        """Connect to the first address of *host* that answers; all of them are checked first."""
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise httpcore.ConnectError(f"{host} cannot be resolved: {error}") from error
        for *_, address in found:
            self._check(host, str(address[0]))
        last: Exception = httpcore.ConnectError(f"{host} has no address")
        for family, kind, protocol, _, address in found:
            sock = socket.socket(family, kind, protocol)
            try:
                sock.settimeout(self.left_s(timeout, httpcore.ConnectTimeout))
                sock.connect(address)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except TimeoutError as error:
                sock.close()
                last = httpcore.ConnectTimeout(str(error))
            except OSError as error:
                sock.close()
                last = httpcore.ConnectError(str(error))
            else:
                return _Stream(self, sock)
        raise last

    def _check(self, host: str, address: str) -> None:
        if self._allow_private:
            return
        if not is_public(address):
            raise AddressForbidden(
                f"{host} means {address}, which is no public address: allow_private=True lets the"
                " channel send there"
            )


def is_public(address: str) -> bool:
    """Whether *address* is of the public internet, by the IPv4 address within if there is one."""
    found = _meant(ipaddress.ip_address(address.partition("%")[0]))
    if isinstance(found, ipaddress.IPv6Address) and found not in _UNICAST:
        return False
    if any(found in each for each in _ALSO_PRIVATE):
        return False
    return found.is_global and not found.is_multicast


def _meant(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """What a packet to *address* reaches: an IPv4 address within one is where a gateway sends."""
    for network, after in _HOLDS_IPV4:
        if address in network:
            return ipaddress.IPv4Address((int(address) >> after) & 0xFFFF_FFFF)
    return address


class _Stream(httpcore.NetworkStream):
    """One connection, whose waits end with the request."""

    def __init__(self, wire: Wire, sock: socket.socket) -> None:
        self._wire, self._sock = wire, sock

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            self._sock.settimeout(self._wire.left_s(timeout, httpcore.ReadTimeout))
            return self._sock.recv(max_bytes)
        except TimeoutError as error:
            raise httpcore.ReadTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.ReadError(str(error)) from error

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        try:
            while buffer:
                self._sock.settimeout(self._wire.left_s(timeout, httpcore.WriteTimeout))
                self._wire.wrote = True
                buffer = buffer[self._sock.send(buffer) :]
        except TimeoutError as error:
            raise httpcore.WriteTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.WriteError(str(error)) from error

    def close(self) -> None:
        self._sock.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        try:
            self._sock.settimeout(self._wire.left_s(timeout, httpcore.ConnectTimeout))
            sock = ssl_context.wrap_socket(self._sock, server_hostname=server_hostname)
        except TimeoutError as error:
            self.close()
            raise httpcore.ConnectTimeout(str(error)) from error
        except OSError as error:
            self.close()
            raise httpcore.ConnectError(str(error)) from error
        return _Stream(self._wire, sock)

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":
            import select

            return bool(select.select([self._sock], [], [], 0)[0])
        if info == "socket":
            return self._sock
        return None
