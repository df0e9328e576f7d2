"""Room for rings, against figures of an H200 worked out by hand."""

from kperfir.bridge.occupancy import DeviceLimits, ctas_per_sm, ring_room

H200 = DeviceLimits(232448, 233472, 1024, 65536, 64, 32)


def test_ctas_are_bounded_by_each_resource() -> None:
    assert ctas_per_sm(H200, 8, 122, 98304) == 2  # registers: 8 * 32 * 128 = 32768
    assert ctas_per_sm(H200, 8, 32, 131072) == 1  # shared memory
    assert ctas_per_sm(H200, 4, 16, 0) == 16  # warps
    assert ctas_per_sm(H200, 1, 16, 0) == 32  # CTAs
    assert ctas_per_sm(H200, 4, 32, 240000) == 0
    # A partition has 16384 registers: 4 warps of 104 * 32 = 3328, so 16 on the SM, though 19 would fit its total.
    assert ctas_per_sm(H200, 2, 104, 0) == 8
    assert ctas_per_sm(H200, 1, 104, 0) == 16
    assert ctas_per_sm(H200, 8, 104, 0) == 2


def test_room_keeps_the_number_of_ctas() -> None:
    for shared in (0, 16, 32768, 98304, 131072, 200000):
        slots, _ = ring_room(H200, 8, 122, shared, 8 * 8)
        if slots:
            padded = -(-shared // 16) * 16 + 8 * slots * 8
            assert ctas_per_sm(H200, 8, 122, padded) == ctas_per_sm(H200, 8, 122, shared)


def test_no_room_is_said_in_words() -> None:
    slots, why = ring_room(H200, 8, 122, 232448, 8 * 8)
    assert slots == 0 and "too few" in why
