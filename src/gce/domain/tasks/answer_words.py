"""Answers that are sentences or phrases: their words, and nonsense that is made of words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import cycle, islice

from gce.domain.tasks.answer_lists import LISTS, items_of

__all__ = ["common_words", "constants_of", "is_sentence", "repetitions", "words_of"]

FEWEST = 3
"""Words that an answer has at least; shorter ones are names."""
LONGEST_ITEM = 3
"""Words of an item of a list; where one has more, the commas are those of a sentence."""
SIZES = (1, 3, 10, 20)
"""Words of constant answers."""
MOST_REPEATED = 1_000
"""Words of a repetition at most, however long the answer is."""
LONGEST_WORD = 40
"""Letters of a word at most; what is longer is none."""
REPEATED = (4, 5)
"""Words of the constant answer that repeats them, and how often."""
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")
_SENTENCE = re.compile(r"(?<![^\W\d_])(?:[^\W\d_]++[^\w,;]++){4}")


def is_sentence(answer: str) -> bool:
    """Whether an answer has four words or more without a comma between them."""
    return _SENTENCE.search(answer) is not None


def words_of(answer: str) -> list[str]:
    """The words of an answer that is a sentence or a phrase; none where it is a list, data or shorter."""
    words = [word for word in _WORD.findall(answer) if len(word) <= LONGEST_WORD]
    items = items_of(answer)
    is_list = bool(items) and all(len(item.split()) <= LONGEST_ITEM for item in items)
    return words if len(words) >= FEWEST and not is_list and answer[:1] not in "[{(<" else []


def common_words(answers: Iterable[str]) -> list[str]:
    """Words in lower case by the number of answers that have them, of equals the longest first.

    None unless some answers are sentences or phrases and have words in common.
    """
    known = [{word.casefold() for word in words} for words in map(words_of, answers) if words]
    counts = Counter(word for words in known for word in words)
    if len(known) < LISTS or max(counts.values()) < 2:
        return []
    return sorted(counts, key=lambda word: (-counts[word], -len(word), word))


def constants_of(words: Sequence[str]) -> list[str]:
    """Constant answers of the first 1, 3, 10 and 20 words, and of four words five times each."""
    few, times = REPEATED
    again = " ".join(" ".join([word] * times) for word in words[:few])
    return list(dict.fromkeys([*(" ".join(words[:size]) for size in SIZES), again]))


def repetitions(answer: str, prompt: str) -> dict[str, tuple[str, str]]:
    """Words of an answer, and the same words repeated until they are as many as those of the answer, by what they are.

    They are the longest word, and half of the words, of those that the prompt does not have: a score may leave out the
    others, and a prompt may ask for them.
    """
    given = {word.casefold() for word in _WORD.findall(prompt)}
    own = [word for word in dict.fromkeys(words_of(answer)) if word.casefold() not in given]
    if not own or len({*words_of(answer)}) == 1:
        return {}
    chosen = {"a word repeated": [max(own, key=len)]}
    if len(own) > FEWEST:
        chosen["half of the words repeated"] = own[: len(own) // 2]
    count = min(len(answer.split()), MOST_REPEATED)
    return {name: (" ".join(words), " ".join(islice(cycle(words), count))) for name, words in chosen.items()}
