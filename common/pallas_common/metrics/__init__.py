"""Counts in files that outlive processes, and the page of one scrape made from them."""
