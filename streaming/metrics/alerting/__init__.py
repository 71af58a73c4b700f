"""Alerts without Prometheus: the job finds what is wrong, and calls a webhook.

figures --> history --> conditions --> notices --> webhook
"""
