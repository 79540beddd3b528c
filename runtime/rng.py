"""Chance: jitter, ids, nonces. Production draws from the kernel, the simulator from a seed."""

import random

# The stdlib class is the contract: `uniform`, `randrange`, `randbytes`, `choice`.
Rng = random.Random


def system_rng() -> Rng:
    """Return a generator fed by the kernel; its ids and nonces are not predictable."""
    return random.SystemRandom()
