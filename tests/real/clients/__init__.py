"""MCP clients of others: where their programs are, how they are run, and what the product tells to paste into them."""
