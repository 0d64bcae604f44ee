"""The verb `chat`: a person or a script, and the turns between them and an agent."""
