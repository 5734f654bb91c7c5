"""Notifications to other programs of what begins and ends: commands that are run, web addresses that are called."""
