"""Container logs: requested by one call, fetched from a URL that is not ready at once."""

from __future__ import annotations

import hashlib

from autopilot_lab.sandbox.vastai.calls import Call, LogFile
from autopilot_lab.sandbox.vastai.replies import Failure, HttpReply

_DEFAULT_TAIL = 1000


def request_logs(call: Call) -> HttpReply:
    instance_id = call.path["id"]
    known = {str(instance.id) for instance in call.market.live()}
    if instance_id not in known:
        raise Failure(HttpReply({"error": "invalid_id", "msg": "Invalid instance id."}, 404))
    lines = call.site.consoles.console(int(instance_id)).decode(errors="replace").splitlines()
    wanted = call.body.get("filter")
    if wanted:
        lines = [line for line in lines if str(wanted) in line]
    tail = str(call.body.get("tail") or _DEFAULT_TAIL)
    lines = lines[-int(tail) :] if tail.isascii() and tail.isdigit() and int(tail) > 0 else lines
    name = hashlib.sha256(f"{instance_id}:{len(call.site.log_files)}".encode()).hexdigest() + ".log"
    call.site.log_files[name] = LogFile("".join(f"{line}\n" for line in lines), call.site.log_polls)
    return HttpReply({"success": True, "result_url": f"{call.site.base_url}/s3/{name}", "msg": "Logs requested"})


def fetch_log(call: Call) -> HttpReply:
    file = call.site.log_files.get(call.path["name"])
    if file is None or file.polls_until_ready > 0:
        if file is not None:
            file.polls_until_ready -= 1
        return HttpReply(status=404, text="<Error><Code>NoSuchKey</Code></Error>", content_type="application/xml")
    return HttpReply(text=file.text)
