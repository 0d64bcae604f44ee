"""What several processes of Pallas share. Imports nothing else of ours."""

__version__ = "0.8.0"
