"""Pure decisions: no IO, no clock, no asyncio.

* `agreement`  point(): commit, visibility and the answer to acks=all.
* `append`     what a follower does with entries.
* `clean_indexes`  up to where log compaction may remove tombstones.
* `election`   whether to grant a vote; which log is longer.
* `recovery`   where to look next for the point two logs share.
"""
