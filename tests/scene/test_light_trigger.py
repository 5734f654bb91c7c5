"""When light is fitted."""

from bgsub.scene.illumination import LightChangeTrigger


def fits(trigger: LightChangeTrigger, eager: bool) -> int:
    """Return the number of fits within 20 frames that light never explains."""
    count = 0
    for _ in range(20):
        trigger = trigger.next(eager)
        if trigger.fires(0.5):
            count, trigger = count + 1, trigger.after_fit(False)
    return count


def test_failed_fits_back_off():
    assert fits(LightChangeTrigger(), eager=False) == 5  # after 0, 1, 3, 7 and 15 frames


def test_settling_light_is_tried_every_frame():
    assert fits(LightChangeTrigger(), eager=True) == 20
