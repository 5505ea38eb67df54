"""What requests may hold and what answers hold, as pydantic models: the daemon parses by them, the OpenAPI document is
made of them, and clients read with them.
"""
