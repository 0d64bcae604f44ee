"""The operator's command line: `main` loads the verb, `verbs` has one file for each, `failures` the exit statuses."""
