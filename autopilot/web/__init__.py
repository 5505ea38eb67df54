"""The page: what is done and why, as HTML and SVG that the server draws. It reads; it changes nothing.

Figures come from the API's answers (``api.ledger_view``) and are written by ``cli.text``; pictures alone use floats.
"""
