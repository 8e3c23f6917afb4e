"""AdaptiveGraphUCB: many models of the users, weighed by how well each has predicted the rewards.

| module | what is in it |
|---|---|
| `policy` | `AdaptiveGraphUCB`, its settings and its defaults |
| `evidence` | the log evidence of every model, and the weights that follow from it |
| `trials` | with or without a common vector, with or without effects of items: mean rewards decide |
| `mixture` | the state; a decision: mean and covariance of a user's vector, averaged over the models |
| `learning` | an update: count every model's prediction error, then let all models learn |
| `graph_models` | what is asked of a solver of the models with a graph, and the values that are handed over |
| `joint` | the exact joint posterior of all users, for small graphs |
| `relaxed` | the posterior of one user at a time, for any number of users |
| `hierarchy` | the models in which all users share a common vector |
| `graph_report` | `Report`: does the graph help? The evidence in words and numbers |
"""
