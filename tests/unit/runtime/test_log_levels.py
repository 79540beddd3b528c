"""Loggers and their levels at run time."""

import ast
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.log_levels import LOGGERS, LogLevelError, check_level, check_logger, logger_levels, set_level

ROOT = Path(__file__).parents[3]
TREES = ("runtime", "model", "storage", "rpc", "raft", "cluster", "kafka_api", "raftka/broker")


@pytest.fixture(autouse=True)
def _levels() -> Iterator[None]:
    loggers = [logging.getLogger(None if name == "root" else name) for name in LOGGERS]
    before = [(logger, logger.level) for logger in loggers]
    yield
    for logger, level in before:
        logger.setLevel(level)


def _named_in_code() -> set[str]:
    """Return the names that modules of the broker give to loggers of their own, or to those of libraries."""
    found = set()
    for tree in TREES:
        for path in (ROOT / tree).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and node.func.attr == "getLogger"
                ):
                    found |= {each.value for each in node.args if isinstance(each, ast.Constant)}
                    assert not any(isinstance(each, ast.Name) and each.id == "__name__" for each in node.args), path
    return {str(name) for name in found}


def test_every_logger_of_the_code_is_in_the_table_or_below_one() -> None:
    assert {name for name in _named_in_code() if name not in LOGGERS and name.partition(".")[0] not in LOGGERS} == set()


def test_a_level_is_its_own_or_comes_from_a_logger_above() -> None:
    set_level("root", "WARNING")
    set_level("kafka", "DEBUG")
    levels = {each.name: (each.level, each.source) for each in logger_levels()}
    assert list(levels) == list(LOGGERS)
    assert levels["root"] == levels["raft"] == ("WARNING", "root")
    assert levels["kafka"] == levels["kafka.groups"] == ("DEBUG", "kafka")
    set_level("kafka.groups", "ERROR")
    set_level("kafka", None)
    levels = {each.name: (each.level, each.source) for each in logger_levels()}
    assert levels["kafka"] == ("WARNING", "root")
    assert levels["kafka.groups"] == ("ERROR", "kafka.groups")


@pytest.mark.parametrize(
    ("text", "level"),
    [("INFO", "INFO"), ("debug", "DEBUG"), (" Error ", "ERROR"), ("WARN", "WARNING"), ("FATAL", "CRITICAL")],
)
def test_a_level_is_read_in_any_case_and_by_kafkas_name(text: str, level: str) -> None:
    assert check_level(text) == level


@pytest.mark.parametrize("text", ["", "TRACE", "LOUD", "10", "NOTSET", "x" * 1_000])
def test_an_unknown_level_is_refused_with_the_names_of_all(text: str) -> None:
    with pytest.raises(LogLevelError) as refused:
        check_level(text)
    assert str(refused.value).endswith("the levels are DEBUG, INFO, WARNING (WARN), ERROR, CRITICAL (FATAL)")
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("name", ["", "Raft", "raft.consensus", "org.apache.kafka", "x" * 1_000])
def test_an_unknown_logger_is_refused_with_the_names_of_all(name: str) -> None:
    with pytest.raises(LogLevelError) as refused:
        check_logger(name)
    assert str(refused.value).endswith(f"the loggers are {', '.join(LOGGERS)}")
    assert len(str(refused.value)) < 300
