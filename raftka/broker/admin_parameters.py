"""Which query parameters a path of the admin port takes. Any other is refused: a misspelled one must not be ignored."""

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

# By the path as the router knows it; a path that is not here takes none.
PARAMETERS: dict[str, tuple[str, ...]] = {
    "/v1/events": ("since",),
    "/v1/partitions": ("topic",),
    "/v1/partitions/{topic}/{partition}/transfer_leadership": ("target", "dry_run"),
}
_SHOWN_CHARACTERS = 60
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class KnownParameters:
    """Refuses parameters that are neither in PARAMETERS nor in `more`, which is that of the verbs."""

    def __init__(self, more: Mapping[str, tuple[str, ...]]) -> None:
        self._taken = {**PARAMETERS, **more}

    @web.middleware
    async def middleware(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Answer 400, with the name, to a request with a parameter that its path does not take."""
        resource = request.match_info.route.resource
        if resource is None:
            return await handler(request)  # No such path, or not with this method.
        allowed = self._taken.get(resource.canonical, ())
        unknown = sorted(set(request.query) - set(allowed))
        if not unknown:
            return await handler(request)
        there = f"there is only {', '.join(allowed)}" if allowed else "this path takes none"
        message = f"unknown parameter {unknown[0][:_SHOWN_CHARACTERS]!r}: {there}"
        return web.json_response({"error": message}, status=400)


@web.middleware
async def name_unknown_path(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Answer 404, with the path, where there is none of that name, and 405 to a method that it does not take."""
    found = request.match_info.http_exception
    if isinstance(found, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(found.allowed_methods))
        message = f"{request.path[:_SHOWN_CHARACTERS]!r} does not take {request.method[:_SHOWN_CHARACTERS]}: {allowed}"
        return web.json_response({"error": message}, status=405, headers={"Allow": allowed})
    if isinstance(found, web.HTTPNotFound):
        message = f"no path {request.path[:_SHOWN_CHARACTERS]!r}: docs/operations/monitoring.md lists all"
        return web.json_response({"error": message}, status=404)
    return await handler(request)
