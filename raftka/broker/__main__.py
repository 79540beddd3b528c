"""`python -I -u -m raftka.broker --node-id N --config-fd FD`: one broker process.

Only this process and `dump_log` put the broker's plain-named packages on their path (`package_path`).
"""

import sys

from raftka.broker.package_path import add_broker_packages
from raftka.harmless_signals import ignore_harmless_signals


def main() -> int:
    """Run the broker until SIGTERM or SIGINT; return the process's exit code."""
    # Before the imports, which take long.
    ignore_harmless_signals()
    import argparse
    import asyncio

    add_broker_packages()
    from raftka.broker.exit_codes import CONFIGURATION

    if not __debug__:
        # Assertions are part of the product: they stop a replica before it does harm.
        print("raftka: refusing to run under python -O: assertions are needed", file=sys.stderr)
        return CONFIGURATION
    parser = argparse.ArgumentParser(prog="raftka.broker")
    parser.add_argument("--node-id", type=int, required=True, metavar="N", help="whose process this is, for `ps`")
    parser.add_argument(
        "--config-fd",
        type=int,
        required=True,
        metavar="N",
        help="descriptor of the resolved configuration, as `raftka start` passes it",
    )
    parser.add_argument(
        "--hang-appends-while",
        metavar="FILE",
        help="for `raftka chaos` alone: no write to a log begins while this file exists",
    )
    arguments = parser.parse_args()

    from raftka.broker.application import run_broker
    from raftka.config import ConfigError
    from raftka.config_descriptor import read_config

    try:
        config = read_config(arguments.config_fd, arguments.node_id)
    except ConfigError as error:
        print(f"raftka: {error}", file=sys.stderr)
        return CONFIGURATION
    return asyncio.run(run_broker(config, arguments.hang_appends_while))


if __name__ == "__main__":
    sys.exit(main())
