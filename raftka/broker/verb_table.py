"""All verbs of the admin port (`admin_verbs`). Each module of verbs has a tuple of its own; add it here."""

from raftka.broker.admin_verbs import Verb

VERBS: tuple[Verb, ...] = ()
