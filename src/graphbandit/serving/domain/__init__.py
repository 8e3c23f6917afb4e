"""State and rules of the service, without HTTP and without SQL. Events are the only way to change
the state (event sourcing).

| module | what is in it |
|---|---|
| `limits` | lengths of ids and sizes of weights that are accepted everywhere |
| `events` | what can happen, and the JSON bodies that the log keeps |
| `erasure` | a person is erased from events |
| `initial_state` | the graph, the arms and the policy of a new log |
| `shadow` | a second policy that follows the same events and decides beside the first |
| `drawn_clusters` | clusters of users, which an experiment draws |
| `experiment` | who gets the control policy, and what both arms have earned |
| `policy_changes` | shadow, promotion, rollback, experiment: from the request to the event, and to the state |
| `model` | the saved Recommender that a service was begun from: contexts and newcomers as vectors |
| `packing` | what a snapshot is made of, in bytes; a hash of the whole state |
| `logged_recommender` | the state: a `NamedPolicy` that applies events, and its snapshots |
| `proposals` | from a request to the event that it asks for: decisions, rewards, changes |
| `explain` | why a user is shown what it is shown; a summary of the state |
"""
