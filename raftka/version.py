"""Version of the installation."""


def installed_version() -> str:
    """Return the version of the installed distribution, or `unknown` in sources that nobody installed."""
    # Imported here: it takes longer than everything else that `raftka --help` needs from the standard library.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("raftka")
    except PackageNotFoundError:
        return "unknown"
