"""All commit records of an archive together: the files that count, and where each partition stands."""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from raftka.error_text import reason_of
from raftka.pipeline.archive.folder import ArchiveFolder
from raftka.pipeline.archive.records import (
    ArchivedFile,
    ArchivedTopic,
    BatchCommit,
    Commit,
    CompactionCommit,
    OffsetRange,
    decode_commit,
    is_record,
)
from raftka.pipeline.errors import PipelineError

Partition = tuple[str, int]


@dataclass(slots=True)
class Manifest:
    """What an archive holds, by its records.

    Attributes:
        files: Files that count, by path.
        ranges: What batches were asked to read, by partition, in order of offsets.
        batches: Batches by name of their record.
        known: What batches knew of topics, by name.
        compactions: How many compactions there were.
        replaced: Paths that compactions have replaced; they do not count, and may still be there.
    """

    files: dict[str, ArchivedFile] = field(default_factory=dict)
    ranges: dict[Partition, list[OffsetRange]] = field(default_factory=dict)
    batches: dict[str, BatchCommit] = field(default_factory=dict)
    known: dict[str, ArchivedTopic] = field(default_factory=dict)
    compactions: int = 0
    replaced: set[str] = field(default_factory=set)

    @property
    def topics(self) -> list[str]:
        """Topics of which there is something, in order."""
        return sorted({topic for topic, _ in self.ranges})

    def rows(self, partition: Partition) -> int:
        """Return how many records of a partition the batches have committed."""
        return sum(each.rows for each in self.ranges.get(partition, []))

    def ends(self) -> dict[Partition, int]:
        """Return the offset behind the last that was read, by partition."""
        return {partition: ranges[-1].end for partition, ranges in self.ranges.items()}

    def begins(self) -> dict[Partition, int]:
        """Return the first offset that is archived, or is to be, by partition; older records do not tell."""
        return {(name, partition): at for name, topic in self.known.items() for partition, at in topic.begins.items()}

    def partitions_of(self, topic: str) -> int:
        """Return how many partitions a topic had, as far as that is known."""
        return 1 + max((partition for name, partition in {*self.ranges, *self.begins()} if name == topic), default=-1)

    def files_of(self, topic: str) -> list[ArchivedFile]:
        """Return the files that count for a topic, by day and offset."""
        found = [file for file in self.files.values() if file.topic == topic]
        return sorted(found, key=lambda file: (file.day, file.first, file.path))


def gather(commits: Iterable[Commit]) -> Manifest:
    """Return what the records come to.

    Raises:
        PipelineError: They contradict each other: two batches have the same offsets, or what a compaction replaces is
            not there.
    """
    manifest = Manifest()
    commits = list(commits)
    for batch in (each for each in commits if isinstance(each, BatchCommit)):
        manifest.batches[batch.name] = batch
        manifest.files |= {file.path: file for file in batch.files}
        if batch.topics != manifest.known:
            manifest.known = joined(manifest.known, batch.topics)
        for found in batch.ranges:
            manifest.ranges.setdefault((found.topic, found.partition), []).append(found)
    compactions = sorted((each for each in commits if isinstance(each, CompactionCommit)), key=lambda each: each.number)
    for compaction in compactions:
        for path in compaction.replaces:
            if manifest.files.pop(path, None) is None:
                raise PipelineError(f"record {compaction.name} replaces {path}, which no earlier record has")
        manifest.files |= {file.path: file for file in compaction.files}
        manifest.replaced.update(compaction.replaces)
        manifest.compactions = compaction.number + 1
    for partition, ranges in manifest.ranges.items():
        ranges.sort(key=lambda each: (each.begin, each.end))
        for one, other in itertools.pairwise(ranges):
            if other.begin < one.end:
                raise PipelineError(
                    f"two batches have read {partition[0]}-{partition[1]}: offsets {one.begin} to {one.end - 1}"
                    f" and {other.begin} to {other.end - 1}"
                )
    return manifest


def joined(one: Mapping[str, ArchivedTopic], other: Mapping[str, ArchivedTopic]) -> dict[str, ArchivedTopic]:
    """Return what two records together know of topics."""
    found = dict(one)
    for name, topic in other.items():
        before = found.get(name, ArchivedTopic())
        begins = dict(before.begins)
        for partition, at in topic.begins.items():
            begins[partition] = min(at, begins.get(partition, at))
        found[name] = ArchivedTopic(id=before.id or topic.id, begins=dict(sorted(begins.items())))
    return found


def former_topics(known: Mapping[str, ArchivedTopic], ids: Mapping[str, str]) -> dict[str, str]:
    """Return the topics that have other ids than those which are archived, and what to say of each."""
    found = {}
    for name, now in sorted(ids.items()):
        was = known[name].id if name in known else None
        if was is not None and was != now:
            found[name] = f"topic {name} was deleted and created again (its id was {was} and is {now})"
    return found


def refuse_former(place: Path, known: Mapping[str, ArchivedTopic], ids: Mapping[str, str]) -> None:
    """Refuse topics that have other ids than those which are archived: two topics would be one.

    Raises:
        PipelineError: One has.
    """
    for why in former_topics(known, ids).values():
        raise PipelineError(
            f"{why}, and {place} has the former one: another folder (`to`) is needed, and a higher `version`"
        )


def refuse_overlap(ends: Mapping[Partition, int], ranges: Iterable[OffsetRange]) -> None:
    """Refuse what begins before an archive's ends: it would be there twice.

    Raises:
        PipelineError: A range does.
    """
    for each in ranges:
        end = ends.get((each.topic, each.partition), 0)
        if each.begin < end:
            raise PipelineError(
                f"the archive has {each.topic}-{each.partition} up to offset {end - 1}, and this batch begins at"
                f" {each.begin}: its checkpoint is of another archive, or older than this one"
            )


def load_manifest(folder: ArchiveFolder) -> Manifest:
    """Read all records of an archive.

    Raises:
        PipelineError: One cannot be read, or they contradict each other.
    """
    return gather(load_commit(path) for path in record_paths(folder))


def record_paths(folder: ArchiveFolder) -> list[Path]:
    """Return the files of all records, in order of their names."""
    return sorted(path for path in folder.commits.iterdir() if is_record(path.name))


def load_commit(path: Path) -> Commit:
    """Return one record.

    Raises:
        PipelineError: It cannot be read.
    """
    try:
        return decode_commit(path.read_bytes())
    except (OSError, ValueError) as error:
        raise PipelineError(f"{path}: {reason_of(error)}") from None


def place_of(folder: ArchiveFolder, file: ArchivedFile) -> Path:
    """Return where a file that counts lies now.

    Raises:
        PipelineError: It is gone.
    """
    for path in (folder.path / file.path, folder.staging / file.staged):
        if path.exists():
            return path
    raise PipelineError(
        f"{folder.path / file.path} is gone: a record has it, with {file.rows:,} records of {file.topic}"
    )


def unknown_files(folder: ArchiveFolder, manifest: Manifest) -> list[str]:
    """Return Parquet files in the archive's folders that no record has: somebody else put them there."""
    found = (path.relative_to(folder.path).as_posix() for path in folder.path.glob("topic=*/day=*/*.parquet"))
    return sorted(path for path in found if path not in manifest.files and path not in manifest.replaced)
