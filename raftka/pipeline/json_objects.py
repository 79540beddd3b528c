"""Which texts are one JSON object and nothing else: Spark's parser does not look at what stands behind one."""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

_OBJECT = r"(?s)^\s*\{.*\}\s*$"
# An object can end nowhere else in it than at its end.
_FLAT_OBJECT = r"\A[ \t\r\n]*\{[^}]*\}[ \t\r\n]*\z"
# A column that no member has.
_NONE = "_raftka_none"


def is_one_object(text: Column) -> Column:
    """Return whether a text, of which `from_json` has read an object, is that object up to its end; null for null.

    An array's first object would pass for the whole, and so would an object with words behind it.
    """
    return text.rlike(_OBJECT) & (text.rlike(_FLAT_OBJECT) | _is_one_value(text))


def _is_one_value(text: Column) -> Column:
    """Return whether a text is one JSON value up to its end.

    Behind a member of an array Spark does look. A text that closes the array itself has as many members when another
    one follows it as when none does.
    """

    def members(end: str) -> Column:
        # Not json_array_length, which takes other things for numbers than from_json does.
        return F.size(F.from_json(F.concat(F.lit("["), text, F.lit(end)), f"ARRAY<STRUCT<{_NONE}: STRING>>"))

    return F.coalesce((members("]") == 1) & (members(",{}]") == 2), F.lit(False))
