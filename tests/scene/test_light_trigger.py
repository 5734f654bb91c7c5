"""When light is fitted."""

from bgsub.scene.illumination import LightChangeTrigger


def fits(trigger: LightChangeTrigger, eager: bool) -> int:
    """Return the number of fits within 20 frames that light never explains."""
    count = 0
    for _ in range(20):
        if trigger.fires(0.5, eager):
            count += 1
            trigger.fitted(False, 0.5)
    return count


def test_failed_fits_back_off_unless_light_settles():
    assert fits(LightChangeTrigger(), eager=False) == 5  # after 0, 1, 3, 7 and 15 frames
    assert fits(LightChangeTrigger(), eager=True) == 20


def test_a_larger_change_ends_the_wait_after_a_failed_fit():
    trigger = LightChangeTrigger(since=3, wait=16, failed=0.2)
    assert not trigger.fires(0.25)
    assert trigger.fires(0.35)
    trigger.fitted(True, 0.35)
    assert (trigger.since, trigger.wait) == (0, 0)


def test_a_change_that_came_slowly_and_few_candidates_are_never_tried():
    trigger = LightChangeTrigger()
    assert not any(trigger.fires(0.019) for _ in range(1000))
    for i in range(1000):
        share = min(i, 100) * 0.002
        assert not trigger.fires(share)
        trigger.learn(share)
    assert trigger.fires(share + 0.05)
