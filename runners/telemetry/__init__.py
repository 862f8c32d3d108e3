"""What a worker sees of a trial from outside: host and GPU, once a second; docs/records.md.

    sampler -> host (-> processes), gpu -> readings        summary: from samples to metrics

A reading that cannot be had is absent, and why is logged once. Nothing here fails a trial.
"""
