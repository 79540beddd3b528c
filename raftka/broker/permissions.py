"""Who else on this machine can read what a broker keeps: the cluster secret and the data directory."""

import logging
import os
import stat

from cluster.errors import PermanentStartupError
from model.error_text import reason_of

_logger = logging.getLogger("broker")

_OTHERS = stat.S_IROTH | stat.S_IWOTH
_GROUP = stat.S_IRGRP | stat.S_IWGRP


def read_secret(path: str) -> bytes:
    """Return the content of the secret file; its group may read it, with a warning.

    Raises:
        PermanentStartupError: It cannot be read, or everybody can: whoever has the secret may join as a broker.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            # Opening a pipe would wait for somebody to write into it.
            raise PermanentStartupError(
                f"cluster.secret.file: {path} is no regular file; name the file that holds the secret"
            )
        with open(path, "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read()
    except OSError as error:
        raise PermanentStartupError(
            f"cluster.secret.file: {reason_of(error)};"
            " name a file that this user can read and that every broker has alike"
        ) from error
    if mode & _OTHERS:
        raise PermanentStartupError(
            f"cluster.secret.file: {path} has mode {mode:04o}: every user of this machine has the secret by which"
            f" brokers know each other; chmod 600 {path}, and draw a new secret if somebody may have read it"
        )
    if mode & _GROUP:
        _logger.warning(
            "cluster.secret.file: %s has mode %04o: its group has the secret, too; chmod 600 %s keeps it to this user",
            *(path, mode, path),
        )
    return content


def warn_of_open_directory(path: str) -> None:
    """Say so, in one line, where others than this user can read or change what lies in the data directory.

    It is not closed by the broker: a backup that runs as another user may need it as it is.

    Raises:
        OSError: It cannot be asked.
    """
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        _logger.warning("data.dir: %s has mode %04o, which lets others in: chmod 700 %s", path, mode, path)
