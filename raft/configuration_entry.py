"""The payload of a CONFIGURATION entry: msgpack of [1, revision, voter sets, learners] (RFC 0019 section 2).

revision     [generation, index]
voter sets   one or two lists of replicas; a replica is [node id, directory id]
learners     a list of replicas
"""

import msgspec

from model.ids import DirectoryId, NodeId, Replica
from raft.group_configuration import GroupConfiguration, Revision, configuration_flaw
from storage.entry import Buffer
from storage.errors import CorruptEntryError, UnknownFormatError

FORMAT_VERSION = 1

_Wire = tuple[int, tuple[int, int], list[list[tuple[int, str]]], list[tuple[int, str]]]
_decoder: msgspec.msgpack.Decoder[_Wire] = msgspec.msgpack.Decoder(_Wire)
_version_decoder: msgspec.msgpack.Decoder[list[msgspec.Raw]] = msgspec.msgpack.Decoder(list[msgspec.Raw])


def encode_configuration(configuration: GroupConfiguration) -> bytes:
    """Return the payload of the entry that puts a configuration in force."""
    sets = [[tuple(voter) for voter in voters] for voters in configuration.voter_sets]
    learners = [tuple(learner) for learner in configuration.learners]
    return msgspec.msgpack.encode((FORMAT_VERSION, tuple(configuration.revision), sets, learners))


def decode_configuration(payload: Buffer) -> GroupConfiguration:
    """Read a payload.

    Raises:
        UnknownFormatError: A newer version wrote it.
        CorruptEntryError: It says nothing that can be in force.
    """
    try:
        items = _version_decoder.decode(payload)
        version = msgspec.msgpack.decode(items[0]) if items else None
        if type(version) is not int:
            raise CorruptEntryError("a configuration without a format")
        if version != FORMAT_VERSION:
            raise UnknownFormatError(f"a configuration has format {version}, this version reads {FORMAT_VERSION}")
        _, (generation, index), sets, learners = _decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CorruptEntryError(f"a configuration cannot be read: {error}") from error
    if generation < 0 or index < 0:
        raise CorruptEntryError(f"a configuration of revision {generation}.{index}")
    voter_sets, learned = tuple(tuple(map(_replica, voters)) for voters in sets), tuple(map(_replica, learners))
    if flaw := configuration_flaw(voter_sets, learned):
        raise CorruptEntryError(f"a configuration in which {flaw}")
    return GroupConfiguration(voter_sets, learned, Revision(generation, index))


def _replica(item: tuple[int, str]) -> Replica:
    return Replica(NodeId(item[0]), DirectoryId(item[1]))
