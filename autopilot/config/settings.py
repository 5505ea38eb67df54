"""The daemon's settings. ``config/autopilot.toml`` shows every one with its default and what it is for.

``Settings(...)`` holds exactly what it is given; ``load_settings`` reads files, credentials and the environment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveInt,
    PrivateAttr,
    SecretStr,
    ValidationError,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from autopilot.blobs.place import MailboxPlace
from autopilot.config import paths, values
from autopilot.config.hosts import check_host_and_port
from autopilot.config.http import HttpSettings, Location
from autopilot.config.keys import (
    BUCKET_KEY,
    KEY_FORMS,
    read_bucket_key,
    read_key,
    read_service_account,
    secrets_in,
)
from autopilot.config.notices import NoticesSettings
from autopilot.config.owners import OwnerSettings
from autopilot.config.policy import PolicySettings
from autopilot.config.secret_files import readable_values
from autopilot.config.sources import Source, read_sources
from autopilot.config.toml_document import nearest
from autopilot.domain import gpu_names
from autopilot.domain.errors import UserError
from autopilot.domain.job import GpuChoice
from autopilot.domain.params import Params
from autopilot.domain.time import show_duration
from autopilot.markets.installed import every_market, facts_of
from autopilot.policy.budget import PERMIT_LEAST_S

PAPER_PREFIX = "paper-"
"""Before a market's name where its instances are simulated: no row of a ledger can be mistaken for real spend."""

USUAL_HOME_MBPS = Decimal(20)
"""Of a line whose speed the settings do not say."""
MOST_WATCHED = 20
"""Models of GPU: with more each would be searched less than once in an hour."""

_SOCKET_PATH_LIMIT = 107
"""Bytes that a unix socket's address holds, less its closing zero."""
TICKS_OF_A_PERMIT = 4
"""It is renewed once a minute, by a tick, and one of these may fail."""
LONGEST_PERMIT, LONGEST_OVER_SSH = timedelta(hours=12), timedelta(hours=1)
"""Over SSH nothing is saved while the daemon sleeps: a longer permit pays for work that is lost."""


def _check_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f'not an address: {url!r} (write it as "https://host")')
    return url.rstrip("/")


def _check_market_url(url: str) -> str:
    """Its adapter knows which of these its market speaks."""
    return url.rstrip("/") if url.startswith("grpc://") and urlsplit(url).hostname else _check_url(url)


def _check_bucket(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("s3", "gs", "az") or not parts.netloc:
        raise ValueError(f'not the address of a bucket: {url!r} (write it as "s3://bucket/prefix", or gs://, az://)')
    return url.rstrip("/")


Money = Annotated[Decimal, BeforeValidator(lambda raw: raw if isinstance(raw, Decimal) else values.money(raw))]
Duration = Annotated[timedelta, BeforeValidator(values.duration)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def _check_watched(watched: tuple[str, ...]) -> tuple[str, ...]:
    models = sum(len(gpu_names.expand(gpu.name)) for each in watched for gpu in values.gpus(each))
    if models > MOST_WATCHED:
        raise ValueError(f"no more than {MOST_WATCHED} models can be watched, and these are {models}")
    return watched


Url = Annotated[str, AfterValidator(_check_url)]
MarketUrl = Annotated[str, AfterValidator(_check_market_url)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LedgerSettings(_Section):
    url: str | None = None
    settle_after: Duration = timedelta(minutes=10)


class ApiSettings(_Section):
    socket: Location | None = None


class MarketClock(_Section):
    speed: Positive = 1.0


class BlobsSettings(_Section):
    listen: Annotated[str, AfterValidator(check_host_and_port)] = "127.0.0.1:0"
    own_listener: bool = True
    over_ssh: bool | None = None
    home_mbps: Positive | None = None
    dir: Location | None = None
    public_url: Url | None = None
    url: Annotated[str, AfterValidator(_check_bucket)] | None = None
    endpoint: Url | None = None
    region: str = "us-east-1"
    key_file: Location | None = None
    role: str | None = None
    token_service: Url | None = None


class EngineSettings(_Section):
    tick_s: Positive = 15.0


class LimitsSettings(_Section):
    day: Money = Decimal(50)
    month: Money = Decimal(500)
    max_hourly: Money = Decimal(10)
    max_instances: PositiveInt = 10
    max_launches_per_hour: PositiveInt = 20
    max_launches_per_job: PositiveInt = 3
    uncertified: Money | None = None


class ImagesSettings(_Section):
    inspect: bool = True
    local: tuple[Annotated[str, AfterValidator(check_host_and_port)], ...] = ()


class PermitSettings(_Section):
    ttl: Duration = timedelta(minutes=15)


class HistorySettings(_Section):
    raw_days: PositiveInt = 14
    keep_days: PositiveInt = 365
    events_days: PositiveInt = 90
    watch: Annotated[tuple[str, ...], AfterValidator(_check_watched)] = ()

    @property
    def watched(self) -> tuple[GpuChoice, ...]:
        """The GPUs whose floors are recorded whether jobs run or not."""
        return tuple(gpu for each in self.watch for gpu in values.gpus(each))


class PaperMarketSettings(_Section):
    credit: Money | None = None
    set_up: Duration = timedelta(minutes=4)


class LogSettings(_Section):
    format: Literal["auto", "console", "json"] = "auto"
    level: Literal["debug", "info", "warning", "error"] = "info"


class ProviderSettings(BaseModel):
    """One market. Keys beyond these are the market's own; its adapter checks them."""

    model_config = ConfigDict(extra="allow", frozen=True)

    enabled: bool = True
    base_url: MarketUrl | None = None
    api_key_file: Location | None = None
    poll_interval_s: Positive | None = None
    tops_up: bool | None = None

    @property
    def is_real(self) -> bool:
        """Whether this is the market itself, where money is spent, and not an emulator of it."""
        if self.base_url is None:
            return True
        host = urlsplit(self.base_url).hostname or ""
        domains = (domain for facts in every_market().values() for domain in facts.domains)
        return any(host == domain or host.endswith("." + domain) for domain in domains)

    @property
    def options(self) -> dict[str, Any]:
        """What the adapter's own configuration takes, where set: the address and the market's own keys."""
        return self.model_dump(exclude={"enabled", "api_key_file", "poll_interval_s", "tops_up"}, exclude_none=True)


class Settings(BaseSettings):
    model_config = SettingsConfigDict(extra="forbid", frozen=True)

    state_dir: Location = Field(default_factory=paths.default_state_dir)
    ledger: LedgerSettings = LedgerSettings()
    api: ApiSettings = ApiSettings()
    http: HttpSettings = HttpSettings()
    clock: MarketClock = MarketClock()
    blobs: BlobsSettings = BlobsSettings()
    engine: EngineSettings = EngineSettings()
    limits: LimitsSettings = LimitsSettings()
    images: ImagesSettings = ImagesSettings()
    permit: PermitSettings = PermitSettings()
    policy: PolicySettings = PolicySettings()
    history: HistorySettings = HistorySettings()
    paper: PaperMarketSettings = PaperMarketSettings()
    log: LogSettings = LogSettings()
    notices: NoticesSettings = NoticesSettings()
    owners: dict[str, OwnerSettings] = {}
    providers: dict[str, ProviderSettings] = {}

    _is_on_paper: bool = PrivateAttr(default=False)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Nothing but the arguments: ``load_settings`` joins the sources, so that it can name the one at fault."""
        return (init_settings,)

    @property
    def ledger_url(self) -> str:
        return self.ledger.url or f"sqlite+aiosqlite:///{self.state_dir / 'ledger.db'}"

    @property
    def socket_path(self) -> Path:
        return self.api.socket or paths.default_socket(self.state_dir)

    @property
    def mailbox_dir(self) -> Path:
        """What daemon and listener share."""
        return self.blobs.dir or self.state_dir

    @property
    def markets(self) -> dict[str, ProviderSettings]:
        """The enabled providers by name."""
        return {name: provider for name, provider in self.providers.items() if provider.enabled}

    @property
    def bought(self) -> frozenset[str]:
        """Those of the enabled providers where money is spent: neither emulated, nor machines of the user's own."""
        return frozenset(name for name, market in self.markets.items() if market.is_real and not _is_own(name))

    @property
    def is_over_ssh(self) -> bool:
        """Whether the daemon dials its machines, because none of them reaches its mailbox, and there is no bucket."""
        if self.is_on_paper or self.blobs.url or self.blobs.public_url:
            return False
        if self.blobs.over_ssh is not None:
            return self.blobs.over_ssh
        return bool(self.bought)

    @property
    def asks_registries(self) -> bool:
        """Whether registries beyond ``images.local`` are asked. Not where no market pulls an image."""
        return self.images.inspect and bool(self.bought)

    @property
    def is_on_paper(self) -> bool:
        """Whether instances are simulated: offers are real and nothing is spent."""
        return self._is_on_paper

    def on_paper(self) -> Settings:
        """The same for a run on paper: markets under names of their own, and state, ledger, mailbox and socket apart,
        so that no figure of it passes for money and a daemon that spends is not in its way.
        """
        state_dir = self.state_dir / "paper"
        apart = {
            "state_dir": state_dir,
            "ledger": self.ledger.model_copy(update={"url": f"sqlite+aiosqlite:///{state_dir / 'paper.db'}"}),
            "api": ApiSettings(socket=self.socket_path.with_name("paper.sock")),
            "http": HttpSettings(),  # its ports are the other's
            "blobs": BlobsSettings(),
            "notices": self.notices.model_copy(update={"ping": None}),  # its pings would hide the silence of the other
            "providers": {PAPER_PREFIX + name: provider for name, provider in self.providers.items()},
        }
        paper = self.model_copy(update=apart)
        paper._is_on_paper = True
        return paper

    def only(self, market: str) -> Settings:
        """The same with this market alone."""
        return self.model_copy(update={"providers": {market: self.providers[market]}})

    def key_for(self, provider: str) -> SecretStr | None:
        """The market's API key, read again; None if no key is stored. Raises ``UserError``."""
        settings = self.providers.get(provider)
        if settings is None or settings.api_key_file is None:
            return None
        return SecretStr(read_key(settings.api_key_file))

    def secret_values(self) -> tuple[str, ...]:
        """What the log has to hide: keys of markets, notices and a proxy, the ledger's password, secrets of jobs.

        Raises ``UserError``.
        """
        keys = (self.key_for(name) for name in self.markets)
        password = unquote(urlsplit(self.ledger_url).password or "")
        bucket = secrets_in(self.bucket_key()[1]) if self.blobs.url else ()
        stored = [key.get_secret_value() for key in keys if key is not None]
        known = [part for key in stored for part in secrets_in(key) or (key,)]
        notices = self.notices.secret_values()
        proxy = self.http.proxy.read_secret() if self.http.proxy.listen is not None else ""
        return (*known, *filter(None, [password, proxy, *bucket]), *notices, *readable_values())

    def bucket_key(self) -> tuple[str, str]:
        """(id or account, secret) of the bucket, read again; of Google's nothing and the JSON. Raises ``UserError``."""
        if self.blobs.key_file is None:
            form = KEY_FORMS[urlsplit(self.blobs.url or "").scheme]
            hint = f"write {form} to {paths.credential_dirs()[-1] / BUCKET_KEY}, chmod 600"
            raise UserError(f"there is no key for the bucket {self.blobs.url}", hint=hint)
        is_google = (self.blobs.url or "").startswith("gs:")
        return ("", read_service_account(self.blobs.key_file)) if is_google else read_bucket_key(self.blobs.key_file)

    @property
    def params(self) -> Params:
        """All numbers of the policy, the daemon's own line among them where storage goes over it."""
        given = self.policy.params
        if not self.is_over_ssh:
            return given
        mbps = Decimal(str(self.blobs.home_mbps)) if self.blobs.home_mbps else USUAL_HOME_MBPS
        return replace(given, traffic=replace(given.traffic, home_mbps=mbps))

    def check_clock(self) -> None:
        """Raises ``UserError`` when a scaled clock would run against a real market: its bills know no scale."""
        for name, provider in self.markets.items():
            if self.clock.speed != 1 and provider.is_real:
                raise UserError(
                    f"the clock's speed is {self.clock.speed:g}, but {name} is the real market",
                    hint=f"set clock.speed to 1, or providers.{name}.base_url to an emulator",
                )

    def check_mailbox(self) -> None:
        """Raises ``UserError`` when machines could not reach the mailbox, or rented ones only without TLS: they would
        work unheard, or be heard by others."""
        real = [name for name in self.markets if name in self.bought]
        if self.blobs.url:
            if real and (self.blobs.endpoint or "https:").startswith("http:"):
                raise UserError(
                    f"machines rented on {', '.join(real)} would use the bucket without encryption",
                    hint="set blobs.endpoint to an https address",
                )
            return
        if self.is_over_ssh:
            self._check_dialled()
        elif real and not (self.blobs.public_url or "").startswith("https://"):
            raise UserError(
                f"machines rented on {', '.join(real)} cannot reach this machine's mailbox on {self.blobs.listen}",
                hint='set blobs.url to a bucket ("s3://…"), or blobs.public_url to an https address that leads to it',
            )
        elif not self.blobs.public_url and not self.is_on_paper and any(map(_is_own, self.markets)):
            raise UserError(
                "your own machines need the address under which they reach this machine's mailbox",
                hint='set blobs.url to a bucket ("s3://…"), or blobs.public_url: in a network of your own '
                '"http://HOST:PORT" will do, with the port of blobs.listen',
            )

    def _check_dialled(self) -> None:
        """Raises ``UserError`` for a market whose machines cannot be dialled."""
        plain = [name for name in self.markets if not every_market()[name].can_be_dialled]
        if plain:
            title = ", ".join(every_market()[name].display_name for name in plain)
            raise UserError(
                f"machines of {title} cannot be dialled over SSH, and they cannot reach the mailbox here",
                hint='set blobs.url to a bucket ("s3://…"), or blobs.public_url to an https address that leads to it',
            )


def _is_own(market: str) -> bool:
    facts = facts_of(market)
    return facts is not None and facts.is_own


def load_settings(path: Path | None = None) -> Settings:
    """Settings from every source; ``path`` (``--config``) takes the place of ``$AUTOPILOT_CONFIG``.

    Raises ``UserError`` that names the file and line or the variable, the key, and the nearest valid one.
    """
    sources = read_sources(Settings, path)
    merged: dict[str, Any] = {}
    for source in sources:
        merged = _merge(merged, source.values)
    try:
        settings = Settings(**merged)
    except ValidationError as error:
        raise _explain(error, sources) from None
    _check_socket(settings.socket_path, "the control socket's path", "api.socket (or AUTOPILOT_API__SOCKET)")
    if settings.http.is_served:
        socket = MailboxPlace(settings.mailbox_dir).daemon_socket
        _check_socket(socket, "the path of the socket for the listener", "blobs.dir (or AUTOPILOT_BLOBS__DIR)")
    if (own := settings.http.proxy.socket) is not None:
        _check_socket(own, "the path of the proxy's socket", "http.proxy.listen")
    settings.http.check()
    _check_permit(settings)
    _check_no_inline_keys(settings, sources)
    return settings


def _merge(weaker: Mapping[str, Any], stronger: Mapping[str, Any]) -> dict[str, Any]:
    both = dict(weaker)
    for key, value in stronger.items():
        below = both.get(key)
        both[key] = _merge(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return both


def _explain(error: ValidationError, sources: list[Source]) -> UserError:
    """The first problem, placed where its value came from (the strongest source that sets the key)."""
    problem = error.errors()[0]
    path = tuple(str(part) for part in problem["loc"])
    place = _place(path, sources)
    if problem["type"] == "extra_forbidden":
        section = f" in [{'.'.join(path[:-1])}]" if path[:-1] else ""
        return UserError(f'{place}: unknown key "{path[-1]}"{section}', hint=nearest(path[-1], _keys_beside(path)))
    not_a_table = problem["type"] in ("model_type", "dict_type")
    message = "must be a table" if not_a_table else problem["msg"].removeprefix("Value error, ")
    return UserError(f"{place}: {'.'.join(path)}: {message[:1].lower()}{message[1:]}")


def _place(path: tuple[str, ...], sources: Iterable[Source]) -> str:
    return next((source.place(path) for source in reversed(list(sources)) if source.has(path)), "settings")


def _keys_beside(path: tuple[str, ...]) -> list[str]:
    model: type[BaseModel] = Settings
    for part in path[:-1]:
        annotation = model.model_fields[part].annotation
        if not isinstance(annotation, type) or not issubclass(annotation, BaseModel):
            return []
        model = annotation
    return list(model.model_fields)


def _check_socket(socket: Path, what: str, setting: str) -> None:
    if len(str(socket).encode()) > _SOCKET_PATH_LIMIT:
        raise UserError(
            f"{what} is longer than {_SOCKET_PATH_LIMIT} bytes: {socket}", hint=f"set {setting} to a shorter path"
        )


def _check_permit(settings: Settings) -> None:
    """A permit outlasts its renewals, or every machine would end itself beside a daemon that is alive."""
    ttl_s, tick_s = settings.permit.ttl.total_seconds(), settings.engine.tick_s
    least_s = max(PERMIT_LEAST_S, TICKS_OF_A_PERMIT * tick_s)
    if ttl_s < least_s:
        raise UserError(
            f"permit.ttl is {ttl_s:g} s: with a tick every {tick_s:g} s machines need at least {least_s:g} s",
            hint="raise permit.ttl, or lower engine.tick_s",
        )
    if settings.permit.ttl > LONGEST_PERMIT:
        raise UserError(
            f"permit.ttl is {show_duration(settings.permit.ttl)}: {show_duration(LONGEST_PERMIT)} is the most",
            hint="lower permit.ttl",
        )
    if settings.is_over_ssh and settings.permit.ttl > LONGEST_OVER_SSH:
        raise UserError(
            f"permit.ttl is {show_duration(settings.permit.ttl)}: with storage over SSH machines can save nothing "
            f"while the daemon sleeps, and {show_duration(LONGEST_OVER_SSH)} is the most",
            hint='lower permit.ttl, or set blobs.url to a bucket ("s3://…")',
        )


def _check_no_inline_keys(settings: Settings, sources: list[Source]) -> None:
    """Files of settings are shared and shown, so they never hold a key itself."""
    for name, provider in settings.providers.items():
        if "api_key" in (provider.model_extra or {}):
            raise UserError(
                f"{_place(('providers', name, 'api_key'), sources)}: an API key is not allowed in the settings",
                hint=f"autopilot init stores it; or name its file in providers.{name}.api_key_file",
            )
