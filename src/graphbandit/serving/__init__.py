"""The service: recommendations over HTTP from a policy whose every decision and reward is in a durable log.

`recommender` holds the state, which only events change; `store` keeps the events; `service` joins the two; `app` speaks HTTP.
Needs the extra `serve`.
"""
