"""The GraphQL that is sent. One field that the market does not know fails a whole query: these are proven ones."""

from __future__ import annotations

_POD = """id name podType desiredStatus lastStatusChange lastStartedAt createdAt gpuCount containerDiskInGb volumeInGb
costPerHr lowestBidPriceToResume machineId machine { gpuDisplayName gpuTypeId secureCloud }
runtime { uptimeInSeconds }"""
_PRICES = "{ minimumBidPrice uninterruptablePrice stockStatus }"

SWEEP = f"query Sweep {{ myself {{ clientBalance pods {{ {_POD} }} }} }}"
BALANCE = "query Balance { myself { clientBalance } }"
POD = f"query OnePod($podId: String!) {{ pod(input: {{podId: $podId}}) {{ {_POD} }} }}"
PRICES = f"""query Prices($ids: [String], $secure: GpuLowestPriceInput, $community: GpuLowestPriceInput) {{
gpuTypes(input: {{ids: $ids}}) {{
id displayName memoryInGb securePrice communityPrice secureSpotPrice communitySpotPrice
secure: lowestPrice(input: $secure) {_PRICES}
community: lowestPrice(input: $community) {_PRICES} }} }}"""

SPOT_OPERATION = "podRentInterruptable"
RENT_SPOT = f"mutation RentSpot($input: PodRentInterruptableInput!) {{ {SPOT_OPERATION}(input: $input) {{ id }} }}"
SPOT_PROBE = f"mutation Probe {{ {SPOT_OPERATION}(input: {{bidPerGpu: 0}}) @skip(if: true) {{ id }} }}"
"""Is checked against the market's schema like any other, and then executes nothing."""

ON_DEMAND_OPERATION = "podFindAndDeployOnDemand"
RENT_ON_DEMAND = f"""mutation RentOnDemand($input: PodFindAndDeployOnDemandInput) {{
{ON_DEMAND_OPERATION}(input: $input) {{ id }} }}"""

RESUME_SPOT_OPERATION = "podBidResume"
RESUME_SPOT = f"""mutation ResumeSpot($podId: String!, $bidPerGpu: Float!, $gpuCount: Int!) {{
{RESUME_SPOT_OPERATION}(input: {{podId: $podId, bidPerGpu: $bidPerGpu, gpuCount: $gpuCount}}) {{ id }} }}"""

RESUME_OPERATION = "podResume"
RESUME = f"""mutation Resume($podId: String!, $gpuCount: Int) {{
{RESUME_OPERATION}(input: {{podId: $podId, gpuCount: $gpuCount}}) {{ id }} }}"""
