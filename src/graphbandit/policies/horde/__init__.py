"""Horde of bandits: a Gaussian Markov random field over the users.

| module | what is in it |
|---|---|
| `thompson` | `HordeTS`: Thompson sampling, with a draw for every round or a joint one for many |
| `epoch_greedy` | `HordeEpochGreedy`: the best posterior mean or, ever more rarely, any arm |
| `random_field` | what both share: the posterior's solver, when it is solved and how it follows the graph |
"""
