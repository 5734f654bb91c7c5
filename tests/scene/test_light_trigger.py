"""When light is asked for."""

from bgsub.scene.illumination import LightChangeTrigger


def questions(trigger: LightChangeTrigger, eager: bool) -> int:
    """Return how often light is asked for within 20 frames that it never explains."""
    count = 0
    for _ in range(20):
        trigger = trigger.next(eager)
        if trigger.fires(0.5):
            count, trigger = count + 1, trigger.after_fit(False)
    return count


def test_a_scene_that_light_never_explains_is_asked_ever_more_rarely():
    assert questions(LightChangeTrigger(), eager=False) == 5  # after 0, 1, 3, 7 and 15 frames


def test_while_the_light_settles_it_is_asked_every_time():
    assert questions(LightChangeTrigger(), eager=True) == 20
