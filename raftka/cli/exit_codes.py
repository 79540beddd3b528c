"""Exit codes of `raftka`, and the errors that stand for them."""

DONE = 0
FAILED = 1
# `raftka check` and `raftka audit`: the history proves nothing either way.
UNJUDGED = 2
USAGE = 64
# EX_UNAVAILABLE of sysexits.h: too few brokers answer, so the cluster can decide nothing (kafka.errors.NoQuorumError).
UNAVAILABLE = 69
# A broker that would be refused again at every start: what raftka.broker.exit_codes says of the broker process.
CONFIGURATION = 78
# What shells say of a command that Ctrl-C ended: 128 and the number of SIGINT.
INTERRUPTED = 130
# The same of SIGTERM, where a command tells it from Ctrl-C.
TERMINATED = 143


class CommandError(Exception):
    """A command that did not work: one line for stderr."""

    exit_code = FAILED


class UnjudgedError(CommandError):
    """A judge that could not do its work; 1 would say that it has found something."""

    exit_code = UNJUDGED


class GivenUpError(CommandError):
    """Work that somebody did not want to wait for, after Ctrl-C."""

    exit_code = INTERRUPTED


class ConfigurationError(CommandError):
    """A broker whose configuration cannot be used."""

    exit_code = CONFIGURATION


class UsageError(CommandError):
    """A command that cannot work as it was typed."""

    exit_code = USAGE
