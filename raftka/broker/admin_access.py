"""Which requests the admin port answers: none that a web page made a browser send.

A page of any site can make a browser send requests to 127.0.0.1 and to the addresses of a private network. Three rules
keep such requests out:

- Every request names, in `Host`, an address or a name of this port. A page that gets its own name resolved to this
  address (DNS rebinding) counts as same-origin for the browser, but its requests still carry its own name.
- `Origin`, which a browser sets and no page can, is absent or names this port as `Host` does.
- A method that changes something comes from no page, or from one of this port itself: `Sec-Fetch-Site`, also set by the
  browser, is absent, `none` or `same-origin`. Methods that read are let through: a link in a page may lead here.

The port in `Host` is not compared: through a tunnel it is another one, and a page cannot choose the name by it.
"""

import ipaddress
import re
from collections.abc import Awaitable, Callable, Iterable

from aiohttp import web

ALLOWED_HOSTS = "admin.allowed.hosts"
# RFC 9110 section 9.2.1.
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_OWN_SITES = frozenset({"none", "same-origin"})
_AUTHORITY = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{0,5}))?")
_SHOWN_MAX = 100
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class AdminAccess:
    """Refuses, with a JSON error that names the cure, what the module says.

    Args:
        names: Hosts of this port besides loopback and the address that a connection came in at, which is one that the
            listener is bound to: the host of `admin.advertised.listener` and those of `admin.allowed.hosts`.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {"localhost", *(_host_key(name) for name in names)}

    @web.middleware
    async def middleware(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Answer what is refused; pass the rest on."""
        refusal = self._refusal(request)
        return await handler(request) if refusal is None else refusal

    def _refusal(self, request: web.Request) -> web.Response | None:
        hosts = request.headers.getall("Host", [])
        if len(hosts) != 1:
            found = "has no Host header" if not hosts else f"has {len(hosts)} Host headers"
            return _error(400, f"the request {found}: exactly one is needed")
        if not request.raw_path.startswith("/"):
            # RFC 9112 section 3.2.2: such a target would overrule Host.
            return _error(400, f"the request target {_shown(request.raw_path)} is no path")
        host = hosts[0].strip()
        parts = _AUTHORITY.fullmatch(host)
        if parts is None:
            return _error(400, f"Host {_shown(host)} is neither a host name nor an IP address, with or without a port")
        if not self._is_ours(parts["host"], request):
            return _error(
                403,
                f"Host {_shown(host)} names no address of this admin port; if it is a name of this broker,"
                f" add it to {ALLOWED_HOSTS}",
            )
        if request.method not in _SAFE_METHODS and (refusal := _site_refusal(request)) is not None:
            return refusal
        return _origin_refusal(request, host)

    def _is_ours(self, host: str, request: web.Request) -> bool:
        key = _host_key(host.strip("[]"))
        if key in self._names:
            return True
        address = _address(key)
        return address is not None and (address.is_loopback or address == _arrived_at(request))


def _site_refusal(request: web.Request) -> web.Response | None:
    for site in request.headers.getall("Sec-Fetch-Site", []):
        if site.strip().lower() not in _OWN_SITES:
            return _error(
                403,
                f"{request.method} from a web page of another site (Sec-Fetch-Site: {_shown(site)}) is refused;"
                " send it from no web page, for example with raftka or curl",
            )
    return None


def _origin_refusal(request: web.Request, host: str) -> web.Response | None:
    for origin in request.headers.getall("Origin", []):
        scheme, separator, authority = origin.strip().partition("://")
        if not separator or scheme.lower() not in ("http", "https") or authority.lower() != host.lower():
            return _error(
                403,
                f"{request.method} from a web page of {_shown(origin)} is refused: its Origin is not the Host,"
                f" {_shown(host)}; send it from no web page, or let a proxy in between keep the Host, and name that"
                f" in {ALLOWED_HOSTS}",
            )
    return None


def _arrived_at(request: web.Request) -> _Address | None:
    """Return the local address of the connection: bound to a wildcard, it is one of this machine's interfaces."""
    transport = request.transport
    name = None if transport is None else transport.get_extra_info("sockname")
    return _address(str(name[0])) if isinstance(name, tuple) else None


def is_from_this_machine(request: web.Request) -> bool:
    """Whether the client is on the broker's machine: it comes from loopback, or from the address that it came to.

    What a proxy or a tunnel on this machine passes on counts as local.
    """
    transport = request.transport
    name = None if transport is None else transport.get_extra_info("peername")
    peer = _address(str(name[0])) if isinstance(name, tuple) else None
    return peer is not None and (peer.is_loopback or peer == _arrived_at(request))


def _address(text: str) -> _Address | None:
    """Return an IP address; an IPv4 address in IPv6's clothes as IPv4, any zone left off."""
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return found.ipv4_mapped or found if isinstance(found, ipaddress.IPv6Address) else found


def _host_key(host: str) -> str:
    """Return what two spellings of a host have in common: case, a final dot, the zeros of an IPv6 address."""
    address = _address(host)
    return str(address) if address is not None else host.lower().removesuffix(".")


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "...")


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": message}, status=status)
