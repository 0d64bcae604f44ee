"""One resource from words on the command line."""
