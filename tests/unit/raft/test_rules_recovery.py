"""The search for the last shared entry ends, and ends right."""

from hypothesis import given, settings
from hypothesis import strategies as st

from model.ids import Index, Term
from raft.rules.recovery import next_index_after_reject, retry_index

terms_of_a_log = st.lists(st.integers(1, 6), max_size=30).map(sorted)


@settings(deadline=None)
@given(terms_of_a_log, terms_of_a_log, st.integers(0, 30))
def test_probing_finds_a_shared_entry_in_at_most_as_many_probes_as_terms(
    leader: list[int], follower: list[int], shared: int
) -> None:
    # Log matching: equal (index, term) means equal prefixes.
    follower = leader[:shared] + [t for t in follower if t >= (leader[:shared] or [0])[-1]]
    at = next(
        (i for i, (a, b) in enumerate(zip(leader, follower, strict=False)) if a != b), min(len(leader), len(follower))
    )
    follower = follower[:at] + [t + 100 for t in follower[at:]] if at < len(leader) else follower
    next_index = Index(len(leader) + 1)
    for _ in range(10):
        prev = Index(next_index - 1)
        if prev == 0 or (prev <= len(follower) and follower[prev - 1] == leader[prev - 1]):
            break
        if prev > len(follower):
            hint = Index(len(follower))
        else:
            hint = retry_index(lambda i: Term(follower[i - 1] if i else 0), Index(1), prev)
        lower = next_index_after_reject(hint, prev, Index(len(leader)))
        assert lower < next_index
        next_index = lower
    else:
        raise AssertionError("no shared entry found in ten probes")
    assert next_index - 1 <= at


def test_the_hint_skips_the_whole_conflicting_term() -> None:
    log = [1, 1, 2, 2, 2, 2]
    assert retry_index(lambda i: Term(log[i - 1] if i else 0), Index(1), Index(6)) == 2


def test_the_first_term_of_the_log_backs_up_to_its_start() -> None:
    assert retry_index(lambda i: Term(3 if i else 0), Index(1), Index(4)) == 0
