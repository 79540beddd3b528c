"""Brokers, topics, producer ids, features, options: what raft0's commands have made of them.

`controller_blocks` says how they are saved.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace

from cluster.broker_rules import check_decommission, check_placed, check_remove
from cluster.commands import (
    AdmitBroker,
    AllocateProducerIds,
    AlterBrokerConfigs,
    AlterPlacements,
    AlterTopicConfigs,
    Command,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    FinishPlacement,
    OfBrokers,
    RegisterBroker,
    RemoveBroker,
    ReplicaRecord,
    RetireDirectory,
    SetBrokerState,
    SetFeature,
)
from cluster.controller_blocks import (
    TableContents,
    decode_blocks,
    encode_blocks,
    features_size,
    members_size,
    options_size,
    placements_size,
    raft0_size,
    topic_size,
)
from cluster.controller_sizes import ControllerSizes, TopicPart, reserve_bytes, topic_part
from cluster.feature_table import FeatureTable
from cluster.members_table import BrokerState, MembersTable
from cluster.option_table import OptionTable
from cluster.placement import Replicas
from cluster.producer_id_table import ProducerIdTable
from cluster.raft0_candidates import raft0_candidates
from cluster.raft0_table import Raft0Table
from cluster.topic_table import TopicTable, placements
from model.features import BROKERS_LEVEL, MEMBERSHIP, OFFERED, OPTIONS_LEVEL, PLACEMENTS_LEVEL, LevelRange
from model.ids import NO_INDEX, RAFT0, GroupId, Index, NodeId, TopicId, topic_of
from model.topic_config import TopicConfig, resolve_topic_config
from raft.group_configuration import Revision
from storage.errors import UnknownFormatError

# What the first level of a feature adds at most: the heads of two blocks, and what is around the levels.
_FEATURES_BYTES_MAX = 64
# What a level may add for each broker beside the levels that it has: the name of the field.
_FEATURES_KEY_BYTES = 9
# What the first option that is set adds at most beside the option: the head of the block.
_OPTIONS_BYTES_MAX = 32
# What a move adds at most beside its target: the head of the block, and three times the replicas that the partition has
# until then, up to 30 of them.
_PLACEMENT_BYTES_MAX = 4096
# The same of raft0, whose founders may be many.
_RAFT0_BYTES_MAX = 64 * 1024
# What the first change of a broker adds at most: all founders, up to a hundred.
_MEMBERS_BYTES_MAX = 16_384


class UnsupportedLevelError(UnknownFormatError):
    """A feature is in force at a level that this version does not have: it must not go on without it."""


class ControllerTables:
    """See the module.

    Args:
        topic_defaults: Fill what a topic leaves open.
        offered: The levels of features that this broker can work at.
        founders: The brokers that founded the cluster, raft0's first voters. None: whoever registers is in it.
    """

    def __init__(
        self,
        topic_defaults: TopicConfig,
        offered: Mapping[str, LevelRange] = OFFERED,
        founders: Replicas = (),
    ) -> None:
        self._offered = offered
        self.members = MembersTable(founders)
        self.features = FeatureTable()
        self.topics = TopicTable(topic_defaults)
        self.producer_ids = ProducerIdTable()
        self.options = OptionTable()
        self.raft0 = Raft0Table(founders)
        self._sizes = ControllerSizes()

    # -- how large ----------------------------------------------------------------------------------------------

    @property
    def size_bytes(self) -> int:
        """What `encode` yields, in bytes; a close upper bound of it where there are more than 128 replicas."""
        tables = self._sizes.total(self.members.all(), self.producer_ids.next_id)
        return tables + self._size_beside_tables()

    def _size_beside_tables(self) -> int:
        beside = features_size(self.features.all()) + options_size(self.options.all())
        beside += placements_size(self._sizes.moved) + raft0_size(self.raft0.saved)
        return beside + members_size(self.members.saved())

    def size_with(self, command: Command) -> int:
        """Return what `size_bytes` is once the command is applied to these tables, if it is taken."""
        if isinstance(command, SetFeature):
            levels = self.features.all()
            more = features_size(levels | {command.name: command.level}) - features_size(levels)
            brokers = self.members.with_features(command.brokers)
            return self._sizes.total(brokers, self.producer_ids.next_id) + self._size_beside_tables() + more
        if isinstance(command, AlterBrokerConfigs):
            more = options_size(self.options.with_altered(command)) - options_size(self.options.all())
            return self.size_bytes + more
        if isinstance(command, AlterPlacements | FinishPlacement | OfBrokers):
            return self.size_bytes + self.reserve_bytes(command)
        beside = self._size_beside_tables()
        if isinstance(command, RegisterBroker) and self.members.saved() is not None:
            beside += reserve_bytes((command.broker.rpc_host, command.broker.rpc_port))
        return self._size_of_tables(command) + beside

    def _size_of_tables(self, command: Command) -> int:
        brokers, next_id = self.members.all(), self.producer_ids.next_id
        match command:
            case RegisterBroker(broker):
                others = [each for each in brokers if each.node_id != broker.node_id]
                return self._sizes.total([*others, broker], next_id)
            case AllocateProducerIds(first, count):
                return self._sizes.total(brokers, first + count)
            case CreateTopic(name, topic_id, partitions, configs):
                part = topic_part(name, topic_id, placements(partitions), configs, next_id)
                return self._sizes.total(brokers, next_id, after=part)
        assert not isinstance(command, SetFeature | AlterBrokerConfigs | AlterPlacements | FinishPlacement | OfBrokers)
        topic = self.topics.get_by_id(TopicId(command.topic_id))
        if topic is None:
            return self._sizes.total(brokers, next_id)
        before, after = topic_size(topic), None
        match command:
            case CreatePartitions(_, _, partitions):
                after = topic_size(replace(topic, replicas=topic.replicas + placements(partitions)))
            case AlterTopicConfigs(_, configs):
                after = topic_size(replace(topic, overrides=configs))
        return self._sizes.total(brokers, next_id, before, after)

    @staticmethod
    def reserve_bytes(command: Command) -> int:
        """Return the most that the command can add to any tables: for one that others are applied before."""
        match command:
            case DeleteTopic():
                return 0
            case CreateTopic(name, topic_id, partitions, configs):
                # An older producer's number has at most nine bytes.
                return reserve_bytes((0, name, topic_id, configs, 2**63 - 1), placements(partitions))
            case CreatePartitions(_, _, partitions):
                return reserve_bytes((), placements(partitions))
            case AlterTopicConfigs(_, configs):
                return reserve_bytes(configs)
            case RegisterBroker(broker):
                # The address is in the block of members, too.
                return reserve_bytes((broker, broker.rpc_host, broker.rpc_port))
            case AllocateProducerIds():
                return reserve_bytes(2**63 - 1)
            case SetFeature(name, level, brokers):
                keys = _FEATURES_KEY_BYTES * len(brokers)
                return _FEATURES_BYTES_MAX + keys + reserve_bytes((name, level, brokers))
            case AlterBrokerConfigs(node, configs):
                return _OPTIONS_BYTES_MAX + reserve_bytes((node, configs))
            case AlterPlacements(moves):
                targets = placements([each.target or [] for each in moves])
                around = _RAFT0_BYTES_MAX if command.of_raft0 else _PLACEMENT_BYTES_MAX * len(moves)
                return around + reserve_bytes(moves, targets)
            case FinishPlacement(group):
                # What the partition keeps of the move is less than the move, which was counted.
                return reserve_bytes(group)
            case AdmitBroker() | SetBrokerState() | RetireDirectory() | RemoveBroker():
                # The first change writes the founders down, too.
                return _MEMBERS_BYTES_MAX + reserve_bytes(command)

    # -- changes ------------------------------------------------------------------------------------------------

    def check(self, command: Command) -> None:
        """Refuse a command that sets what this version does not know: it could not be applied.

        Raises:
            InvalidConfigError: A configuration of a topic.
            UnsupportedLevelError: A level of a feature.
        """
        if isinstance(command, CreateTopic | AlterTopicConfigs):
            resolve_topic_config(command.configs, self.topics.defaults)
        if isinstance(command, SetFeature):
            self._check_levels({command.name: command.level})

    def check_level(self, command: SetFeature) -> None:
        """Raise FeatureUpdateError if `apply` would refuse the command."""
        self.features.check(command.name, command.level, self.members.highest_levels(command.brokers))

    def _check_levels(self, levels: Mapping[str, int]) -> None:
        for name, level in levels.items():
            highest = self._offered[name].highest if name in self._offered else 0
            if level > highest:
                raise UnsupportedLevelError(
                    f"the cluster uses {name[:100]} at level {level}, and this version has level {highest}: "
                    "start a version that has it"
                )

    def apply(self, command: Command, index: Index = NO_INDEX) -> None:
        """Change the table that the command, raft0's entry at `index`, is for.

        Raises:
            ClusterError: The table refuses it, and is as before.
        """
        topics = _topics_of(command)
        before = [self._part_of(topic) for topic in topics]
        self._apply(command, index)
        for part, topic in zip(before, topics, strict=True):
            self._sizes.replace(part, self._part_of(topic))

    def _apply(self, command: Command, index: Index) -> None:
        match command:
            case RegisterBroker(broker):
                self.features.check_broker(broker)
                only_admitted = self.features.level(MEMBERSHIP) >= BROKERS_LEVEL
                self.members.apply_register(broker, only_admitted=only_admitted)
            case CreateTopic() as create:
                self.features.require_for_topic(create.configs)
                self._check_placed(create.partitions)
                self.topics.apply_create(create, self.producer_ids.next_id)
            case DeleteTopic(topic_id):
                self.topics.apply_delete(TopicId(topic_id))
            case CreatePartitions() as grow:
                self._check_placed(grow.partitions)
                self.topics.apply_create_partitions(grow)
            case AlterTopicConfigs() as alter:
                self.features.require_for_topic(alter.configs)
                self.topics.apply_alter_configs(alter)
            case AllocateProducerIds() as block:
                self.producer_ids.apply_allocate(block)
            case SetFeature() as raised:
                self.features.apply_set(raised, self.members.highest_levels(raised.brokers))
                self.members.apply_features(raised.brokers)
            case AlterBrokerConfigs() as altered:
                self.features.require(MEMBERSHIP, OPTIONS_LEVEL, "options that are set while brokers run")
                self.options.apply_alter(altered)
            case AlterPlacements() as moves:
                self.features.require(MEMBERSHIP, PLACEMENTS_LEVEL, "moves of partitions")
                self._apply_moves(moves, Revision(0, index))
            case FinishPlacement(group, revision) if group == RAFT0:
                self.raft0.apply_finish(Revision(*revision))
            case FinishPlacement() as finished:
                self.topics.apply_finish_placement(finished)
            case _:
                self._apply_to_brokers(command, Revision(0, index))

    def _apply_to_brokers(self, command: OfBrokers, revision: Revision) -> None:
        self.features.require(MEMBERSHIP, BROKERS_LEVEL, "changes of brokers")
        match command:
            case AdmitBroker() as admit:
                self.members.apply_admit(admit, revision)
            case SetBrokerState(node_id, state) as changed:
                if BrokerState(state) is BrokerState.DECOMMISSIONING:
                    check_decommission(self.members, self.topics, NodeId(node_id))
                self.members.apply_set_state(changed, revision)
            case RetireDirectory() as retired:
                self.members.apply_retire(retired, revision)
            case RemoveBroker(node_id):
                check_remove(self.topics, self.raft0, NodeId(node_id))
                self.members.apply_remove(NodeId(node_id), revision)
                self.options.apply_alter(AlterBrokerConfigs(node_id, {}))

    def _check_placed(self, partitions: Sequence[Sequence[ReplicaRecord]]) -> None:
        # Below the level no broker leaves, and what older versions have written is applied as they have applied it.
        if self.features.level(MEMBERSHIP) >= BROKERS_LEVEL:
            for replicas in placements(partitions):
                check_placed(self.members, replicas)

    def _apply_moves(self, moves: AlterPlacements, revision: Revision) -> None:
        if moves.of_raft0 is None:
            for each in moves.placements:
                topic = self.topics.get_by_id(TopicId(each.topic_id))
                if each.target is not None and topic is not None and each.partition < len(topic.replicas):
                    (target,) = placements([each.target])
                    check_placed(self.members, target, topic.holders(each.partition))
            self.topics.apply_alter_placements(moves, revision)
        else:
            self.raft0.apply_alter(moves.of_raft0, raft0_candidates(self.members), revision)

    def _part_of(self, topic_id: TopicId) -> TopicPart | None:
        topic = self.topics.get_by_id(topic_id)
        return None if topic is None else topic_size(topic)

    # -- state bytes --------------------------------------------------------------------------------------------

    def encode(self) -> Iterator[bytes]:
        """Yield the tables as state bytes: the same on every node that has applied as much.

        They must not change before the end.
        """
        return encode_blocks(
            TableContents(
                self.members.all(),
                self.producer_ids.next_id,
                self.topics.all(),
                self._sizes,
                self.features.all(),
                self.features.epoch,
                self.options.all(),
                self.raft0.saved,
                self.members.saved(),
            )
        )

    def decode(self, state: bytes) -> Generator[None, None, TableContents]:
        """Return, after some steps, what `encode` has yielded; the tables stay as they are.

        Raises:
            CorruptLogError: Not written by `encode`, or by a newer version.
            UnsupportedLevelError: It has a level of a feature that this version does not have.
        """
        contents = yield from decode_blocks(state, self.topics.defaults)
        self._check_levels(contents.levels)
        return contents

    def replace(self, contents: TableContents) -> None:
        """Let the tables be what a snapshot says, which is a later moment of the same log.

        Listeners are told once all tables are of that moment. If one heard of new brokers before raft0's placement was
        new, its target would have the revision of the new one and the voters of the old one.
        """
        self.members.replace(contents.brokers, contents.members)
        self.producer_ids.next_id = contents.next_producer_id
        tell_of_topics = self.topics.replace(contents.topics)
        self.features.replace(contents.levels, contents.feature_epoch)
        self._sizes = contents.sizes
        self.raft0.replace(contents.raft0)
        self.options.replace(contents.options)
        self.members.tell()
        tell_of_topics()
        self.features.tell()
        self.raft0.tell()
        # Last: options may be defaults of topics, which were read with those that are in force until now.
        self.options.tell()

    def clear(self) -> None:
        """Begin from nothing, and tell nobody: what was here is read again."""
        self.members.clear()
        self.producer_ids.next_id = 0
        self.topics.clear()
        self.features.replace({}, 0)
        self.options.clear()
        self.raft0.clear()
        self._sizes = ControllerSizes()


def _topics_of(command: Command) -> list[TopicId]:
    """Return which topics a command changes, each once."""
    match command:
        case RegisterBroker() | AllocateProducerIds() | SetFeature() | AlterBrokerConfigs():
            return []
        case AdmitBroker() | SetBrokerState() | RetireDirectory() | RemoveBroker():
            return []
        case AlterPlacements(moves):
            named = dict.fromkeys(each.topic_id for each in moves if each.topic_id != RAFT0)
            return [TopicId(topic_id) for topic_id in named]
        case FinishPlacement(group):
            return [] if group == RAFT0 else [topic_of(GroupId(group))]
    return [TopicId(command.topic_id)]
