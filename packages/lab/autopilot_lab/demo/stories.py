"""The stories that can be played, by the names that the command line gives them."""

from __future__ import annotations

from autopilot_lab.demo.all_markets import ALL_MARKETS
from autopilot_lab.demo.script import Story
from autopilot_lab.demo.two_markets import TWO_MARKETS

STORIES: dict[str, Story] = {"two-markets": TWO_MARKETS, "all-markets": ALL_MARKETS}
