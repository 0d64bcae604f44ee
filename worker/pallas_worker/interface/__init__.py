"""What a client of an agent sends and gets: tools, history, images, messages, errors."""
