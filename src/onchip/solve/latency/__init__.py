"""Plans that end soonest: operators in bands, orders, and transfers beside computation.

Here lives what decides when: bands and orders are searched, the compiled `LatencyBands` says what an order comes to,
addresses follow. Not what lasts how long (`Problem.durations`), and no bound (`facts/latency_bounds`).
"""
