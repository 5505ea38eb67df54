"""What a job would cost and when it would be done: plans, forecasts, and what a submit is refused for. No HTTP."""
