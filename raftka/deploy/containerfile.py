"""A Containerfile: an image with Raftka from a wheel, a user of its own, and nothing that builds.

podman and docker build it from a folder with the wheel of `make wheel` and constraints.txt of the same version.
"""

from dataclasses import dataclass

# Not 1000, which is a person's on most machines; the manifests of `raftka.deploy.kubernetes` use it, too.
USER_ID = 10_001
DATA_DIR = "/var/lib/raftka"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRequest:
    """What an image is made from.

    Attributes:
        base: An image with Python 3.11 or newer and pip, as `raftka.deploy.checked.checked_image` returns it.
        version: Version of the wheel.
        admin_port: Where the health check asks.
    """

    base: str
    version: str
    admin_port: int


def render_containerfile(request: ImageRequest) -> str:
    """Return the Containerfile."""
    return _CONTAINERFILE.format(
        base=request.base,
        version=request.version,
        admin_port=request.admin_port,
        user_id=USER_ID,
        data_dir=DATA_DIR,
    )


_CONTAINERFILE = """\
# Raftka {version}, written by `raftka generate containerfile`.
# In a folder with raftka-{version}-py3-none-any.whl (`make wheel` puts it into dist/) and constraints.txt:
#   podman build --format docker -t raftka:{version} -f Containerfile .
# Without `--format docker`, podman leaves the health check out.

FROM {base} AS build
COPY raftka-{version}-py3-none-any.whl constraints.txt /build/
RUN python3 -m venv /opt/raftka \\
 && /opt/raftka/bin/pip install --no-cache-dir -c /build/constraints.txt /build/raftka-{version}-py3-none-any.whl \\
 && /opt/raftka/bin/pip uninstall --yes pip

FROM {base}
COPY --from=build /opt/raftka /opt/raftka
# The data directory exists with this owner, and a new volume is made with it.
RUN groupadd --gid {user_id} raftka \\
 && useradd --uid {user_id} --gid {user_id} --no-create-home --home-dir / --shell /usr/sbin/nologin raftka \\
 && install -d -m 0700 -o raftka -g raftka {data_dir}
ENV PATH=/opt/raftka/bin:$PATH \\
    RAFTKA_DATA_DIR={data_dir}
USER {user_id}:{user_id}
VOLUME {data_dir}
# Kafka clients, other brokers, admin.
EXPOSE 9092 33145 {admin_port}
# A clean stop transfers leaderships first: give it 90 s (`podman stop --time 90`).
STOPSIGNAL SIGTERM
# It asks loopback: let admin.address be 127.0.0.1 or 0.0.0.0.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=12 \\
    CMD ["/opt/raftka/bin/python", "-I", "-c", \\
         "import urllib.request as r; r.urlopen('http://127.0.0.1:{admin_port}/v1/status/live', timeout=4)"]
ENTRYPOINT ["/opt/raftka/bin/raftka"]
CMD ["start", "--no-data-dir-create"]
"""
