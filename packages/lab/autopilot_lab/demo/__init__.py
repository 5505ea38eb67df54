"""``autopilot demo``: a real daemon and a real training run against the sandbox market, with trouble on purpose."""
