"""Before, around and after every tool call of a model; and a turn that was held before one, taken up again."""
