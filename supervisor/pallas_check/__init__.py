"""What is wrong with a deployment, found before it is started: files, this machine, and each agent's code.

Used by the verb `check`. Prints nothing and serves nothing.
"""
