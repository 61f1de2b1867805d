"""Rate limits: `RateLimit` is what a DoFn holds, `pacer` hands out the start times, `refusals` reads a server's answer.

Whoever runs the DoFn says where start times come from. With LiveRunner that is the coordinator (`sdf.lanes.pacing`), so
that all lanes share one limit. Elsewhere each process has a pacer of its own, with a fixed share of the limit.
"""
