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

__all__ = ["AddressForbidden", "Wire"]


_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
"""Of RFC 6052: the last four bytes are an IPv4 address."""


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
        found = ipaddress.ip_address(address.partition("%")[0])
        if any(not each.is_global or each.is_multicast for each in _meant(found)):
            raise AddressForbidden(
                f"{host} means {address}, which is no public address: allow_private=True lets the"
                " channel send there"
            )


def _meant(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """What a packet to *address* reaches: an IPv4 address within one is where a gateway sends."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    inner = [address.sixtofour, *(address.teredo or ())]
    if address in _NAT64:
        inner.append(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
    return [address, *(each for each in inner if each is not None)]


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
