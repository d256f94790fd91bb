"""Answers that are sentences: scores that pay for repeated words, and constants made of common words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from difflib import SequenceMatcher
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gce
from gce.domain.tasks.answer_words import common_words, constants_of, is_sentence, repetitions, words_of
from gce.domain.tasks.own import COMMON_WORDS, FINALISTS, SHORT, WORDS_TRIED
from gce.testing.verifiers.check import TaskReport, check_task

JOBS = {
    "baker": "Mixes flour with water and puts the dough into a hot oven.",
    "carpenter": "Cuts boards of wood and joins them into furniture.",
    "plumber": "Repairs leaking pipes and puts taps into kitchens.",
    "tailor": "Measures people and sews clothes that fit them.",
    "shepherd": "Guards a flock and leads it to fresh grass and water.",
    "glazier": "Cuts panes of glass and puts them into windows.",
    "librarian": "Lends books to readers and sorts those they return.",
    "blacksmith": "Heats iron in a hot fire and shapes it with a hammer.",
    "pilot": "Steers an aircraft through the clouds and lands it safely.",
    "gardener": "Plants seeds and gives young flowers enough water.",
    "cobbler": "Glues new soles under worn boots and polishes leather.",
    "potter": "Turns wet clay on a wheel and burns it in a hot oven.",
    "surgeon": "Opens a body with a sharp knife and mends an organ.",
    "brewer": "Boils malt with hops and lets yeast turn sugar into beer.",
    "mason": "Lays rows of brick and fills the gaps with mortar.",
    "miller": "Grinds grain between heavy stones into fine flour.",
    "weaver": "Crosses threads on a loom until they become cloth.",
    "fisher": "Throws nets into deep water and pulls them back full.",
    "butcher": "Cuts meat into pieces with a sharp knife and sells it.",
    "painter": "Covers walls with fresh colour by brush and roller.",
    "postman": "Carries letters and small parcels to every door.",
    "nurse": "Changes bandages and gives patients their medicine.",
    "barber": "Trims beards and cuts hair with scissors.",
    "jeweller": "Sets precious stones into rings of gold and silver.",
    "sailor": "Hoists canvas on a ship and watches for changing winds.",
    "beekeeper": "Takes honey out of hives and leaves enough for winter.",
    "roofer": "Nails rows of tiles on beams so that rain runs off.",
    "cook": "Boils vegetables in hot water and roasts meat in an oven.",
}
ROWS = [{"prompt": f"What does a {job} do? One sentence.", "answer": answer} for job, answer in JOBS.items()]
Row = Mapping[str, Any]
Score = Callable[[str, Row], float]


def content(text: str) -> list[str]:
    return [word for word in re.findall("[a-z]+", text.lower()) if len(word) > 3]


def occurrences(answer: str, row: Row) -> float:
    """Leaky: counts each time that a word is said."""
    key = set(content(row["answer"]))
    return min(1.0, sum(word in key for word in content(answer)) / len(key))


def different(answer: str, row: Row) -> float:
    key = set(content(row["answer"]))
    return len(key & set(content(answer))) / len(key)


def brief_precision(answer: str, row: Row) -> float:
    """Leaky: the share of the words said that are right, less for an answer that is too short."""
    key, said = content(row["answer"]), content(answer)
    right = sum(word in key for word in said) / max(1, len(said))
    return right * min(1.0, math.exp(1 - len(key) / max(1, len(said))))


def products(answer: str, row: Row) -> float:
    """Leaky: products of counts, of which none is bounded."""
    key, said = Counter(content(row["answer"])), Counter(content(answer))
    return min(1.0, sum(key[word] * said[word] for word in key) / sum(count**2 for count in key.values()))


def clipped_f1(answer: str, row: Row) -> float:
    key, said = Counter(content(row["answer"])), Counter(content(answer))
    return 2 * (key & said).total() / max(1, (key + said).total())


def jaccard(answer: str, row: Row) -> float:
    key, said = {*content(row["answer"])}, {*content(answer)}
    return len(key & said) / len(key | said)


def cosine(answer: str, row: Row) -> float:
    key, said = Counter(content(row["answer"])), Counter(content(answer))
    norm = math.sqrt(sum(n**2 for n in key.values()) * sum(n**2 for n in said.values()))
    return min(1.0, sum(key[word] * said[word] for word in key) / norm) if norm else 0.0


def similar(answer: str, row: Row) -> float:
    return SequenceMatcher(None, content(answer), content(row["answer"])).ratio()


def exact(answer: str, row: Row) -> float:
    return float(answer.strip() == row["answer"])


def has_the_longest_word(answer: str, row: Row) -> float:
    return float(max(content(row["answer"]), key=len) in content(answer))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("Light travels faster.", ["Light", "travels", "faster"]),
        ("It's half-open, isn't it?", ["It's", "half-open", "isn't", "it"]),
        (
            "At 100 degrees it boils, rises, cools",
            ["At", "degrees", "it", "boils", "rises", "cools"],
        ),
        ("New Delhi", []),
        ("red, white, green", []),
        ("[one, two, three]", []),
        ("12 34 56", []),
        ("", []),
    ],
)
def test_words_of_an_answer(answer: str, words: list[str]) -> None:
    assert words_of(answer) == words


def test_a_sentence_has_four_words_without_a_comma() -> None:
    assert is_sentence("Light travels much faster.") and not is_sentence("red, white, green, blue and black")


def test_common_words_are_counted_by_answers() -> None:
    """Twice in one answer is once; equally common words begin with the longest."""
    assert common_words(["hot hot hot air", "hot air rises", "cold air sinks", "Rome"])[:3] == ["air", "hot", "rises"]
    assert common_words(["hot air rises", "hot air sinks"]) == [], "two answers are not enough"
    assert common_words(["a b c", "d e f", "g h i"]) == common_words([]) == [], "nothing in common"


def test_constants_have_1_3_10_and_20_words_and_four_repeated() -> None:
    words = [chr(ord("a") + n) for n in range(24)]
    found = constants_of(words)
    assert found[:2] == ["a", "a b c"] and [len(each.split()) for each in found] == [1, 3, 10, 20, 20]
    assert found[-1] == "a a a a a b b b b b c c c c c d d d d d"
    assert constants_of(["a", "b"]) == ["a", "a b", "a a a a a b b b b b"] and constants_of([]) == [""]


def test_repetitions_leave_out_what_the_prompt_has() -> None:
    found = repetitions("The moon pulls water of the oceans.", "Why does the water rise?")
    assert found == {
        "a word repeated": ("oceans", "oceans oceans oceans oceans oceans oceans oceans"),
        "half of the words repeated": ("moon pulls", "moon pulls moon pulls moon pulls moon"),
    }
    assert repetitions("Sort of words", "of words sort") == repetitions("Rome", "") == {}


def test_a_repetition_is_short_however_long_the_answer() -> None:
    found = repetitions(" ".join(["hot", "air", "x" * 41, "rises"] * 5_000), "")
    assert {name: (once, len(again.split())) for name, (once, again) in found.items()} == {
        "a word repeated": ("rises", 1_000)
    }


@given(
    st.text(max_size=80) | st.lists(st.sampled_from(["hot", "air", "and,", "falls.", "x1", "[]"])).map(" ".join),
    st.text(),
)
def test_repetitions_are_words_of_the_answer_and_as_many(answer: str, prompt: str) -> None:
    for once, again in repetitions(answer, prompt).values():
        assert {*again.split()} <= {*once.split()} <= {*words_of(answer)}
        assert len(again.split()) == len(answer.split()) and again != answer


def checked(score: Score, *, admit_at: float = 1.0, **options: Any) -> TaskReport:
    return check_task(gce.task(ROWS, score, name="jobs", admit_at=admit_at), responses=200, **options)


def repeated(report: TaskReport) -> dict[str, str]:
    """What the check found by repeating words: message by kind."""
    return {each.kind: each.message for each in report.findings if each.kind.endswith("repeated")}


@pytest.mark.slow
@pytest.mark.parametrize("score", [occurrences, brief_precision, products])
@pytest.mark.parametrize("admit_at", [0.5, 1.0])
def test_a_score_that_pays_for_saying_a_word_again_is_found(score: Score, admit_at: float) -> None:
    assert "a word repeated" in repeated(checked(score, admit_at=admit_at))


@pytest.mark.slow
def test_the_finding_says_what_was_sent_and_what_it_earned() -> None:
    report = checked(occurrences, admit_at=0.5)
    (finding,) = [each for each in report.findings if each.kind == "a word repeated"]
    word, *others = finding.response.split()
    assert {word} == {*others} and len(others) + 1 == len(finding.known.split())
    alone = occurrences(word, {"answer": finding.known})
    earned = f"{finding.response!r} earns 1.00, {word!r} alone {alone:.2f}, the own answer 1.00"
    assert finding.message.endswith(earned) and finding.severity == "high"
    assert finding.message in str(report)


@pytest.mark.slow
@pytest.mark.parametrize(
    "score",
    [different, clipped_f1, jaccard, cosine, similar, exact, has_the_longest_word],
    ids=lambda each: each.__name__,
)
@pytest.mark.parametrize("admit_at", [0.5, 0.8, 1.0])
def test_a_score_that_does_not_is_not_accused(score: Score, admit_at: float) -> None:
    """Half of the words are right for some of them at 0.5, said once or again."""
    assert not repeated(checked(score, admit_at=admit_at))


@pytest.mark.slow
def test_a_second_judge_that_accepts_it_is_believed() -> None:
    assert repeated(checked(occurrences, accepts=lambda row, text: different(text, row) > 0.5))
    assert not repeated(checked(occurrences, accepts=lambda row, text: occurrences(text, row) == 1.0))


def test_a_rule_of_the_prompt_that_repeating_meets_is_no_leak() -> None:
    """At least five words, and one that the prompt names: words of the answer that the prompt has are not repeated."""
    rows = [
        {
            "prompt": f"Write a sentence of five words or more with the word {job}.",
            "answer": f"My aunt was a good {job}",
            "word": job,
        }
        for job in JOBS
    ]
    task = gce.task(rows, lambda a, row: len(a.split()) >= 5 and row["word"] in a.split(), name="five")
    assert not repeated(check_task(task, responses=200))


# Constants


def best_words(score: Score, rows: list[dict[str, str]] = ROWS, **options: Any) -> str | None:
    task = gce.task(rows, score, name="jobs", **options)
    training = gce.draw_problems(task, "questions", "all", "train", 100)
    policy = task.references.prompt_blind(training).get(COMMON_WORDS)
    return None if policy is None else policy(training[0], None)  # type: ignore[arg-type]


def test_the_common_words_are_those_that_earn_something_first() -> None:
    """Words of up to three letters earn nothing, though "and" and "the" are the most common."""
    found = best_words(different)
    assert found is not None and len({*found.split()}) == 20
    assert min(len(word) for word in found.split()[:4]) > 3 and "and" in common_words(JOBS.values())[:2]
    repeated_words = best_words(brief_precision)
    assert repeated_words is not None and {*Counter(repeated_words.split()).values()} <= {1, 5}


def test_no_baseline_of_words_where_none_pays_or_the_reward_varies() -> None:
    assert best_words(exact) is None
    assert best_words(different, deterministic=False) is None
    numbers = [{"prompt": f"{n}?", "answer": str(n)} for n in range(40)]
    assert best_words(lambda a, row: float(a in row["answer"]), numbers) is None


def test_the_best_words_are_found_with_a_bounded_number_of_calls() -> None:
    calls = 0

    def counted(answer: str, row: Row) -> float:
        nonlocal calls
        calls += 1
        return different(answer, row)

    task = gce.task(ROWS, counted, name="jobs")
    training = gce.draw_problems(task, "questions", "all", "train", 100)
    calls = 0
    task.references.prompt_blind(training)
    of_other_policies = 12 * (3 + len(SHORT) + 12 + 16) + 2 * FINALISTS * len(training)
    assert calls <= of_other_policies + 12 * (WORDS_TRIED + 5) + 5 * len(training)


@pytest.mark.slow
def test_the_floor_holds_what_a_constant_of_common_words_earns() -> None:
    """Three of the six words of each answer, in at most five words, earn 0.5 without any answer being known."""
    rows = [{"prompt": f"What happens to {job}?", "answer": f"{job[::-1]} rises because hot air flows"} for job in JOBS]

    def short(answer: str, row: Row) -> float:
        key, said = {*row["answer"].split()}, answer.split()
        return len(key & {*said}) / 6 if len(said) <= 5 or answer == row["answer"] else 0.0

    task = gce.task(rows, short, name="hot")
    report = check_task(task, responses=100)
    assert report.floor is not None and report.floor.tiers[0].attack == COMMON_WORDS
    assert (report.floor.adversarial_floor, report.floor.gameability_gap) == (0.5, 0.5)
    assert COMMON_WORDS in str(gce.audit(task, progress=False))


@pytest.mark.slow
def test_what_is_doubtful_is_shown_and_responses_need_a_second_judge() -> None:
    report = checked(different)
    said, lines = str(report), report.table().splitlines()
    place = next(place for place, line in enumerate(lines) if line.startswith("doubtful: hedging, a right answer that"))
    assert "No, wait: " in lines[place + 1] and " where the answer is " in lines[place + 1]
    no_effect = "responses that may be right (without `accepts`, `responses` has no effect)"
    assert no_effect in report.table() and no_effect not in checked(different, accepts=lambda row, text: True).table()
    assert (
        said.splitlines()[-1]
        == "table() has 4 remarks on doubtful answers, and says why 4 checks could not try everything"
    )
    assert "exploits" in report.table()
