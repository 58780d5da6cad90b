"""Runs the cases of all Python clients against the broker at BOOTSTRAP; arguments name cases."""

import aiokafka_cases  # noqa: F401
import confluent_cases  # noqa: F401
import confluent_group_cases  # noqa: F401
import harness
import kafka_python_cases  # noqa: F401

harness.main()
