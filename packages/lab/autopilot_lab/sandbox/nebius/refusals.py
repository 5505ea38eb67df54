"""How the market says no: a gRPC status with a typed error beside it."""

from __future__ import annotations

from dataclasses import dataclass

import grpc
from nebius.api.google.protobuf import Any as Packed
from nebius.api.google.rpc import Status
from nebius.api.nebius.common.v1 import (
    BadRequest,
    BadResourceState,
    NotEnoughResources,
    OutOfRange,
    PermissionDenied,
    QuotaFailure,
    ResourceAlreadyExists,
    ResourceNotFound,
    ServiceError,
    TooManyRequests,
)

ERROR_TYPE = "type.googleapis.com/nebius.common.v1.ServiceError"


@dataclass
class NebiusRefused(Exception):
    status: grpc.StatusCode
    message: str
    error: ServiceError | None = None

    @property
    def code(self) -> int:
        return int(self.status.value[0])

    @property
    def packed(self) -> bytes:
        return b"" if self.error is None else self.error.SerializeToString()

    def rich_status(self) -> bytes:
        details = [] if self.error is None else [Packed(type_url=ERROR_TYPE, value=self.packed)]
        return Status(code=self.code, message=self.message, details=details).SerializeToString()


def no_such(resource_id: str) -> NebiusRefused:
    error = ServiceError(code="NotFound", resource_not_found=ResourceNotFound(resource_id=resource_id))
    return NebiusRefused(grpc.StatusCode.NOT_FOUND, "resource not found", error)


def name_taken(resource_id: str) -> NebiusRefused:
    error = ServiceError(code="AlreadyExists", resource_already_exists=ResourceAlreadyExists(resource_id=resource_id))
    return NebiusRefused(grpc.StatusCode.ALREADY_EXISTS, "a resource of that name exists", error)


def bad_request(field: str, message: str) -> NebiusRefused:
    violation = BadRequest.Violation(field=field, message=message)
    error = ServiceError(code="BadRequest", bad_request=BadRequest(violations=[violation]))
    return NebiusRefused(grpc.StatusCode.INVALID_ARGUMENT, "Request validation error", error)


def bad_state(resource_id: str, message: str) -> NebiusRefused:
    state = BadResourceState(resource_id=resource_id, message=message)
    error = ServiceError(code="BadResourceState", bad_resource_state=state)
    return NebiusRefused(grpc.StatusCode.FAILED_PRECONDITION, message, error)


def out_of_range(requested: str, limit: str) -> NebiusRefused:
    error = ServiceError(code="OutOfRange", out_of_range=OutOfRange(requested=requested, limit=limit))
    return NebiusRefused(grpc.StatusCode.OUT_OF_RANGE, "max_price is out of the allowed range", error)


def over_quota(quota: str, limit: int, requested: int) -> NebiusRefused:
    violation = QuotaFailure.Violation(
        quota=quota, message="quota exceeded", limit=str(limit), requested=str(requested)
    )
    error = ServiceError(code="QuotaFailure", quota_failure=QuotaFailure(violations=[violation]))
    return NebiusRefused(grpc.StatusCode.RESOURCE_EXHAUSTED, "Quota limit exceeded", error)


def no_hardware() -> NebiusRefused:
    words = "VM schedule timeout, most likely due to insufficient hardware resources"
    error = ServiceError(code="NotEnoughResources", not_enough_resources=NotEnoughResources())
    return NebiusRefused(grpc.StatusCode.RESOURCE_EXHAUSTED, words, error)


def abort() -> NebiusRefused:
    return NebiusRefused(grpc.StatusCode.ABORTED, "another operation has taken its place")


def too_many_requests() -> NebiusRefused:
    error = ServiceError(code="TooManyRequests", too_many_requests=TooManyRequests(violation="requests per minute"))
    return NebiusRefused(grpc.StatusCode.RESOURCE_EXHAUSTED, "Too many requests", error)


def no_rights(words: str) -> NebiusRefused:
    error = ServiceError(code="PermissionDenied", permission_denied=PermissionDenied(resource_id=""))
    return NebiusRefused(grpc.StatusCode.PERMISSION_DENIED, words, error)
