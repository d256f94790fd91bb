"""SQL views of a run's database with plain columns, for people and other programs; gce itself reads none of them.

    answers     one row per test answer; `moment` is before or after
    rollouts    one row per training rollout
    verdicts    one row per verdict on a rollout or a test answer; `moment` is before, after or rollouts
    iterations  one row per iteration, summed over tiers
    traces      one row per trace admitted to the buffer
    problems    one row per problem that was asked, with how often it was answered

`correct` is 1 or 0, and `avg(correct)` is the solve rate: it is NULL, as `reward` is, where an answer failed (a server,
a sandbox or the verifier could not do its part), and SQL aggregates skip NULL. `body` is the whole record as JSON text.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["VIEWS"]


def _get(path: str, record: str = "body") -> str:
    return f"json_extract({record}, '$.{path}')"


_FAILED = (
    f"{_get('finish_reason')} = 'error' OR EXISTS (SELECT 1 FROM json_each(body, '$.verdicts') AS verdict"
    " WHERE json_extract(verdict.value, '$.status') IN ('failed', 'no_verdict'))"
)
"""In records of version 0.1.0, which do not name the outcome."""
_OUTCOME = (
    f"coalesce({_get('outcome')}, CASE WHEN {_FAILED} THEN 'failed' WHEN {_get('right')} THEN 'right' ELSE 'wrong' END)"
)
_JUDGED = f"""problem, tier, outcome,
  iif(outcome = 'failed', NULL, {_get("right")}) AS correct,
  iif(outcome = 'failed', NULL, coalesce({_get("reward")}, {_get("right")} + 0.0)) AS reward,
  {_get("score")} AS score, {_get("finish_reason")} AS finish_reason, {_get("tokens")} AS tokens,
  {_get("policy")} AS policy,
  {_get("verdicts[0].violations[0].kind")} AS violation, {_get("verdicts[0].violations[0].message")} AS message,
  {_get("digest")} AS digest, {_get("prompt[#-1].content")} AS prompt, {_get("text")} AS text"""
"""Columns that answers and rollouts share."""
_NAMED = f"{_get('problem')} AS problem, {_get('tier')} AS tier, {_OUTCOME} AS outcome, body"


def _of_tiers(count: str) -> str:
    return f"(SELECT coalesce(sum({_get(count, 'tier.value')}), 0) FROM json_each(body, '$.tiers') AS tier)"


def _total(path: str) -> str:
    return f"(SELECT coalesce(sum(part.value), 0) FROM json_each(body, '$.{path}') AS part)"


_SELECTS = {
    "answers": f"""moment, sequence, {_JUDGED}, body
FROM (SELECT replace(name, 'test-', '') AS moment, sequence, {_NAMED} FROM kept_answers)
ORDER BY moment DESC, sequence""",
    "rollouts": f"""iteration, sequence, {_get("key")} AS key, {_JUDGED},
  {_get("admitted")} AS admitted, {_get("shown")} AS shown, body
FROM (SELECT iteration, sequence, {_NAMED} FROM records WHERE stream = 'rollouts')
ORDER BY sequence""",
    "verdicts": f"""moment, answer.sequence, {_get("problem")} AS problem, {_get("tier")} AS tier,
  {_get("evaluator", "verdict.value")} AS evaluator, {_get("version", "verdict.value")} AS version,
  {_get("status", "verdict.value")} AS status, {_get("score", "verdict.value")} AS score,
  json_array_length(verdict.value, '$.violations') AS violations,
  {_get("violations[0].kind", "verdict.value")} AS violation,
  {_get("violations[0].message", "verdict.value")} AS message, verdict.value AS body
FROM (SELECT 'rollouts' AS moment, sequence, body FROM records WHERE stream = 'rollouts'
  UNION ALL SELECT replace(name, 'test-', ''), sequence, body FROM kept_answers) AS answer,
  json_each(answer.body, '$.verdicts') AS verdict""".replace("(body,", "(answer.body,"),
    "iterations": f"""iteration, sequence, {_of_tiers("rollouts")} AS rollouts, {_of_tiers("correct")} AS correct,
  {_total("failed")} AS failed, {_of_tiers("problems")} AS problems, {_of_tiers("truncated")} AS truncated,
  {_of_tiers("unparsed")} AS unparsed, {_get("admitted")} AS admitted, {_total("buffer")} AS buffer,
  {_get("updates")} AS updates, {_get("loss")} AS loss, {_get("gradient_norm")} AS gradient_norm,
  {_get("entropy")} AS entropy, {_total("seconds")} AS seconds, body
FROM records WHERE stream = 'iterations' ORDER BY sequence""",
    "traces": f"""iteration, sequence, {_get("key")} AS key, {_get("problem")} AS problem, {_get("tier")} AS tier,
  {_get("reward")} AS reward, {_get("digest")} AS digest, json_array_length(body, '$.turns') AS turns,
  coalesce({_get("turns[#-1].completion.text")}, {_get("completion.text")}) AS text, body
FROM records WHERE stream = 'traces' ORDER BY sequence""",
    "problems": """problem, tier, count(*) AS answers,
  sum(outcome = 'right') AS correct, sum(outcome = 'failed') AS failed,
  min(iteration) AS first_iteration, max(prompt) AS prompt
FROM (SELECT problem, tier, outcome, iteration, prompt FROM rollouts
  UNION ALL SELECT problem, tier, outcome, NULL, prompt FROM answers)
GROUP BY problem, tier""",
}
VIEWS: Mapping[str, str] = {name: f"CREATE VIEW {name} AS SELECT {select}" for name, select in _SELECTS.items()}
"""By name, the statement that makes it."""
