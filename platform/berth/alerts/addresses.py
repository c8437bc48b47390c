"""Where a webhook may go: a URL checked when it is written down, and every address again when it is connected to.

A name is looked up once, at the connection, and the addresses found are the ones that are used: a name that answers
differently the second time gains nothing (DNS rebinding). Redirects are not followed.
"""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from berth.config import CONFIG
from berth.core.errors import Invalid

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Refused(OSError):
    """The address is not one that a webhook may reach."""


def check_url(url: str) -> None:
    """Raises ``Invalid`` for what is no http(s) URL, carries credentials, or names a private address outright."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise Invalid(f"{url[:100]!r} is not a URL", field="target") from error
    if parts.scheme not in ("http", "https") or not host:
        raise Invalid("A webhook is a URL that begins with https:// or http://", field="target")
    if parts.username or parts.password:
        raise Invalid("A webhook's URL carries no user and password; its signature says who sends", field="target")
    if any(character.isspace() or not character.isprintable() for character in url):
        raise Invalid("A URL has no spaces", field="target")
    if CONFIG.webhook_private:
        return
    literal = as_address(host)
    if host.lower().rstrip(".") == "localhost" or (literal is not None and not is_public(literal)):
        raise Invalid(
            f"{host} is an address inside this installation's network; webhooks reach public addresses only. "
            "An operator may allow others by BERTH_WEBHOOK_PRIVATE",
            field="target",
        )


def without_path(target: str) -> str:
    parts = urlsplit(target)
    return f"{parts.scheme}://{parts.hostname}/…" if parts.scheme in ("http", "https") else target


def as_address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None


def is_public(address: Address) -> bool:
    """Whether it is one of the Internet's, also behind the forms in which IPv6 carries IPv4."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
    return address.is_global and not address.is_multicast and not address.is_reserved


def check_literal(host: str) -> None:
    """Raises ``Refused`` for a literal address that may not be reached; a name passes."""
    if (address := as_address(host)) is not None and not may_reach(address):
        raise Refused(f"{host} is an address inside this installation's network")


def may_reach(address: Address) -> bool:
    return CONFIG.webhook_private or is_public(address)


class PublicResolver(AbstractResolver):
    """Looks names up and hands on only the addresses that may be reached."""

    def __init__(self) -> None:
        self._inner = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, socket.AF_UNSPEC)
        addresses = ((one, as_address(one["host"])) for one in found)
        allowed = [one for one, address in addresses if address is not None and may_reach(address)]
        if not allowed:
            raise Refused(f"{host} is an address inside this installation's network")
        return allowed

    async def close(self) -> None:
        await self._inner.close()
