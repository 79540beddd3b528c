"""Exit codes of a broker process.

A supervisor restarts a broker that ended with FAILED. It must not restart one that ended with CONFIGURATION, because
the same start would be refused again: systemd's `RestartPreventExitStatus=78` says so.
"""

from cluster.errors import PermanentStartupError
from storage.errors import ForeignDirectoryError, ForeignSegmentError, MismatchedLogError

STOPPED = 0
# A disk that refuses, a port or a directory in use, a background task that died: a restart may help.
FAILED = 1
# EX_CONFIG of sysexits.h: a person must change the configuration, the secret file or the data directory first.
CONFIGURATION = 78

_PERMANENT = (PermanentStartupError, ForeignDirectoryError, ForeignSegmentError, MismatchedLogError)


def exit_code_of(error: Exception) -> int:
    """Return the exit code of a broker that did not start because of `error`."""
    return CONFIGURATION if isinstance(error, _PERMANENT) else FAILED
