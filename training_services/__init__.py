"""Platforms that trial jobs run on, behind one abstract class (`training_services.base`)."""
