"""Controls that only ask: what the base reaches by search or by tuning, and pass@k of the base and the trained model.

Answers are kept in a file as they arrive, so that a control that was cut off asks for the missing ones alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any

from attrs import evolve

from gce.app.evaluation.comparison import stored_gain
from gce.app.evaluation.run import Evaluation, evaluate
from gce.app.evaluation.scoring import answer_record, check_answers, stored_accuracy
from gce.app.studies.controls.records import Context, Control, ControlOptions, ControlWork, Row, RunFacts, compared
from gce.app.training.dry_run import asked_problems
from gce.app.wiring.names import TRAINED
from gce.app.wiring.runs import folder_of
from gce.domain.answers import Answer
from gce.domain.conversations import Conversation
from gce.domain.measurements import MeanReward
from gce.domain.metrics import by_unit, overall
from gce.domain.metrics.pass_at_k import pass_at
from gce.domain.statistics import mean_over_tiers
from gce.domain.strategies.simulate import SIMULATE
from gce.domain.strategies.single_turn import FEW_SHOT, ZERO_SHOT

__all__ = ["pass_control", "search_control", "tuned_control"]

MOST_SAMPLES = 64
TEMPERATURES = (0.0, 0.3, 0.7, 1.0)
DEFAULT_TEMPERATURE = 0.8
"""Of search and pass@k, where the run's rollouts were greedy."""


def _evaluated(
    context: Context, file: str, *, strategies: Sequence[str] = (ZERO_SHOT.name,), trained: bool = False, **asked: Any
) -> Evaluation:
    """Ask the base, or the trained model, with the run's settings; what the file has is not asked again."""
    facts, settings = context.facts, context.facts.settings
    adapter = facts.name if trained else settings.model.adapter
    if adapter:
        strategies = [TRAINED if name == ZERO_SHOT.name else f"{TRAINED}-{name}" for name in strategies]
    found = evaluate(
        settings.task,
        settings.model.name,
        watcher=context.watcher,
        preset=settings.preset,
        adapter=adapter or None,
        strategies=strategies,
        max_tokens=settings.rollouts.max_tokens,
        seed=settings.seed,
        evaluator=settings.evaluator,
        answers=_folder(facts) / f"{file}.jsonl",
        precision=settings.model.precision,
        chat_template=settings.model.chat_template or None,
        chat_template_kwargs=settings.model.chat_template_kwargs or None,
        template_date=settings.model.template_date or None,
        device=settings.model.device,
        threads=context.options.threads or settings.model.threads,
        concurrency=settings.model.concurrency,
        timeout=settings.model.timeout,
        runner=settings.executor.runner,
        **asked,
    )
    for name, each in found.measured.items():
        check_answers(f"{file}, {name}", each.judged, settings.stopping.min_coverage)
    return found


def _folder(facts: RunFacts) -> Path:
    folder = folder_of(facts.name) / Path(facts.folder).relative_to(facts.name)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _conversations(found: Evaluation) -> tuple[Conversation, ...]:
    (conversations,) = found.conversations.values()
    return conversations


def _temperature(facts: RunFacts) -> float:
    return facts.settings.rollouts.temperature or DEFAULT_TEMPERATURE


def _best(conversations: Sequence[Conversation]) -> list[dict[str, Any]]:
    """The best answer to each problem, as it would be stored: a right one, else one that did not fail."""
    by_problem: dict[str, list[Answer]] = {}
    for each in conversations:
        by_problem.setdefault(each.last.problem.key, []).append(each.last)
    return [
        answer_record(max(answers, key=lambda each: (each.right, not each.failed))) for answers in by_problem.values()
    ]


def _tested(facts: RunFacts, n: int) -> int:
    """Test problems over all tiers, at most n in each."""
    return asked_problems(facts.task, facts.settings.preset, "test", n)


def _search_samples(facts: RunFacts, options: ControlOptions) -> int:
    """Samples per problem: the run's own number of rollouts, spread over the test problems, if that is more."""
    spread = ceil(facts.rollouts / max(1, _tested(facts, options.n)))
    return min(MOST_SAMPLES, max(2, facts.settings.rollouts.samples, spread))


def _search(context: Context) -> Row:
    facts, n = context.facts, context.options.n
    samples = _search_samples(facts, context.options)
    found = _evaluated(context, f"best-of-{samples}-n{n}", n=n, samples=samples, temperature=_temperature(facts))
    return compared(context, "best of k", _best(_conversations(found)), {"k": samples})


def search_control() -> Control:
    """Search with the verifier at test time, without training."""
    return Control(
        "the base with the best of k samples by the verifier: what search alone gives, with the answers checked",
        "search alone gives as much (the best of {k} samples of the base by the verifier)",
        _search,
        lambda facts, options: ControlWork(_tested(facts, options.n) * _search_samples(facts, options)),
    )


def _prompts(facts: RunFacts) -> list[str]:
    """Strategies that only change the prompt; those with feedback from the verifier are search."""
    return [ZERO_SHOT.name, *([] if facts.no_demonstrations else [FEW_SHOT.name]), SIMULATE.name]


def _tuned(context: Context) -> Row:
    facts, options = context.facts, context.options
    prompts, found = _prompts(facts), {}
    for temperature in TEMPERATURES:
        file = f"tuned-dev{options.tune}-temperature-{temperature:g}"
        dev = _evaluated(context, file, strategies=prompts, split="dev", n=options.tune, temperature=temperature)
        for prompt, conversations in zip(prompts, dev.conversations.values(), strict=True):
            mean = mean_over_tiers(stored_accuracy(answer_record(each.last) for each in conversations).values())
            found[prompt, temperature] = mean.value if mean else 0.0
    prompt, temperature = max(found, key=lambda setting: found[setting])
    file = f"tuned-n{options.n}-{prompt}-temperature-{temperature:g}"
    test = _evaluated(context, file, strategies=[prompt], n=options.n, temperature=temperature)
    figures = {"prompt": prompt, "temperature": temperature, "settings": len(found)}
    return compared(context, "tuned base", [answer_record(each.last) for each in _conversations(test)], figures)


def tuned_control() -> Control:
    """Tuning of what costs no training."""
    return Control(
        "the base with temperature and prompting strategy tuned on dev problems",
        "a better temperature or prompt gives the base as much ({prompt} at temperature {temperature}, the best of "
        "{settings} settings on dev)",
        _tuned,
        lambda facts, options: ControlWork(
            len(TEMPERATURES)
            * len(_prompts(facts))
            * asked_problems(facts.task, facts.settings.preset, "dev", options.tune)
            + _tested(facts, options.n)
        ),
        asked=lambda options: {"n": options.n, "tune": options.tune},
    )


def _passed(context: Context) -> Row:
    facts, n, samples = context.facts, context.options.pass_problems, context.options.pass_samples
    asked: dict[str, Any] = {"n": n, "samples": samples, "temperature": _temperature(facts)}
    found = {
        name: _conversations(_evaluated(context, f"pass-at-{samples}-n{n}-{name}", trained=name == TRAINED, **asked))
        for name in ("base", TRAINED)
    }
    asked_for = {each.last.problem.key for each in found["base"]}
    whole = _judged(found["base"], samples) & _judged(found[TRAINED], samples)
    kept = {name: [each for each in all_ if each.last.problem.key in whole] for name, all_ in found.items()}
    row = compared(context, "pass@k", _best(kept["base"]))
    gain = stored_gain(_best(kept["base"]), _best(kept[TRAINED]))
    curves = {name: _curve(each, samples) for name, each in kept.items()} if whole else {}
    new, lost = (0, 0) if gain is None else (gain.gained, gain.lost)
    figures = {"k": samples, "new": new, "lost": lost}
    failed = len(asked_for - whole)
    return evolve(row, gain=gain, over_base=None, failed=failed, curves=curves, figures=figures)


def _judged(conversations: Sequence[Conversation], samples: int) -> set[str]:
    """Problems with at least so many samples that did not fail."""
    counts = Counter(each.last.problem.key for each in conversations if not each.last.failed)
    return {key for key, count in counts.items() if count >= samples}


def _curve(conversations: Sequence[Conversation], samples: int) -> tuple[tuple[int, MeanReward], ...]:
    """pass@k for k of 1, 2, 4 and so on up to the number of samples, over the problems of all tiers."""
    found = []
    for k in sorted({*(2**power for power in range(samples.bit_length())), samples}):
        metric = pass_at(k)
        units = [each for each in by_unit(metric, conversations).values() if each is not None]
        estimate = overall(metric, conversations)
        if estimate is not None:
            total = estimate.value * len(units)
            found.append((k, MeanReward(len(units), total, estimate.low, estimate.high, graded=True)))
    return tuple(found)


def pass_control() -> Control:
    """pass@k of the base and of the trained model."""
    return Control(
        "pass@k of the base and of the trained model: do k samples solve more problems after training?",
        "{k} samples of the base solve as many problems as {k} of the trained model ({new} are solved by samples of "
        "the trained model alone, {lost} by those of the base alone)",
        _passed,
        lambda facts, options: ControlWork(2 * _tested(facts, options.pass_problems) * options.pass_samples),
        asked=lambda options: {"pass_problems": options.pass_problems, "pass_samples": options.pass_samples},
    )
