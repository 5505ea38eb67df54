"""What a job asks of the machine, in a plan: how many offers each condition removes, and what markets do not state."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from autopilot.domain.host import KEY_OF, NO_NEEDS
from autopilot.domain.host_fit import list_unstated
from autopilot.domain.job import Job, JobSpec
from autopilot.domain.offer import Offer
from autopilot.engine.engine import Engine
from autopilot.policy.eligibility import OF_JOB_FILE, misfit
from autopilot.policy.wait import REMOVED, wait_notes
from autopilot.words.reasons import tell_removed


async def host_notes(engine: Engine, job: Job, offers: tuple[Offer, ...], now: datetime) -> list[str]:
    """``offers``: what was found. Where the job asks something of the machine, the markets have left out what does not
    fit: so they are searched without that, too.
    """
    shown = offers if job.spec.host == NO_NEEDS else await engine.offers(job.spec.query.on_any_host)
    market = engine.market_view(shown, None, now)
    removed = (
        dict(note.numbers) for note in wait_notes(job, market, now, engine.config.params) if note.topic == REMOVED
    )
    left_out = [f"left out: {tell_removed(each)}" for each in removed if each["condition"] in OF_JOB_FILE]
    return [*left_out, *tell_unstated(job.spec, offers)]


def tell_unstated(spec: JobSpec, offers: Iterable[Offer]) -> list[str]:
    """What the job asks for and a market does not state: its offers are not left out for it."""
    silent: dict[str, dict[str, None]] = {}
    for offer in offers:
        if misfit(spec, offer) is None:
            silent.setdefault(offer.provider, {}).update(dict.fromkeys(list_unstated(spec.host, offer)))
    return [
        f"{market} does not state {', '.join(KEY_OF[field] for field in fields)}: its offers are not left out for that"
        for market, fields in silent.items()
        if fields
    ]
