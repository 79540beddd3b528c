"""All verbs of the admin port (`admin_verbs`). Each module of verbs has a tuple of its own; add it here."""

from raftka.broker.admin_verbs import Verb
from raftka.broker.broker_verbs import BROKER_VERBS
from raftka.broker.config_verbs import CONFIG_VERBS
from raftka.broker.feature_verbs import FEATURE_VERBS
from raftka.broker.leader_verbs import LEADER_VERBS
from raftka.broker.move_verbs import MOVE_VERBS

VERBS: tuple[Verb, ...] = (*MOVE_VERBS, *LEADER_VERBS, *BROKER_VERBS, *FEATURE_VERBS, *CONFIG_VERBS)
