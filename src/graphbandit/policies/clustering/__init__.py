"""Policies that find clusters of users who like the same things. A cluster shares its data.

| module | what is in it |
|---|---|
| `club` | CLUB: clusters are the components of a graph that loses edges between users who differ |
| `sclub` | SCLUB: a user who differs leaves its cluster, and clusters that turn out alike merge |
| `dynucb` | DynUCB: a fixed number of clusters; a served user goes to the nearest, as in k-means |
| `community` | CommunityUCB: Louvain communities of a graph of similar users |
| `cofiba` | COFIBA: items are clustered too, and users are clustered for each cluster of items |
| `dccb` | DCCB and DCB: every user is an agent that learns by gossip; DCB has one cluster for good |
| `clusters` | `ClusterModels`: a ridge regression per user and a pooled one per cluster; scores, moves |
| `decremental_graph` | a graph that only loses edges, and which users a lost edge separates |
"""
