"""Why a job is in its state: decisions, vetoes and waits in sentences, from the notes of the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from autopilot.answers.jobs import Decision, Event, Job, Note
from autopilot.domain.after import ENDS, On
from autopilot.domain.certificate import Lack
from autopilot.domain.time import show_duration
from autopilot.words import arrays, story, text
from autopilot.words.arrival import tell_finding
from autopilot.words.certificates import LACKS, tell_command
from autopilot.words.options import OPTION

Numbers = Mapping[str, Any]
"""Of one note."""

STOPS = {"permit": "stopped by itself, because its permit expired,", "unknown": "stopped, and nothing shows why,"}
"""Causes of a stop that want more than their word."""
UNCERTIFIED = ("not_certified", "one_uncertified", "over_uncertified")
"""What removes offers for want of a certificate."""
BRIEF = ("after", "paused", "no_spot", "unsearched", "pull_limit")
"""Topics that are a reason by themselves."""


def brief(job: Job) -> str:
    """Return why nothing runs for the job now, in one line; empty if something does."""
    waiting = job.waiting
    if not waiting:
        return ""
    if waiting.vetoes:
        return tell_veto(waiting.vetoes[0])
    notes: list[tuple[str, Numbers]] = [(note.topic, note.numbers) for note in waiting.notes]
    searched = [numbers for topic, numbers in notes if topic == "search" and not int(numbers["fitting"])]
    removed = [numbers for topic, numbers in notes if topic == "removed"]
    nearest = [each for each in removed[:1] if searched]
    nearest += [each for each in removed if each["condition"] in UNCERTIFIED and each not in nearest]
    chosen = [_tell_choice(numbers) for topic, numbers in notes if topic == OPTION and numbers.get("chosen")]
    others = [tell(note) for note in waiting.notes if note.topic in BRIEF]
    return "; ".join([*map(_tell_count, searched), *map(tell_removed, nearest), *chosen, *others])


def tell_stall(job: Job, now: datetime) -> str:
    """``nothing new for 42 min, GPUs idle``; empty for a job that has not stalled."""
    since = job.main.stalled_since if job.main else None
    if job.status != "running" or since is None:
        return ""
    still = now - since
    return f"nothing new for {show_duration(still - still % timedelta(minutes=1))}, GPUs idle"


def tell_wait(job: Job) -> list[str]:
    """The same in full, a line for each thing."""
    waiting = job.waiting
    if waiting is None:
        return []
    notes = [tell(note) for note in waiting.notes if note.topic not in (OPTION, "status")]
    return [*map(tell_veto, waiting.vetoes), *notes]


def tell(note: Note) -> str:
    """One note, or one action, of a decision."""
    topic, numbers = note.topic, note.numbers
    sentence = SENTENCES.get(topic)
    if sentence is not None:
        return sentence(numbers)
    shown = text.numbers(numbers)
    return f"{text.words(topic)}: {shown}" if shown else text.words(topic)


def tell_veto(veto: Note) -> str:
    """``rent: over day limit, would come to $50.20 of $50.00``."""
    numbers: dict[str, Any] = dict(veto.numbers)
    if numbers.get("certificate") is not None:
        return f"{text.words(numbers.get('action'))} refused on {_tell_lack(numbers, 'certificate')}"
    action, because = numbers.pop("action", None), numbers.pop("because", None)
    limit = numbers.pop("limit", None)
    in_dollars = because in _IN_DOLLARS
    shown = text.numbers(numbers)
    if limit is not None:
        as_limit = text.money(limit) if in_dollars else text.per_hour(limit) if because == "over_rate_limit" else limit
        shown = ", ".join(part for part in (shown, f"the limit is {text.plain(as_limit)}") if part)
    what = f"{text.words(action)}: {text.words(because)}" if action else text.words(because or veto.topic)
    return f"{what} ({shown})" if shown else what


def tell_answer(event: Event, bid: str | None) -> str:
    """The market's answer to a create. ``bid``: what was bid, $/h."""
    name, fields = event.name, event.fields
    if name == "lease.refused":
        message = text.plain(fields.get("message"))
        said = f": {message}" if message != text.NONE else ""
        return f"the market refused {text.per_hour(bid)}{said} ({text.words(fields.get('reason'))})"
    return story.tell(event)


def list_reasons(
    decision: Decision, tell_time: Callable[[datetime | None], str] = text.clock_time
) -> Iterator[tuple[str, str]]:
    """Yield each line of a decision with its label: what was done, the outcome, and what it was based on."""
    bid = next((str(action.numbers["bid"]) for action in decision.actions if action.topic == "acquire"), None)
    yield from (("did", tell(action)) for action in decision.actions)
    for answer in decision.answers:
        yield "answer", f"{tell_time(answer.at)} {tell_answer(answer, bid)}"
    for tried in decision.bids:
        yield "answer", f"the bid of {text.per_hour(tried.bid)}: {text.words(tried.outcome)}"
    yield from (("vetoed", tell_veto(veto)) for veto in decision.vetoes)
    yield from (("saw", tell(note)) for note in decision.notes if note.topic != OPTION)


def _tell_lack_of_machine(numbers: Numbers) -> str:
    found = tell_finding(str(numbers.get("kind")), numbers.get("has"), numbers.get("wanted"))
    kept = "" if numbers.get("left") else " (it is not left for that: others lacked it too)"
    return f"the machine lacks what was rented: {found}{kept}"


def _tell_search(numbers: Numbers) -> str:
    wishes = [
        text.plain(numbers.get("gpus")),
        *([f"{_gb(numbers['min_vram_gb'])} of GPU memory"] if numbers.get("min_vram_gb") else []),
        f"{_gb(numbers.get('disk_gb'))} of disk",
        *([text.plain(numbers["host"])] if numbers.get("host") else []),
        *([_TRUST[numbers["trust"]]] if numbers.get("trust") in _TRUST else []),
        *([f"{text.plain(numbers['policy'])} only"] if numbers.get("policy") else []),
    ]
    return f"looked for {', '.join(wishes)}: {_tell_count(numbers)}"


def _tell_count(numbers: Numbers) -> str:
    offers, fitting, on_demand = int(numbers["offers"]), int(numbers["fitting"]), numbers.get("only_on_demand")
    if not offers:
        return "no offers"
    matching = f"{fitting or 'none'} match{'es' * (fitting == 1)}"
    found = f"{offers} offer{'s' * (offers > 1)}, {matching}"
    return f"{found} (on demand {on_demand})" if on_demand else found


_IN_DOLLARS = (
    "over_day_limit",
    "over_month_limit",
    "over_allowance",
    "over_schedule_budget",
    "over_budget",
    "low_credit",
)
_TRUST = {"verified": "verified hosts", "secure": "datacenters"}


def _gb(value: object) -> str:
    return f"{round(float(str(value)), 1):g} GB" if value is not None else text.NONE


def _above(key: str, what: str = "floor") -> Callable[[Numbers], str]:
    def sentence(numbers: Numbers) -> str:
        has, wanted = text.per_hour(numbers["has"]), text.per_hour(numbers["wanted"])
        return f"above your {key}: cheapest {what} {has}, your {key} {wanted}"

    return sentence


def _less(of: str, show: Callable[[Any], str]) -> Callable[[Numbers], str]:
    def sentence(numbers: Numbers) -> str:
        has, wanted = show(numbers["has"]), show(numbers["wanted"])
        return f"with too little {of}: the nearest has {has}, the job needs {wanted}"

    return sentence


def _on_host(of: str, unit: str = "", show: Callable[[object], str] | None = None) -> Callable[[Numbers], str]:
    """Of the machine around the GPUs: what the nearest has, what is wanted, and its price."""

    def sentence(numbers: Numbers) -> str:
        has, wanted = (
            (show or _measure)(numbers[name]) + unit if numbers[name] is not None else "none that its market states"
            for name in ("has", "wanted")
        )
        price = f" for {text.per_hour(numbers['price'])}" if numbers.get("price") is not None else ""
        return f"{of}: the nearest has {has}{price}, the job needs {wanted}"

    return sentence


def _measure(value: object) -> str:
    return f"{round(float(str(value)), 3):g}"


def _near_on_demand(numbers: Numbers) -> str:
    has, wanted = text.per_hour(numbers["has"]), text.per_hour(numbers["wanted"])
    return f"with a floor near the on-demand price: lowest floor {has}, your cap is {wanted}"


def _where_bids_lost(numbers: Numbers) -> str:
    if numbers.get("has") is None:
        return "where our bids lost"
    has, wanted = text.per_hour(numbers["has"]), text.per_hour(numbers["wanted"])
    return f"where our bids lost: the nearest needs at least {has}, your cap is {wanted}"


def _too_short(numbers: Numbers) -> str:
    lasts, needed = text.span(numbers["has"]), text.span(numbers["wanted"])
    return f"that end too soon: the nearest in {lasts}, the job may need {needed}"


def _tell_lack(numbers: Numbers, key: str) -> str:
    """``vastai, which has no valid certificate (expired): autopilot certify vastai --budget "$1.00"``."""
    lack, market = str(numbers.get(key)), text.plain(numbers.get("provider"))
    because = f" ({LACKS[lack]})" if lack in LACKS else ""
    command = tell_command(market, Lack(lack) if lack in LACKS else None)
    return f"{market}, which has no valid certificate{because}: {command}"


def _tell_one_at_a_time(numbers: Numbers) -> str:
    market = text.plain(numbers.get("provider"))
    return f"on {market}, which has no valid certificate: one machine at a time; {tell_command(market)} lifts that"


def _tell_over_uncertified(numbers: Numbers) -> str:
    market, left = text.plain(numbers.get("provider")), text.money(numbers["has"])
    return (
        f"on {market}, which has no valid certificate: {left} is left of limits.uncertified, the cheapest needs "
        f"{text.money(numbers['wanted'])}; {tell_command(market)} lifts that"
    )


def _tell_room(numbers: Numbers) -> str:
    market, left = text.plain(numbers.get("provider")), text.money(numbers.get("left"))
    of_all = text.money(numbers.get("allowance"))
    return (
        f"{market} has no valid certificate: {left} of the {of_all} of limits.uncertified is left; "
        f"{tell_command(market)} lifts that"
    )


def _tell_old_driver(numbers: Numbers) -> str:
    if numbers.get("has") is None:
        return "with a driver older than the image requires"
    return f"with an older driver: the nearest supports CUDA {numbers['has']}, the image requires {numbers['wanted']}"


CONDITIONS: Mapping[str, str | Callable[[Numbers], str]] = {
    "market_unknown": "on a market that cannot be read",
    "not_certified": lambda numbers: f"on {_tell_lack(numbers, 'has')}",
    "one_uncertified": _tell_one_at_a_time,
    "over_uncertified": _tell_over_uncertified,
    "other_market": "on a market other than the one being certified",
    "gpu": "with a different GPU",
    "vram_gb": _less("GPU memory", _gb),
    "disk_gb": _less("disk", _gb),
    "gpu_cuda": _on_host("with a driver too old for their GPU, by its CUDA version"),
    "cuda": _on_host("with a driver for an older CUDA"),
    "driver": _on_host("with an older driver", show=text.plain),
    "arch": _on_host("with another processor", show=text.plain),
    "cpus": _on_host("with too few CPUs"),
    "ram_gb": _on_host("with too little RAM", " GB"),
    "shm_gb": _on_host("with too little /dev/shm", " GB"),
    "disk_mb_per_s": _on_host("with a slower disk", " MB/s"),
    "reliability": _on_host("less reliable"),
    "download_mbps": _on_host("with a slower download", " Mbps"),
    "upload_mbps": _on_host("with a slower upload", " Mbps"),
    "country": _on_host("not known to be in the country", show=text.plain),
    "region": _on_host("not known to be in the region", show=text.plain),
    "verified": "on unverified hosts",
    "datacenter": "not in a datacenter",
    "image_arch": "with a processor for which the image is not built",
    "image_driver": _tell_old_driver,
    "avoided": "avoided after a failure or a refusal",
    "blocked": "on a host that is blocked: autopilot hosts forgive lifts it",
    "held": "that the job is still releasing",
    "lasts_s": _too_short,
    "no_spot": "without spot",
    "no_on_demand": "without an on-demand price",
    "no_bound": "with no on-demand price to bound a bid; set max_price",
    "max_price": _above("max_price"),
    "max_hourly": _above("max_hourly"),
    "max_hourly_on_demand": _above("max_hourly", "on-demand price"),
    "max_rate": _above("max_rate", "rate with its disk"),
    "on_demand_share": _near_on_demand,
    "lost_bid": _where_bids_lost,
}
"""Why offers were removed: the words after their number."""


def tell_removed(numbers: Numbers) -> str:
    told = CONDITIONS.get(str(numbers["condition"]), text.words(numbers["condition"]))
    return f"{numbers['offers']} {told if isinstance(told, str) else told(numbers)}"


def _tell_wider(numbers: Numbers) -> str:
    offers = int(numbers["offers"])
    if not offers:
        return "no market offers these GPUs on any host; try a name with autopilot offers --gpu NAME"
    return f"without the other requirements: {offers} offer{'s' * (offers > 1)} of these GPUs"


def _tell_unsearched(numbers: Numbers) -> str:
    return f"{text.plain(numbers.get('provider'))} could not be searched: {text.plain(numbers.get('problem'))}"


def _tell_acquire(numbers: Numbers) -> str:
    prices = [("floor", numbers.get("floor")), ("on demand", numbers.get("on_demand_price"))]
    beside = [f"{name} {text.per_hour(price)}" for name, price in prices if price not in (None, numbers.get("bid"))]
    market = f" ({', '.join(beside)})" if beside else ""
    how = f"{text.words(numbers.get('capacity_type'))} at {text.per_hour(numbers.get('bid'))}"
    return f"rent {text.place(numbers)}, {how}{market}{_because(numbers)}"


def _because(numbers: Numbers) -> str:
    return f": {text.words(numbers['reason'])}" if numbers.get("reason") else ""


def _tell_status(numbers: Numbers) -> str:
    of = f" of {text.money(numbers['budget'])}" if numbers.get("budget") is not None else ""
    spent = f"{text.money(numbers.get('committed'))}{of} spent or committed"
    if numbers.get("slack_s") is None:
        return spent
    slack, loss = text.span(numbers["slack_s"]), text.span(numbers.get("one_more_loss_s"))
    return f"slack {slack} ({text.verdict(numbers.get('verdict'))}), one more loss costs {loss}, {spent}"


def _tell_bids(numbers: Numbers) -> str:
    told = (
        ("price_to_win", text.per_hour, "{} would win"),
        ("rebid", text.per_hour, "the next bid is {}"),
        ("cost_of_rebid", text.money, "rebidding costs {} to the end"),
        ("cost_of_leaving", text.money, "leaving costs {} to the end"),
        ("cost_of_waiting_per_h", text.per_hour, "its disk costs {}"),
    )
    return ", ".join(words.format(show(numbers[key])) for key, show, words in told if numbers.get(key) is not None)


def _tell_paused(numbers: Numbers) -> str:
    cause, since = numbers.get("cause") or "paused", text.span(numbers.get("paused_s"))
    if cause == "console":
        return _tell_console(numbers)
    return f"{STOPS.get(str(cause), text.words(cause))} for {since}: {_tell_bids(numbers)}"


def _tell_console(numbers: Numbers) -> str:
    since, left = text.span(numbers.get("paused_s")), text.span(numbers.get("kept_for_s"))
    disk = text.per_hour(numbers.get("cost_of_waiting_per_h"))
    return (
        f"stopped in the market's console {since} ago, and left alone: start it there and the job resumes; else it is "
        f"given back in {left} and the job is parked, for autopilot resume; until then its disk costs {disk}"
    )


def _tell_lost_bid(numbers: Numbers) -> str:
    times = int(numbers.get("times") or 1)
    counted = "a bid" if times == 1 else f"{times} bids"
    bid, held = text.per_hour(numbers.get("bid")), text.span(numbers.get("for_s"))
    return f"{counted} up to {bid} lost on {text.place(numbers)}; assumed to need a higher bid for {held}"


def _tell_slow(numbers: Numbers) -> str:
    pace, stay, move = text.percent(numbers.get("pace")), text.money(numbers.get("stay")), numbers.get("move")
    return (
        f"the machine goes at {pace} of the job's own pace: finishing costs {stay} there, {text.money(move)} elsewhere"
    )


def _tell_no_spot(numbers: Numbers) -> str:
    found = f": {text.plain(numbers['found'])}" if numbers.get("found") else ""
    return f"{text.plain(numbers.get('provider'))} has no spot{found}"


def _tell_choice(option: Numbers) -> str:
    name = text.words(option["option"])
    cost = f", {text.money(option['cost'])} expected to the end" if option.get("cost") is not None else ""
    return f"{'waiting is cheapest' if name == 'wait' else name}{cost}"


def _tell_bill_awaited(numbers: Numbers) -> str:
    doubt, until = text.money(numbers.get("doubt")), text.minute(numbers.get("until"))
    return (
        f"{doubt} of the spend is from unmonitored time; the machine stays stopped until "
        f"{text.plain(numbers.get('provider'))} has billed it, until {until} UTC at the latest"
    )


def _tell_not_held(numbers: Numbers) -> str:
    needed, left = text.money(numbers.get("reserve")), text.money(numbers.get("left"))
    of_job = f", and the job has {left} left" if numbers.get("left") is not None else ""
    return f"the machine is not kept ({text.words(numbers.get('because'))}): keeping it would need {needed}{of_job}"


def _tell_after(numbers: Numbers) -> str:
    name = text.plain(numbers.get("name") or numbers.get("job"))
    status = text.words(numbers.get("status"))
    mend = f": autopilot resume {name} resumes it" if status == "parked" else ""
    if numbers["on"] == On.SAME_TASK:
        return f"each task starts after the same task of {name}; {name} is {status}{mend}"
    return f"waits until {name} {ENDS[On(numbers['on'])]}; it is {status}{mend}"


def _tell_floors(numbers: Numbers) -> str:
    hours = numbers.get("recorded_h")
    recorded = "recorded floors" if hours is None else f"{hours} h of recorded floors"
    if int(numbers.get("learning") or 0):
        return f"learning bids from {recorded}; the first rental waits up to 2 minutes for that"
    if int(numbers.get("learnt") or 0):
        return f"bids are learned from {recorded}"
    return f"bids follow the default rule and a shipped prior: {hours or 0} h of floors recorded, learning needs 4 h"


def _tell_bidders(numbers: Numbers) -> str:
    share, lost = (float(numbers["markup"] or 1) - 1) * 100, float(numbers["lost"] or 0) * 60
    return (
        f"bids are {share:.1f} % above floors: in the recorded data an hour of work costs "
        f"{text.per_hour(numbers['price'])[:-2]} by that, and {lost:.0f} min more"
    )


def _tell_never_started(numbers: Numbers) -> str:
    return (
        f"{numbers.get('launches')} machines in a row on {numbers.get('hosts')} hosts never ran the command; they cost "
        f"{text.money(numbers.get('cost'))}"
    )


def _tell_pull_limit(numbers: Numbers) -> str:
    return (
        f"the registry's pull limit is reached: the next try is in {text.span(numbers.get('for_s'))}; a login in "
        "[registry] raises the limit"
    )


SENTENCES: Mapping[str, Callable[[Numbers], str]] = {
    "never_started": _tell_never_started,
    "pull_limit": _tell_pull_limit,
    "width": arrays.tell_width,
    "lacks": _tell_lack_of_machine,
    "after": _tell_after,
    "search": _tell_search,
    "removed": tell_removed,
    "wider": _tell_wider,
    "unsearched": _tell_unsearched,
    "status": _tell_status,
    "paused": _tell_paused,
    "outbid": lambda numbers: f"its bid lost, and the machine stops within minutes: {_tell_bids(numbers)}",
    "lost_bid": _tell_lost_bid,
    "machine_slow": _tell_slow,
    "floors": _tell_floors,
    "bidders": _tell_bidders,
    "no_spot": _tell_no_spot,
    "certificate_ends": lambda numbers: (
        f"the certificate of {text.plain(numbers.get('provider'))} ends on {text.plain(numbers.get('ends_at'))[:10]}: "
        f"{tell_command(text.plain(numbers.get('provider')))} renews it"
    ),
    "uncertified": _tell_room,
    "certify": lambda numbers: f"a step of certifying {text.plain(numbers.get('provider'))}",
    "acquire": _tell_acquire,
    "change_bid": lambda numbers: f"bid {text.per_hour(numbers.get('bid'))}{_because(numbers)}",
    "start": lambda numbers: f"start the machine{_because(numbers)}",
    "save_and_stop": lambda numbers: f"save and stop{_because(numbers)}",
    "promote": lambda numbers: f"move the run to the new machine{_because(numbers)}",
    "hold": lambda numbers: f"keep the machine until {text.minute(numbers.get('until'))} UTC{_because(numbers)}",
    "not_held": _tell_not_held,
    "proof": lambda numbers: (
        f"{text.plain(numbers.get('provider'))} is proved by use: the machine gets no more permits and must destroy "
        f"itself by {text.minute(numbers.get('until'))} UTC, for {text.money(numbers.get('reserve'))} at most"
    ),
    "not_proved": lambda numbers: (
        f"{text.plain(numbers.get('provider'))} is not proved by this machine ({text.words(numbers.get('because'))}): "
        f"it would need {text.money(numbers.get('reserve'))}"
    ),
    "bill_awaited": _tell_bill_awaited,
    "release": lambda numbers: f"release the machine{_because(numbers)}",
    "set_status": lambda numbers: f"the job is {text.words(numbers.get('status'))}{_because(numbers)}",
    "over": lambda numbers: f"the job is {text.words(numbers.get('status'))}{_because(numbers)}",
}
"""Topic of a note, or of an action → its sentence; any other is shown by its numbers."""
