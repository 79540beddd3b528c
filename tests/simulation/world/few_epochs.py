"""Producers that use up their epochs: there are 32,767 of an id, and a run of a minute sees a few dozen."""

import contextlib
from collections.abc import Iterator

import pytest

from kafka_api.transactions import transaction, transaction_steps

_EPOCH_MAX = 6


@contextlib.contextmanager
def few_epochs(*, are_few: bool = True) -> Iterator[None]:
    """Let an id have so few epochs that producers of a run get new ids; `are_few` False changes nothing."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (transaction_steps, transaction) if are_few else ():
            patch.setattr(module, "EPOCH_MAX", _EPOCH_MAX)
            patch.setattr(module, "GIVEN_EPOCH_MAX", _EPOCH_MAX - 1)
        yield
