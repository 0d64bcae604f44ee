"""The streams of models: tapped for the call that they belong to, and kept from holding the loop."""
