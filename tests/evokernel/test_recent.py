"""Which programs are remembered, and which make room."""

from archives.candidate import Candidate, Language
from evokernel.recent import RecentPrograms


def program(name: str, size: int = 10) -> Candidate:
    return Candidate(id=name, program_id=name, source="x" * size, language=Language.TORCH)


def test_what_was_used_longest_ago_makes_room() -> None:
    recent = RecentPrograms(most_characters=30)
    for name in "abc":
        recent.keep(program(name))
    assert recent.get("a") == program("a")
    recent.keep(program("d"))
    assert recent.get("b") is None
    assert [recent.get(name) for name in "acd"] == [program(name) for name in "acd"]


def test_a_program_counts_once_however_often_it_is_kept() -> None:
    recent = RecentPrograms(most_characters=20)
    recent.keep(program("a"))
    for _ in range(5):
        recent.keep(program("b"))
    assert recent.get("a") is not None


def test_one_that_is_longer_than_all_may_be_together_is_kept_alone() -> None:
    recent = RecentPrograms(most_characters=30)
    recent.keep(program("a"))
    recent.keep(program("b", size=99))
    assert recent.get("a") is None
    assert recent.get("b") is not None
    recent.keep(program("c"))
    assert recent.get("b") is None
    assert recent.get("c") is not None
