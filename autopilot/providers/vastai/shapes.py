"""The market's answers as they were recorded: what the adapter reads of them, and what else is known to be there.

A field that is read here and not by ``wire``, or the other way round, fails a test. Source: docs/providers/vastai.md.
"""

from __future__ import annotations

from autopilot.providers.drift.shape import BOOLEAN, LIST, NULL, NUMBER, OBJECT, TEXT, AnswerShape, ignore, read
from autopilot.providers.vastai import wire

_SUCCESS = read("success", BOOLEAN, optional=True)
_WORDS_OF_A_REFUSAL = {
    **read(
        "error",
        TEXT,
        optional=True,
        words="auth_error deprecated_endpoint insufficient_credit invalid_args invalid_id invalid_request invalid_token"
        " label_too_long missing_billing no_such_ask no_such_instance not_authorized search_quota_exceeded",
    ),
    **read("msg message detail", TEXT, optional=True),
    **read("retry_after", NUMBER, optional=True),
}
_HARDWARE = {
    **read("machine_id host_id num_gpus", NUMBER),
    **read("gpu_name", TEXT),
    **ignore(
        "gpu_lanes gpu_mem_bw bw_nvlink total_flops dlperf pci_gen pcie_bw direct_port_count bundle_id score duration"
        " dph_total credit_discount_max",
        NUMBER,
    ),
    **ignore("vram_costperhour dlperf_per_dphtotal flops_per_dphtotal", NUMBER, NULL),
    **ignore("static_ip is_vm_deverified vms_enabled rentable", BOOLEAN),
    **ignore(
        "gpu_arch cpu_name mobo_name os_version disk_name resource_type time_remaining time_remaining_isbid logo",
        TEXT,
    ),
    **ignore("public_ipaddr webpage", TEXT, NULL),
    **ignore("external", BOOLEAN, NULL),
    **ignore("inet_up_billed inet_down_billed", NUMBER, NULL),
    **ignore("search", OBJECT),
}

_HOST_NUMBERS = "cuda_max_good compute_cap disk_bw inet_up"
_HOST_SHARES = "cpu_cores cpu_cores_effective cpu_ram"
_HOST_TEXTS = "driver_version cpu_arch"

_PORTS = AnswerShape(
    "",
    read(
        wire.SSH_PORT_INSIDE,
        LIST,
        optional=True,
        inside=AnswerShape("", {**read("HostPort", TEXT), **ignore("HostIp", TEXT)}),
    ),
    is_open=True,
)
"""Of all that are mapped the SSH server's alone is read."""

INSTANCE = AnswerShape(
    "instance",
    {
        **_HARDWARE,
        **ignore(_HOST_NUMBERS, NUMBER),
        **ignore(_HOST_SHARES, NUMBER, NULL),
        **ignore(_HOST_TEXTS, TEXT),
        **read("id", NUMBER),
        **read("label", TEXT, NULL),
        **read("is_bid", BOOLEAN, money=True),
        **read("dph_base storage_total_cost", NUMBER, money=True),
        **read(
            "instance",
            OBJECT,
            inside=AnswerShape(
                "",
                {
                    **read("diskHour", NUMBER, money=True),
                    **ignore("gpuCostPerHour totalHour discountTotalHour discountedTotalPerHour", NUMBER),
                },
            ),
        ),
        **read(
            "actual_status",
            TEXT,
            NULL,
            words="created loading running stopped exited rebooting frozen unknown offline",
        ),
        **read("intended_status", TEXT, words="running stopped frozen"),
        **read("cur_state", TEXT, words="running stopped unloaded"),
        **read("end_date", NUMBER),
        **read("status_msg", TEXT, NULL),
        **ignore(
            "gpu_frac gpu_ram reliability2 hosting_type inet_down inet_up_cost inet_down_cost storage_cost disk_space"
            " min_bid gpu_totalram machine_dir_ssh_port direct_port_start direct_port_end client_run_time"
            " host_run_time cpu_util mem_limit disk_util disk_usage",
            NUMBER,
        ),
        **ignore(
            "start_date uptime_mins mem_usage vmem_usage gpu_util gpu_temp credit_balance credit_discount template_id",
            NUMBER,
            NULL,
        ),
        **ignore(
            "verification geolocation next_state image_uuid image_runtype onstart jupyter_token ssh_idx local_ipaddrs",
            TEXT,
        ),
        **ignore("template_hash_id template_name", TEXT, NULL),
        **ignore("image_args volume_info", LIST),
        **ignore("extra_env", LIST, NULL),
        **read("ssh_host public_ipaddr", TEXT, NULL),
        **read("ssh_port", NUMBER, NULL),
        **read("ports", OBJECT, NULL, inside=_PORTS),
    },
)

OFFER = AnswerShape(
    "offer",
    {
        **_HARDWARE,
        **read(_HOST_NUMBERS, NUMBER),
        **read(_HOST_SHARES, NUMBER, NULL),
        **read(_HOST_TEXTS, TEXT),
        **read("id gpu_frac gpu_ram inet_down reliability reliability2 hosting_type disk_space end_date", NUMBER),
        **read("gpu_ids", LIST),
        **read("dph_base storage_cost inet_up_cost inet_down_cost", NUMBER, money=True),
        **read("min_bid", NUMBER, NULL, money=True),
        **read("verification", TEXT, words="verified unverified deverified"),
        **read("geolocation", TEXT),
        **ignore(
            "ask_contract_id gpu_total_ram gpu_max_power gpu_max_temp driver_vers cpu_ghz has_avx"
            " internet_up_cost_per_tb internet_down_cost_per_tb geolocode expected_reliability reliability_mult"
            " vericode rn start_date storage_total_cost dph_total_adj discount_rate discounted_hourly"
            " discounted_dph_total pending_count",
            NUMBER,
        ),
        **ignore("avail_vol_ask_id avail_vol_dph avail_vol_size cluster_id", NUMBER, NULL),
        **ignore("nw_disk_min_bw nw_disk_max_bw nw_disk_avg_bw", NUMBER, NULL),
        **ignore("gpu_display_active rented is_bid", BOOLEAN),
        **ignore("verified", BOOLEAN, NULL),
        **ignore("hostname", TEXT, NULL),
        **ignore("bundled_results", NUMBER, NULL),
        **ignore("instance", OBJECT),
    },
)

CHARGE_ITEM = AnswerShape(
    "charge item",
    {
        **read("type", TEXT, money=True, words=" ".join(wire.ITEM_TYPES)),
        **read("amount", NUMBER, money=True),
        **ignore("start end", NUMBER),
        **ignore("source", TEXT, NULL),
        **ignore("description", TEXT),
        **ignore("metadata", OBJECT),
        **ignore("items", LIST),
    },
)

CHARGE = AnswerShape(
    "charge",
    {
        **read("type", TEXT, money=True, words="instance"),
        **read("source", TEXT, money=True, form=r"instance-\d+"),
        **read("start end", NUMBER),
        **read("items", LIST, money=True, inside=CHARGE_ITEM),
        **read(
            "metadata",
            OBJECT,
            inside=AnswerShape(
                "",
                {
                    **read("label", TEXT, NULL, optional=True),
                    **ignore("template_id", NUMBER, TEXT, NULL, optional=True),
                },
            ),
        ),
        **ignore("amount", NUMBER),
        **ignore("description", TEXT),
    },
)

INSTANCE_PAGE = AnswerShape(
    "list of instances",
    {
        **_SUCCESS,
        **read("instances", LIST, inside=INSTANCE),
        **read("total_instances", NUMBER),
        **read("next_token", TEXT, NULL),
        **ignore("instances_found", NUMBER),
        **ignore("label_counts", OBJECT),
    },
)
ONE_INSTANCE = AnswerShape("single instance", {**_SUCCESS, **read("instances", OBJECT, NULL, inside=INSTANCE)})
CHARGE_PAGE = AnswerShape(
    "list of charges",
    {
        **_SUCCESS,
        **read("results", LIST, inside=CHARGE),
        **read("total", NUMBER),
        **read("next_token", TEXT, NULL),
        **ignore("count", NUMBER),
    },
)
OFFERS = AnswerShape("list of offers", {**_SUCCESS, **read("offers", LIST, inside=OFFER)})
GPU_NAMES = AnswerShape("list of GPU names", {**_SUCCESS, **read("gpu_names", LIST)})

ACCOUNT = AnswerShape(
    "account",
    {
        **_SUCCESS,
        **read("credit", NUMBER, money=True),
        **read("id", NUMBER),
        **read("balance_threshold_enabled", BOOLEAN),
        **read("balance_threshold", NUMBER),
        **read("autobill_threshold", NUMBER, NULL, optional=True),
        **ignore("balance key_id", NUMBER),
        **ignore("email sid", TEXT),
        **ignore("ssh_key", TEXT, NULL),
    },
)

INBOX = AnswerShape("inbox", {**_SUCCESS, **read("notifications", LIST)})
_NOTICE = {
    **read(
        "notif_type",
        TEXT,
        words="outbid instance_started instance_resumed instance_stopped instance_offline instance_online"
        " machine_maintenance near_end_date low_credit stopped offline",
    ),
    **ignore("event_id message subject user_context", TEXT),
}
NOTICE = AnswerShape("notice", {**_NOTICE, **ignore("created_at", NUMBER), **ignore("associated_id", OBJECT)})
OUTBID_NOTICE = AnswerShape(
    "outbid notice",
    {
        **_NOTICE,
        **read("created_at", NUMBER),
        **read(
            "associated_id",
            OBJECT,
            inside=AnswerShape(
                "",
                {
                    **read("instance_id", NUMBER),
                    **read("new_min_bid", NUMBER, money=True),
                    **ignore("machine_id your_bid", NUMBER),
                },
            ),
        ),
    },
)

CREATED = AnswerShape(
    "answer to a create",
    {
        **_WORDS_OF_A_REFUSAL,
        **read("success", BOOLEAN),
        **read("new_contract", NUMBER),
        **ignore("instance_api_key", TEXT),
    },
)
CHANGED = AnswerShape("answer to a change", {**_WORDS_OF_A_REFUSAL, **read("success", BOOLEAN)})
LOG_ASKED = AnswerShape(
    "answer to a request for a log", {**_WORDS_OF_A_REFUSAL, **read("success", BOOLEAN), **read("result_url", TEXT)}
)
REFUSAL = AnswerShape(
    "refusal", {**_WORDS_OF_A_REFUSAL, **_SUCCESS, **ignore("ask_id limit remaining", NUMBER, optional=True)}
)
