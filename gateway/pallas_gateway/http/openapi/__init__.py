"""The table of the gateway's HTTP operations, and what is made of it: routes, and the OpenAPI document."""
