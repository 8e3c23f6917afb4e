"""Gob.Lin, the gang of bandits, and its two variants for many users.

| module | what is in it |
|---|---|
| `policy` | `GobLin`: one joint ridge regression over all users with the prior I + L |
| `block` | `GobLinBlock`: an independent Gob.Lin in each cluster of users |
| `macro` | `GobLinMacro`: Gob.Lin on the graph of clusters, whose users share one vector |
| `joint_ridge` | the state and the kernels of all three, and how they follow a change of the prior |
| `user_clusters` | labels of the users' clusters, and the graphs within and between clusters |
"""
