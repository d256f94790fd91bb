"""`gce replay`: make one stored answer again from its key, and say whether text and verdict are the same."""

from __future__ import annotations

import argparse

from gce.app.evaluation.replaying import Replayed, replay
from gce.app.evaluation.scoring import MIN_COVERAGE, check_coverage
from gce.app.options import NAME, RUN, Choice
from gce.app.terminal import as_given, put, put_json
from gce.app.wiring.runs import add_no_verify, verifies
from gce.domain.models import BFLOAT16, FLOAT32
from gce.domain.serialization import to_plain
from gce.domain.text import counted

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Sample a stored answer again from its key, the stored settings and the weights that wrote it, judge it, and compare text
and verdict with the stored ones. If something differs, list the possible reasons: other weights, another verifier,
other versions, or that it was sampled in a batch and now alone. No stored data is changed.

exit status: 0 all verdicts are the same, 1 a verdict differs, 2 it cannot be made again, 3 it failed now
"""
EXAMPLES = """\
examples:
  gce replay runs/1 1/scheduling/grounded/train/T2/0/7/3     rollout 3 of training problem 7 of tier T2, iteration 1
  gce replay runs/1 T2/7 --moment rollouts                   all rollouts of that problem, each alone
  gce replay runs/1 T2/7 --moment after --batch              a test answer, sampled in the batch that it was sampled in
  gce replay answers.jsonl scheduling/grounded/test/T2/0/3/0
"""
PRECISIONS = Choice((FLOAT32, BFLOAT16))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce replay`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "run", type=NAME, metavar="RUN", help="a run directory of gce train, or a file of gce evaluate --answers"
    )
    parser.add_argument(
        "key", type=NAME, metavar="KEY", help="key of a rollout, or of a problem for all answers to it, or TIER/INDEX"
    )
    parser.add_argument(
        "--moment", type=NAME, help="only after, before or rollouts; for a file, only the answers of this strategy"
    )
    parser.add_argument(
        "--batch",
        action="store_true",
        help="repeat the whole batch that the answer was sampled in (default: the answer alone)",
    )
    parser.add_argument("--adapter", type=RUN, help="for a file, the checkpoint that its trained strategies used")
    parser.add_argument(
        "--precision",
        type=PRECISIONS,
        choices=PRECISIONS.names,
        help=f"for a file, the precision of its model (default {FLOAT32})",
    )
    parser.add_argument("--json", action="store_true", help="print the answers then and now as JSON")
    add_no_verify(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    found = replay(
        arguments.run,
        arguments.key,
        moment=arguments.moment,
        batch=arguments.batch,
        adapter=arguments.adapter,
        precision=arguments.precision,
        verify=verifies(arguments),
    )
    if arguments.json:
        put_json([{**to_plain(each), "same_text": each.same_text} for each in found], indent=1)
    else:
        put(*(line for each in found for line in _lines(each)))
        texts, verdicts = sum(each.same_text for each in found), sum(each.same_verdict for each in found)
        put(f"{counted(len(found), 'answer')} made again: {texts} with the same text, {verdicts} with the same verdict")
    failed = [each.key for each in found if each.failed and each.was != "failed"]
    check_coverage("answers made again", len(failed), len(found), MIN_COVERAGE, failed)
    return 0 if all(each.same_verdict for each in found) else 1


def _lines(found: Replayed) -> list[str]:
    how = "alone" if found.batch == 1 < found.of else f"in a batch of {found.batch}"
    text = "same text" if found.same_text else f"text differs from character {found.first_difference or 0} on"
    was, now = _outcome(found.was, found.was_reward), _outcome(found.now, found.now_reward)
    verdict = f"same verdict ({was})" if found.same_verdict else f"verdict was {was}, now {now}"
    head = f"{found.key} ({found.moment}), sampled {how}: {text}, {verdict}"
    return [head, *(f"  {why.replace('{batch}', as_given('batch'))}" for why in found.why)]


def _outcome(outcome: str, reward: float | None) -> str:
    return outcome if reward in (None, 0.0, 1.0) else f"{outcome} with reward {reward:.3g}"
