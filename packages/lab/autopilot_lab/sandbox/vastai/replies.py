"""What a call answers, and the provider's standing error bodies."""

from __future__ import annotations

from dataclasses import dataclass, field

Json = dict[str, object]


@dataclass(frozen=True)
class HttpReply:
    """JSON unless ``text`` is given."""

    body: object = None
    status: int = 200
    text: str | None = None
    content_type: str = "text/plain"
    headers: dict[str, str] = field(default_factory=dict)


class Failure(Exception):
    """Ends a call with an error reply."""

    def __init__(self, reply: HttpReply) -> None:
        super().__init__(reply.status, reply.body)
        self.reply = reply


OK = HttpReply({"success": True})
START_QUEUED = HttpReply(
    {"success": False, "msg": "Required resources are currently unavailable, state change queued."}
)


def failure(status: int, error: str, msg: str, **more: object) -> Failure:
    return Failure(HttpReply({"success": False, "error": error, "msg": msg, **more}, status))


def login_required() -> Failure:
    return failure(403, "auth_error", "This action requires login.")


def unknown_key(status: int) -> Failure:
    return failure(status, "auth_error", "Invalid user key")


def not_authorized() -> Failure:
    return failure(403, "not_authorized", "This key may not do that.")


def invalid_body() -> Failure:
    return Failure(HttpReply({"error": "invalid_request", "msg": "Invalid json body"}, 400))


def invalid_args(msg: str, **more: object) -> Failure:
    return failure(400, "invalid_args", msg, **more)


def no_such_instance() -> Failure:
    return failure(404, "no_such_instance", "Instance with that ID does not exist.")


def stale_ask(ask_id: int) -> Failure:
    msg = f"error 404/3603: no_such_ask Instance type by id {ask_id} is not available."
    return failure(404, "invalid_args", msg, ask_id=ask_id)


def unavailable_ask(ask_id: int) -> Failure:
    msg = f"error 410/3907: no_such_ask Instance type {ask_id} is no longer available."
    return failure(410, "no_such_ask", msg, ask_id=ask_id)


def insufficient_credit() -> Failure:
    return failure(400, "insufficient_credit", "Your account lacks credit; see the billing page.")


def invalid_token() -> Failure:
    return failure(400, "invalid_token", "Invalid pagination token")


def invalid_search_key(name: str) -> Failure:
    msg = f"Error in query parameters: {name} is not a valid search key"
    return Failure(HttpReply({"error": "invalid_request", "msg": msg}, 400))


def too_frequent(threshold_s: float, *, detail: bool = False, retry_after: float | None = None) -> HttpReply:
    """Plain text mostly; some endpoints wrap it in ``detail``."""
    headers = {} if retry_after is None else {"Retry-After": f"{retry_after:g}"}
    if detail:
        return HttpReply(
            {"detail": f"API requests too frequent endpoint threshold={threshold_s}"}, status=429, headers=headers
        )
    text = f"API requests too frequent: endpoint threshold={threshold_s}"
    return HttpReply(status=429, text=text, headers=headers)


def search_quota_exceeded(limit: int, remaining: int, retry_after_s: int) -> HttpReply:
    body = {
        "success": False,
        "error": "search_quota_exceeded",
        "msg": "Daily search quota exceeded.",
        "limit": limit,
        "remaining": remaining,
        "retry_after": retry_after_s,
    }
    return HttpReply(body, 429)
