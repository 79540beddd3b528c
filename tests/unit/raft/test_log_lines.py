"""One line per role, term and segment change, prefixed with group, node, term and role."""

import logging
import re

from tests.unit.raft.transcript import replay

_STORY = """\
cluster 3
start
elect 1
replicate 1 a quorum_ack
deliver
cut 1
elect 2
heal 1
beat 2
deliver
"""
_PREFIX = re.compile(r"\[story n(\d) t(\d+) ([FCL])\] (.+)")


def test_every_change_is_one_line_that_says_whose_it_is(caplog):
    caplog.set_level(logging.INFO)
    replay(_STORY)
    lines = [record.getMessage() for record in caplog.records if record.name in ("raft", "storage")]
    parsed = [_PREFIX.fullmatch(line) for line in lines]
    assert all(parsed), lines
    told = {" ".join(match.groups()) for match in parsed if match}
    assert {
        "1 1 C stands for election: no leader was heard since the start; log ends at 0@0",
        "1 1 L segment 00000000000000000001-1.log begins",
        "2 1 F follows node 1",
        "2 2 C stands for election: the story says so; log ends at 2@1",
        "1 2 F steps down: a newer term was seen",
        "1 2 F follows node 2",
    } <= told
    assert len([line for line in told if " elected by nodes " in line]) == 2


_LOSS = """\
cluster 3
start
elect 1
replicate 1 a quorum_ack
deliver
cut 1
replicate 1 b leader_ack
replicate 1 c leader_ack
elect 2
heal 1
beat 2
deliver
beat 2
deliver
"""


def test_records_that_are_truncated_are_told_by_epoch_and_offsets(caplog):
    caplog.set_level(logging.INFO)
    replay(_LOSS)
    told = [record.getMessage() for record in caplog.records if record.name == "raft"]
    assert "[story n1 t2 F] truncated records: 1@[1, 3)" in told, told
