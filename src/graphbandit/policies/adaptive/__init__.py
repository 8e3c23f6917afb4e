"""AdaptiveGraphUCB: many models of the users, weighed by how well each has predicted the rewards.

| module | what is in it |
|---|---|
| `policy` | `AdaptiveGraphUCB`, its settings and its defaults |
| `model` | the state; what it believes of a user, averaged over the models; how it learns a reward |
| `evidence` | the log evidence of every model, and the weights that follow from it |
| `joint` | the exact joint posterior of all users, for small graphs |
| `graph_report` | `Report`: does the graph help? The evidence in words and numbers |
"""
