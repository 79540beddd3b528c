"""Which small files are joined: pure arithmetic."""

from collections.abc import Iterable

from raftka.pipeline.archive.records import ArchivedFile


def plan(files: Iterable[ArchivedFile], target_bytes: int) -> list[list[ArchivedFile]]:
    """Return groups of files of one topic and day, each to become one file of about `target_bytes`.

    A file of half the target or more stays as it is: to join it would write it again for little. Files are joined in
    the order of their first offsets, so that what belongs together stays together.
    """
    by_folder: dict[tuple[str, str], list[ArchivedFile]] = {}
    for file in files:
        if file.size * 2 < target_bytes:
            by_folder.setdefault((file.topic, file.day), []).append(file)
    groups = []
    for _, small in sorted(by_folder.items()):
        group: list[ArchivedFile] = []
        for file in sorted(small, key=lambda file: (file.first, file.path)):
            if group and sum(each.size for each in group) + file.size > target_bytes:
                groups.append(group)
                group = []
            group.append(file)
        groups.append(group)
    return [group for group in groups if len(group) > 1]
