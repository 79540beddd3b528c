"""Which samples and labels a PromQL expression uses: enough of the language for our own expressions."""

import re
from typing import NamedTuple

from raftka.monitoring.catalogue import FAMILIES

# Labels that Prometheus adds to each target.
TARGET_LABELS = frozenset({"instance", "job"})
SAMPLES = {sample: family for family in FAMILIES for sample in family.sample_names}
_KEYWORDS = {"and", "or", "unless", "by", "without", "on", "ignoring", "group_left", "group_right", "bool", "offset"}
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_AGGREGATION = re.compile(r"\b(?:sum|max|min|count|avg|topk|bottomk|absent)\b")


class Uses(NamedTuple):
    """Names of samples; labels by which it selects or groups; labels that its result may have."""

    samples: set[str]
    labels: set[str]
    result_labels: set[str]


def uses(expression: str) -> Uses:
    """Take an expression apart."""
    text = re.sub(r'"[^"]*"', '""', re.sub(r"\[[^\]]*\]", "", expression))
    labels = {name for selector in re.findall(r"\{([^}]*)\}", text) for name in re.findall(r"(\w+)\s*=", selector)}
    grouped = {name.strip() for names in _GROUPING.findall(text) for name in names.split(",") if name.strip()}
    plain = _GROUPING.sub("", re.sub(r"\{[^}]*\}", "", text))
    words = {match[1] for match in re.finditer(r"\b([A-Za-z_]\w*)\b(?!\s*\()", plain)}
    samples = words - _KEYWORDS
    if _AGGREGATION.search(text):
        result = grouped - {"le"}
    else:
        result = {label for sample in samples if sample in SAMPLES for label in SAMPLES[sample].labels} | TARGET_LABELS
    return Uses(samples, labels | grouped, result)


def faults(expression: str) -> list[str]:
    """Return what of an expression no broker exposes."""
    found = uses(expression)
    unknown = [f"{name} is not exposed" for name in sorted(found.samples - set(SAMPLES))]
    families = [SAMPLES[name] for name in found.samples if name in SAMPLES]
    known = TARGET_LABELS | {label for family in families for label in family.labels}
    if any(name.endswith("_bucket") for name in found.samples):
        known |= {"le"}
    unknown += [f"{label} is no label of {sorted(found.samples)}" for label in sorted(found.labels - known)]
    return unknown + ([] if found.samples else ["it uses no sample"])
