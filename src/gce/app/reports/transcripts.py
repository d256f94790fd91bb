"""The transcripts of a report: how many answers had which outcome, and a sample of each."""

from __future__ import annotations

from collections.abc import Sequence

from gce.app.reports.run import SAMPLED
from gce.app.reports.section import Section
from gce.app.transcripts import OUTCOMES, Sample, Transcript
from gce.domain.figures import Table
from gce.domain.text import counted

__all__ = ["transcripts_section"]


def transcripts_section(
    sample: Sample,
    transcripts: Sequence[Transcript],
    named: Sequence[str],
    others: str = "gce transcript RUN PROBLEM prints any other answer",
) -> Section:
    """Answers by moment, tier and outcome, and the sampled ones; the tiers that are `named` come first.

    `others` says how any other answer is seen.
    """
    counts = sample.counts
    if not counts:
        return Section("Transcripts", ("There are no answers yet.",))
    tiers = [*named, *sorted({tier for _, tier in counts} - {*named})]
    tables = []
    for moment in dict.fromkeys(moment for moment, _ in counts):
        found = {tier: counts[moment, tier] for tier in tiers if (moment, tier) in counts}
        rows = ((tier, *(str(of_tier.get(each, 0)) for each in OUTCOMES)) for tier, of_tier in found.items())
        tables += [Table((moment, *OUTCOMES), tuple(rows))] if found else []
    words = [
        f"A random sample of at most {SAMPLED} answers per outcome; {others}. "
        "Truncated answers reached the maximum tokens. Marked text is the subject of a violation."
    ]
    failed = sum(of_tier.get("failed", 0) for of_tier in counts.values())
    if failed:
        words.append(f"{counted(failed, 'answer')} failed, not given or not judged, and excluded from all rates.")
    return Section("Transcripts", tuple(words), tuple(tables), transcripts=tuple(transcripts))
