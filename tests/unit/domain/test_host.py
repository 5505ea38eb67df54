import pytest

from autopilot.domain.host import driver_order


def test_drivers_are_ordered_by_their_numbers() -> None:
    ordered = ["525", "525.60.13", "535.86.05", "535.216.01", "570", "580.95.05"]
    assert sorted(ordered, key=driver_order) == ordered
    assert driver_order("580.95.05") > driver_order("580.95")
    assert driver_order("580") == driver_order("580.0") == driver_order("580.00.00")


@pytest.mark.parametrize("text", ["", "580.", "v580", "580-server", "٥٨٠", "1.2.3.4.5"])
def test_what_is_no_driver_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="driver"):
        driver_order(text)
