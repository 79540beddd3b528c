"""Where the tasks of an audit run: functions of one argument, which find everything else in files."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")


class Cluster(Protocol):
    """What runs tasks."""

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return what a function makes of each item, in order; each is a task of its own."""


class InProcess:
    """This process, one task after the other."""

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return what a function makes of each item, in order."""
        return [function(item) for item in items]


class OnSpark:
    """A session's workers."""

    def __init__(self, spark: "SparkSession") -> None:
        self._context = spark.sparkContext

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return what a function makes of each item, in order; each is a Spark task."""
        if not items:
            return []
        found: list[R] = self._context.parallelize(items, len(items)).map(function).collect()
        return found
