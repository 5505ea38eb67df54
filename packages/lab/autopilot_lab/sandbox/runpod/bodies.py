"""What the bodies of REST v2 may look like, and what is wrong with one that does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from autopilot_lab.sandbox.runpod.machines import Cloud, Requirements
from autopilot_lab.sandbox.runpod.orders import MAX_ENV, mount_path
from autopilot_lab.sandbox.runpod.pods import PodOrder
from autopilot_lab.sandbox.runpod.refusals import invalid
from autopilot_lab.sandbox.runpod.rows import Json

_NAMES = {str: "string", int: "integer", bool: "boolean", list: "array", dict: "object", float: "number"}


@dataclass(frozen=True)
class BodyShape:
    """Of one value. ``properties`` of an object, ``items`` of an array; ``open`` objects take any property."""

    type: type
    properties: Mapping[str, BodyShape] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    items: BodyShape | None = None
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    open: bool = False


_TEXT, _FLAG, _COUNT = BodyShape(str), BodyShape(bool), BodyShape(int, minimum=0)
_MOUNTS = BodyShape(
    dict,
    {
        "persistent": BodyShape(dict, {"size": BodyShape(int, minimum=10), "path": _TEXT}, ("size", "path")),
        "network": BodyShape(list, items=BodyShape(dict, {"volumeId": _TEXT, "path": _TEXT}, ("volumeId", "path"))),
    },
)
_EDITABLE: dict[str, BodyShape] = {
    "name": _TEXT,
    "image": _TEXT,
    "args": _TEXT,
    "disk": _COUNT,
    "ports": BodyShape(list, items=_TEXT),
    "env": BodyShape(dict, open=True),
    "registry": _TEXT,
    "mounts": _MOUNTS,
}
_GPU = {
    "id": _TEXT,
    "count": BodyShape(int, minimum=1),
    "allowedCudaVersions": BodyShape(list, items=_TEXT),
    "minCudaVersion": _TEXT,
    "minRamPerGpu": _COUNT,
    "minVcpuCountPerGpu": _COUNT,
}
REGISTRY = BodyShape(dict, {"name": _TEXT, "username": _TEXT, "password": _TEXT}, ("name", "username", "password"))
CREATE = BodyShape(
    dict,
    {
        **_EDITABLE,
        "templateId": _TEXT,
        "gpu": BodyShape(dict, _GPU, ("id",)),
        "cloud": BodyShape(str, choices=("SECURE", "COMMUNITY")),
        "dataCenterIds": BodyShape(list, items=_TEXT),
        "startSsh": _FLAG,
        "startJupyter": _FLAG,
    },
    ("name", "gpu"),
)
PATCH = BodyShape(dict, {**_EDITABLE, "locked": _FLAG})
ACTION = BodyShape(dict, {"action": BodyShape(str, choices=("start", "stop", "restart", "terminate"))}, ("action",))


def mistakes(value: object, shape: BodyShape, path: str = "$") -> list[str]:
    """Empty when the value fits."""
    if not isinstance(value, shape.type) or (isinstance(value, bool) and shape.type is not bool):
        return [f"{path}: got {_NAMES.get(type(value), 'null')}, want {_NAMES[shape.type]}"]
    found = []
    if isinstance(value, dict):
        found += [f"{path}: missing property '{name}'" for name in shape.required if name not in value]
        unknown = [f"'{name}'" for name in value if name not in shape.properties and not shape.open]
        if unknown:
            found.append(f"{path}: additional properties {', '.join(unknown)} not allowed")
        for name, inner in shape.properties.items():
            if name in value:
                found += mistakes(value[name], inner, f"{path}.{name}")
    elif isinstance(value, list) and shape.items is not None:
        for index, item in enumerate(value):
            found += mistakes(item, shape.items, f"{path}[{index}]")
    elif shape.choices and value not in shape.choices:
        found.append(f"{path}: value must be one of {', '.join(shape.choices)}")
    elif shape.minimum is not None and isinstance(value, int) and value < shape.minimum:
        found.append(f"{path}: must be >= {shape.minimum}")
    return found


def parse_create(body: Json, team: str | None, pub_key: str) -> PodOrder:
    """The order in a valid create body. Raises ``PodRefused``."""
    gpu = _object(body["gpu"])
    count = _whole(gpu.get("count"), 1)
    if not body.get("image"):
        raise invalid("image or templateId is required" if not body.get("templateId") else "template not found")
    start_ssh = bool(body.get("startSsh"))
    env = _env(body.get("env"))
    order = PodOrder(
        image=str(body["image"]),
        gpu_type_ids=(str(gpu["id"]),),
        name=str(body["name"]),
        gpu_count=count,
        requirements=Requirements(
            clouds=frozenset({Cloud(str(body.get("cloud", "SECURE")))}),
            data_center_ids=frozenset(str(place).upper() for place in _list(body.get("dataCenterIds"))),
            min_vcpus=_whole(gpu.get("minVcpuCountPerGpu"), 0) * count,
            min_memory_gb=_whole(gpu.get("minRamPerGpu"), 0) * count,
            cuda_versions=frozenset(map(str, _list(gpu.get("allowedCudaVersions")))),
            min_cuda_version=str(gpu["minCudaVersion"]) if gpu.get("minCudaVersion") else None,
        ),
        args=str(body.get("args", "")),
        env=env + ((("PUBLIC_KEY", pub_key),) if start_ssh and pub_key else ()),
        ports=tuple(map(str, _list(body.get("ports")))),
        container_disk_gb=_whole(body.get("disk"), 20),
        registry_id=str(body["registry"]) if body.get("registry") else None,
        start_ssh=start_ssh,
        team=team,
    )
    return replace(order, **_mounts(body.get("mounts")))  # type: ignore[arg-type]


def parse_edit(body: Json) -> dict[str, object]:
    """The fields of an order that a valid patch changes. Raises ``PodRefused``."""
    changes: dict[str, object] = {name: body[name] for name in ("name", "image", "args") if name in body}
    if "disk" in body:
        changes["container_disk_gb"] = body["disk"]
    if "ports" in body:
        changes["ports"] = tuple(map(str, _list(body["ports"])))
    if "env" in body:
        changes["env"] = _env(body["env"])
    if "mounts" in body:
        changes |= _mounts(body["mounts"])
    return changes


def _mounts(value: object) -> dict[str, object]:
    """Volume fields of an order; nothing persists without a mount."""
    mounts = _object(value or {})
    network = _list(mounts.get("network"))
    if network:
        first = _object(network[0])
        return {"network_volume_id": str(first["volumeId"]), "mount": mount_path(str(first["path"]))}
    persistent = _object(mounts.get("persistent") or {})
    if not persistent:
        return {}
    return {"volume_gb": _whole(persistent["size"], 0), "mount": mount_path(str(persistent["path"]))}


def _env(value: object) -> tuple[tuple[str, str], ...]:
    env = tuple((str(key), str(text)) for key, text in _object(value or {}).items())
    if len(env) > MAX_ENV:
        raise invalid(f"a pod may have at most {MAX_ENV} environment variables")
    return env


def _object(value: object) -> Json:
    assert isinstance(value, dict)
    return value


def _list(value: object) -> list[object]:
    assert value is None or isinstance(value, list)
    return value or []


def _whole(value: object, default: int) -> int:
    assert value is None or isinstance(value, int)
    return default if value is None else int(value)
