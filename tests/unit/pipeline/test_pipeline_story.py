"""What is pure in `make run-pipeline`: the orders, the dead letters, the shades, the folder, the waits."""

import json
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from raftka.kafka.errors import KafkaClientError
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.story.letters import broken_orders, compared, places
from raftka.pipeline.story.orders import is_order, order
from raftka.pipeline.story.outage import Outage, during, unavailable
from raftka.pipeline.story.output import prepare, shown
from raftka.pipeline.story.waiting import StoryError, eventually
from raftka.pipeline.telemetry.plot_data import Span


def test_orders_differ_and_some_of_each_kind_are_no_json() -> None:
    orders = [order(producer, number).decode() for producer in (0, 400) for number in range(1, 201)]
    assert len(set(orders)) == len(orders)
    broken = [each for each in orders if not is_order(each)]
    assert len(broken) == 20
    assert {each[0] for each in broken} == {"{", "o"}
    assert json.loads(orders[0]) == {"id": 1, "item": "coffee", "amount": 0.25}


@pytest.mark.parametrize("value", ["", "7", "[]", "null", '{"id": 1', "order 7: tea"])
def test_what_is_no_object_is_no_order(value: str) -> None:
    assert not is_order(value)


def history(path: Path, *lines: dict[str, object]) -> Path:
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    return path


def poll(partition: str, *records: tuple[int, str], final: bool = True) -> dict[str, object]:
    return {"f": "poll", "type": "ok", "proc": 1, "tp": partition, "recs": records, "final": final}


def test_broken_orders_are_those_of_the_final_reads(tmp_path: Path) -> None:
    found = history(
        tmp_path / "history.jsonl",
        {"f": "fault", "name": "kill", "inv": 5},
        {"f": "assign", "proc": 1, "inv": 1, "tps": ["orders-0"]},
        poll("orders-0", (7, "x"), final=False),
        poll("orders-0", (0, '{"id": 1}'), (1, '{"id"')),
        poll("orders-1", (0, "order 3: tea")),
    )
    assert broken_orders(found) == {("orders-0", 1), ("orders-1", 0)}


def test_a_letter_is_known_by_its_headers() -> None:
    names = {"raftka.topic": b"orders", "raftka.partition": b"1", "raftka.offset": b"17", "raftka.reason": b"no JSON"}
    headers = [SimpleNamespace(key=key, value=bytearray(value)) for key, value in names.items()]
    assert places([headers]) == [("orders-1", 17)]


def test_letters_may_be_told_twice() -> None:
    said = compared({("orders-0", 1), ("orders-1", 2)}, [("orders-0", 1), ("orders-1", 2), ("orders-0", 1)])
    assert said == "2 dead letters (1 told twice), one for each order that is no JSON"


@pytest.mark.parametrize(
    ("broken", "letters", "words"),
    [
        ({("orders-0", 1)}, [], "1 have no dead letter"),
        ({("orders-0", 1)}, [("orders-0", 1), ("orders-0", 2)], "1 dead letters are of others"),
        (set(), [], "0 orders are no JSON"),
    ],
)
def test_a_letter_that_is_missing_or_too_many_ends_the_story(
    broken: set[tuple[str, int]], letters: list[tuple[str, int]], words: str
) -> None:
    with pytest.raises(StoryError, match=words):
        compared(broken, letters)


def test_only_shades_of_the_outage_count() -> None:
    shades = [Span("silent", 90, 95), Span("leaderless", 101, 103), Span("stalled", 120, 121)]
    assert during(shades, Outage(partition=0, lost_at=100.4, led_again_at=103.1)) == [shades[1]]


def test_seconds_in_which_nobody_reported_prove_no_outage() -> None:
    outage = Outage(partition=0, lost_at=100.4, led_again_at=103.1)
    assert unavailable([Span("silent", 100, 103), Span("leaderless", 120, 121)], outage) == []
    shown = [Span("leaderless", 101, 103), Span("stalled", 103, 104)]
    assert unavailable([*shown, Span("silent", 104, 105)], outage) == shown


def test_the_folder_of_the_last_run_is_made_anew(tmp_path: Path) -> None:
    folder = prepare(tmp_path / "build" / "pipeline")
    (folder / "archive").mkdir()
    (folder / "archive" / "left.parquet").touch()
    assert [path.name for path in prepare(folder).iterdir()] == [".raftka-pipeline-story"]


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(PipelineError, match="has other content"):
        prepare(tmp_path)
    with pytest.raises(PipelineError, match="has other content"):
        prepare(tmp_path / "thesis.txt")
    assert (tmp_path / "thesis.txt").exists()


def test_paths_are_shown_as_they_are_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown(tmp_path / "build" / "x") == "build/x"
    assert shown(Path("/elsewhere/x")) == "/elsewhere/x"


def test_brokers_that_do_not_answer_are_asked_again() -> None:
    answers = iter([KafkaClientError("nobody is there"), None, 7])

    def probe() -> int | None:
        answer = next(answers)
        if isinstance(answer, KafkaClientError):
            raise answer
        return answer

    assert eventually("seven", probe) == 7


def test_what_does_not_come_in_time_is_named_with_the_reason() -> None:
    def probe() -> None:
        raise KafkaClientError("nobody is there")

    with pytest.raises(StoryError, match=r"not within 0 s: a leader \(nobody is there\)"):
        eventually("a leader", probe, seconds=0)
