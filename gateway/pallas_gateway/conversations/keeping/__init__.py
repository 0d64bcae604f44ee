"""How what a turn has said is kept until it is over: rows in the store, and a journal for what is no row yet."""
