"""Where machines are: countries by ISO 3166, and the parts of the world that a job may name. Pure."""

from __future__ import annotations


def _codes(text: str) -> frozenset[str]:
    return frozenset(text.split())


AFRICA = _codes(
    "AO BF BI BJ BW CD CF CG CI CM CV DJ DZ EG EH ER ET GA GH GM GN GQ GW KE KM LR LS LY MA MG ML MR MU MW MZ NA NE NG"
    " RE RW SC SD SH SL SN SO SS ST SZ TD TG TN TZ UG YT ZA ZM ZW"
)
ASIA = _codes(
    "AE AF AM AZ BD BH BN BT CN GE HK ID IL IN IO IQ IR JO JP KG KH KP KR KW KZ LA LB LK MM MN MO MV MY NP OM PH PK PS"
    " QA SA SG SY TH TJ TL TM TR TW UZ VN YE"
)
EUROPE = _codes(
    "AD AL AT AX BA BE BG BY CH CY CZ DE DK EE ES FI FO FR GB GG GI GR HR HU IE IM IS IT JE LI LT LU LV MC MD ME MK MT"
    " NL NO PL PT RO RS RU SE SI SJ SK SM UA VA XK"
)
EUROPEAN_UNION = _codes("AT BE BG CY CZ DE DK EE ES FI FR GR HR HU IE IT LT LU LV MT NL PL PT RO SE SI SK")
NORTH_AMERICA = _codes(
    "AG AI AW BB BL BM BQ BS BZ CA CR CU CW DM DO GD GL GP GT HN HT JM KN KY LC MF MQ MS MX NI PA PM PR SV SX TC TT US"
    " VC VG VI"
)
OCEANIA = _codes("AS AU CC CK CX FJ FM GU KI MH MP NC NF NR NU NZ PF PG PN PW SB TK TO TV UM VU WF WS")
SOUTH_AMERICA = _codes("AR BO BR CL CO EC FK GF GY PE PY SR UY VE")

COUNTRIES = AFRICA | ASIA | EUROPE | NORTH_AMERICA | OCEANIA | SOUTH_AMERICA
PARTS = {
    "africa": AFRICA,
    "asia": ASIA,
    "eu": EUROPEAN_UNION,
    "europe": EUROPE,
    "north-america": NORTH_AMERICA,
    "oceania": OCEANIA,
    "south-america": SOUTH_AMERICA,
}
"""Parts of the world by the word of a job file. ``eu`` is the European Union, ``europe`` the continent."""


def is_within(country: str, region: str, wanted: str) -> bool:
    """Whether a machine there is in the part of the world, or the market's region, that is wanted.

    A market's region is meant by its whole name or by its beginning: us-central1 has us-central1-a.
    """
    if wanted in PARTS:
        return country in PARTS[wanted]
    named = region.lower()
    return named == wanted or named.startswith(f"{wanted}-")


def country_of_region(region: str) -> str:
    """For a market whose regions begin with a country: us-central1 is US. Empty: the name does not say it."""
    first = region.partition("-")[0].lower()
    return {"us": "US", "uk": "GB", "ca": "CA"}.get(first, "")
