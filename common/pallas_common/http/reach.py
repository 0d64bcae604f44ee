"""Where a URL may lead that was written by somebody who may not say that it leads to this machine.

The one place that decides about an address. A name is resolved here, each of its addresses is looked at, and what was
looked at is what is connected to: a name that resolves to something else the next time gains nothing. Private networks
(10/8, 192.168/16, fc00::/7, …) are allowed: servers there are the usual case.

Knows addresses and event loops; nothing of who has written a URL, or of what is sent there.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator
    from ipaddress import IPv4Address, IPv6Address

REFUSED = (
    "its `url` leads to this machine, to addresses that are never a server's, or through a proxy, where it may not "
    "lead: whoever writes it needs the grant `edit:network`"
)
"""What is said of such an address, whoever asked and whatever is there."""

_METADATA = frozenset(
    map(
        ipaddress.ip_address,
        (
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fd00:42::42",
        ),
    )
)
"""Where Alibaba, Azure, Oracle, Amazon, Google and Scaleway tell machines their credentials, besides 169.254/16."""
_ZERO = ipaddress.ip_network("0.0.0.0/8")
_WITH_IPV4_LAST = tuple(
    map(
        ipaddress.ip_network,
        ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48"),
    )
)
"""Whose last 32 bits are an IPv4 address: compatible, mapped, translated, and both of NAT64 (RFC 6052, 8215)."""
_HOSTS_FILE = frozenset(("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"))
_IPV4 = 32
_PORTS = {"http": 80, "https": 443, "socks4": 1080, "socks5": 1080, "socks5h": 1080}
"""Of proxies whose URL says none."""

_closed: ContextVar[bool] = ContextVar("pallas_closed_network", default=False)


class ForbiddenAddressError(OSError):
    """Nothing has been sent: the address is one to which this URL may not lead."""

    def __init__(self) -> None:
        super().__init__(REFUSED)


def may_reach(address: str) -> bool:
    """Whether a URL may lead to this address without more rights.

    Args:
        address: numeric, as getaddrinfo(3) gives it; what is none may not be reached.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return not any(_is_near(each) for each in _meant(parsed)) and not _is_of_this_machine(address)


def names_this_machine(host: str) -> bool:
    """Whether the host of a URL is plainly one that may not be reached, whatever its name resolves to. Asks nobody.

    Args:
        host: without brackets and port: a name, or an address in any form that the resolver takes, `127.1` as well.
    """
    name = host.rstrip(".").lower()
    if name in _HOSTS_FILE or name.endswith(".localhost"):
        return True
    try:
        parsed = ipaddress.ip_address(name)
    except ValueError:
        try:
            parsed = ipaddress.ip_address(socket.inet_aton(name))
        except (OSError, ValueError):
            return False
    return any(_is_near(each) for each in _meant(parsed))


async def reachable(host: str, port: int) -> list[str]:
    """The addresses of the host that may be reached, in the resolver's order: at least one.

    Raises:
        ForbiddenAddressError: it has none but others, or a proxy of the environment is there.
        OSError: the name is not known.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(each[4][0]) for each in found]
    allowed = [each for each in dict.fromkeys(addresses) if may_reach(each)]
    if not allowed or await _is_proxy(allowed, port):
        raise ForbiddenAddressError
    return allowed


@contextlib.contextmanager
def closed() -> Iterator[None]:
    """Within the block, and in tasks made there, connections of the running loop go where `may_reach` says alone.

    Whichever library makes them: the loop itself is asked.
    """
    _guard(asyncio.get_running_loop())
    token = _closed.set(True)
    try:
        yield
    finally:
        _closed.reset(token)


def is_closed() -> bool:
    """Whether this runs within such a block."""
    return _closed.get()


def _meant(address: IPv4Address | IPv6Address) -> list[IPv4Address | IPv6Address]:
    """The address, and those IPv4 addresses to which a packet for it may be sent on."""
    found = [address]
    if isinstance(address, ipaddress.IPv6Address):
        if any(address in network for network in _WITH_IPV4_LAST):
            found.append(ipaddress.IPv4Address(int(address) & (1 << _IPV4) - 1))
        found += [each for each in (address.sixtofour, *(address.teredo or ())) if each is not None]
    return found


def _is_near(address: IPv4Address | IPv6Address) -> bool:
    """Whether it is of this machine or its link, of a service that hands out credentials, or nobody's."""
    if address.is_loopback or address.is_link_local or address.is_unspecified or address.is_multicast:
        return True
    if isinstance(address, ipaddress.IPv4Address) and (address in _ZERO or address.is_reserved):
        return True
    return address in _METADATA


def _is_of_this_machine(address: str) -> bool:
    """Whether an interface of this machine has the address: what is sent there comes from there. Sends nothing."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as asked:
            asked.connect((address, 9))
            own = asked.getsockname()[0]
    except OSError:
        return False  # there is no way to it, so it is not its own
    return ipaddress.ip_address(own.partition("%")[0]) == ipaddress.ip_address(address.partition("%")[0])


def _guard(loop: asyncio.AbstractEventLoop) -> None:
    """Have the loop's connections looked at that are made within `closed`; again, it does nothing more."""
    attributes: dict[str, Any] = loop.__dict__
    if "create_connection" not in attributes:
        attributes["create_connection"] = _checked_connection(loop.create_connection)
        attributes["sock_connect"] = _checked_socket(loop.sock_connect)


def _checked_connection(own: Callable[..., Any]) -> Callable[..., Any]:
    async def create_connection(
        protocol_factory: Callable[[], Any],
        host: str | None = None,
        port: int | None = None,
        **options: Any,
    ) -> Any:
        if not _closed.get() or host is None:
            if _closed.get():
                _check_peer(options["sock"])
            return await own(protocol_factory, host, port, **options)
        addresses = await reachable(host, port or 0)
        if options.get("ssl") and not options.get("server_hostname"):
            options["server_hostname"] = host
        return await _first(addresses, lambda address: own(protocol_factory, address, port, **options))

    return create_connection


def _checked_socket(own: Callable[..., Any]) -> Callable[..., Any]:
    async def sock_connect(sock: socket.socket, address: Any) -> None:
        if not _closed.get() or sock.family not in (socket.AF_INET, socket.AF_INET6):
            await own(sock, address)
            return
        host, port, *rest = address
        is_v6 = sock.family == socket.AF_INET6
        addresses = [each for each in await reachable(host, port) if (":" in each) == is_v6]
        if not addresses:
            raise ForbiddenAddressError

        async def connect(each: str) -> None:
            try:
                await own(sock, (each, port, *rest))
            except ConnectionAbortedError:  # Linux says once that this socket's attempt before has failed
                await own(sock, (each, port, *rest))

        await _first(addresses, connect)

    return sock_connect


async def _first[T](addresses: list[str], connect: Callable[[str], Awaitable[T]]) -> T:
    """What connects of these addresses, the first that can be; a socket that was refused may be used again."""
    for address in addresses[:-1]:
        with contextlib.suppress(OSError):
            return await connect(address)
    return await connect(addresses[-1])


async def _is_proxy(addresses: Iterable[str], port: int) -> bool:
    """Whether a proxy of the environment listens there: it would resolve names itself, and connect where it likes."""
    loop = asyncio.get_running_loop()
    for url in getproxies().values():
        with contextlib.suppress(OSError, ValueError):
            parts = urlsplit(url if "://" in url else f"http://{url}")
            if parts.hostname and (parts.port or _PORTS.get(parts.scheme)) == port:
                found = await loop.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
                if not {str(each[4][0]) for each in found}.isdisjoint(addresses):
                    return True
    return False


def _check_peer(connected: socket.socket) -> None:
    if connected.family in (socket.AF_INET, socket.AF_INET6) and not may_reach(connected.getpeername()[0]):
        raise ForbiddenAddressError
