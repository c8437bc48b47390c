"""What Prometheus and OpenTelemetry are told. Labels are names of tenants, deployments, classes and nodes: bounded by
rows of the database, never by what a client sends; never a key's or a request's id.
"""
