"""What a violation is about is marked in the answer's last line, and the text stays what it was."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gce.domain.marks import MOST_LABELS, MOST_PLACES, Piece, pieces


def marked(text: str, *violations: tuple[tuple[str, ...], str]) -> list[tuple[str, tuple[int, ...]]]:
    return [(piece.text, piece.about) for piece in pieces(text, violations) if piece.about]


def test_labels_are_marked_in_the_last_line_alone_with_the_numbers_of_their_violations() -> None:
    text = "Job A, then B\nAnswer: A 0, B 3, AB 4\n"
    assert pieces(text, [(("A", "B"), "late"), (("B",), "again")]) == (
        Piece("Job A, then B\nAnswer: "),
        Piece("A", (1,)),
        Piece(" 0, "),
        Piece("B", (1, 2)),
        Piece(" 3, AB 4\n"),
    )


def test_a_label_that_stands_twice_is_marked_twice_and_one_that_does_not_stand_there_nowhere() -> None:
    assert marked("A 0, A 1", (("A",), "twice")) == [("A", (1,)), ("A", (1,))]
    assert marked("A 0\nB 1", (("A",), "missing"), ((" ",), "blank")) == []
    assert marked("", (("A",), "")) == [] and pieces("", []) == (Piece(""),)


def test_without_labels_what_the_message_quotes_is_marked() -> None:
    assert marked("Answer: A -> 0", ((), "Expected one space, got '-> 0'.")) == [("-> 0", (1,))]
    assert marked("Answer: A 0", ((), "It has 3 faults.")) == []


def test_a_shorter_mark_within_a_longer_one_is_left_out() -> None:
    assert "".join(piece.text for piece in pieces("a b c", [(("a b", "a", "b c"), "")])) == "a b c"


@given(
    st.text(st.sampled_from("ab \n,'\u202e\ud800<"), max_size=60),
    st.lists(
        st.tuples(st.lists(st.text(st.sampled_from("ab '"), max_size=3), max_size=4), st.text("ab' ", max_size=9))
    ),
)
def test_the_pieces_joined_are_the_text(text: str, violations: list[tuple[list[str], str]]) -> None:
    found = pieces(text, violations)
    assert "".join(piece.text for piece in found) == text
    assert all(1 <= number <= len(violations) for piece in found for number in piece.about)


def test_many_labels_on_a_long_line_are_bounded() -> None:
    labels = tuple(f"job{number}" for number in range(5 * MOST_LABELS))
    found = pieces("job1 " * 20_000, [(labels, "all")])
    assert sum(bool(piece.about) for piece in found) == MOST_PLACES
