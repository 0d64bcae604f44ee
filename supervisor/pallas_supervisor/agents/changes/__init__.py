"""Changes of what is deployed: a reload of the files, resources that are applied; only what changed moves."""
