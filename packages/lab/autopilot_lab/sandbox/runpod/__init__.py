"""A local RunPod: its market of host-set floors, GraphQL, REST v2, logs, and pods as local processes."""
