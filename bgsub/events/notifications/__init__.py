"""Notifications of events to other programs, by commands and webhooks."""
