"""Names that are labels: so many, kept until they are forgotten, never taken by what does not exist."""

from model.bounded_names import OTHER, BoundedNames


def test_a_name_keeps_its_label_and_later_ones_share_one() -> None:
    names = BoundedNames(2, lambda _: True)
    assert [names.label(each) for each in ("a", "b", "c", "a", "d", "b")] == ["a", "b", OTHER, "a", OTHER, "b"]
    assert len(names) == 2


def test_a_forgotten_name_gives_its_place_to_the_next_that_asks() -> None:
    names = BoundedNames(1, lambda _: True)
    names.label("a")
    names.forget("b")
    assert names.label("b") == OTHER
    names.forget("a")
    assert [names.label(each) for each in ("b", "a")] == ["b", OTHER]


def test_what_does_not_exist_takes_no_place() -> None:
    names = BoundedNames(1, lambda name: name == "a")
    assert [names.label(each) for each in ("gone", "a")] == [OTHER, "a"]


def test_the_shared_label_takes_no_place() -> None:
    names = BoundedNames(1, lambda _: True)
    assert [names.label(each) for each in (OTHER, "a")] == [OTHER, "a"]
