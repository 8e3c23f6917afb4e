"""The same work on many machines, with Ray. Nothing here is imported unless it is used.

| module | what is in it |
|---|---|
"""
