"""``ps -w``: the list of jobs, kept up to date, and below it what happens to them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from autopilot.answers.jobs import Event, Job
from autopilot.answers.status import Status
from autopilot.cli import trouble, views
from autopilot.cli.answers import read
from autopilot.cli.output import console
from autopilot.client.json_client import JsonClient
from autopilot.client.paths import job_path
from autopilot.words import story, text

if TYPE_CHECKING:
    from rich.console import RenderableType

INTERVAL_S = 2.0
LINES = 8
"""So many of the newest things that happened are on the screen."""


def watch(client: JsonClient, all: int | None) -> None:
    """Until Ctrl-C."""
    from rich.live import Live

    news = News(client)
    with Live(render(client, news, all), console=console(), auto_refresh=False) as live:
        try:
            while True:
                time.sleep(INTERVAL_S)
                live.update(render(client, news, all), refresh=True)
        except KeyboardInterrupt:
            return


def render(client: JsonClient, news: News, all: int | None) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    jobs = read(list[Job], client.get("/v1/jobs", all=all)["jobs"])
    happened = news.read(jobs)
    status = read(Status, client.status())
    listed = views.job_list(jobs, status.now, all=all is not None)
    below = [*trouble.tell(status), *([""] if happened else []), *happened]
    return Group(listed, *map(Text, below)) if below else listed


class News:
    """The events of jobs that are, or were, on the list; rewritten as more becomes known."""

    def __init__(self, client: JsonClient) -> None:
        self._client = client
        self._names: dict[str, str] = {}
        self._events: dict[str | None, list[Event]] = {}
        self._seen = 0

    def read(self, jobs: Sequence[Job]) -> list[str]:
        """The newest lines, in order: ``06:36 bert-qa: outbid at $0.278/h; raised to $0.306/h; back after 19 s``."""
        self._names |= {job.id: job.name for job in jobs}
        if self._seen:
            self._read_on()
        else:
            for job_id in self._names:
                self._keep(self._client.get(job_path(job_id))["events"])
        told = [
            (line.at, f"{text.minute(line.at)[-5:]} {text.plain(name)}: {line}")
            for job_id, name in self._names.items()
            for line in story.tell_all(self._events.get(job_id, []))
        ]
        return [line for _, line in sorted(told)[-LINES:]]

    def _read_on(self) -> None:
        """Events of every job: one that comes onto the list later has its whole story, too."""
        while page := self._client.get("/v1/events", after=self._seen)["events"]:
            self._keep(page)

    def _keep(self, events: Any) -> None:
        for event in read(list[Event], events):
            self._events.setdefault(event.job_id, []).append(event)
            self._seen = max(self._seen, event.seq)
