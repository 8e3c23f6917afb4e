"""State and rules of the service, without HTTP and without SQL.

Events are the only way to change the state (event sourcing).

| module | what is in it |
|---|---|
| `events` | the kinds of events, their JSON bodies, and the hash chain that reveals a changed or missing event |
| `service_state` | `ServiceState`: a `NamedPolicy` that applies events; its snapshots |
| `proposals` | from a request to its event: decisions, rewards, changes |
| `policy_changes` | shadow, promotion, rollback, experiment: from the request to the event, and to the state |
| `shadow` | a second policy that learns from the same events and decides beside the first |
| `experiment` | the holdout of an experiment, and the rewards of both arms |
| `user_clusters` | clusters of users, which an experiment draws |
| `initial_state` | the graph, the arms and the policy of a new log |
| `saved_model` | the saved Recommender that a log begins with: contexts and newcomers as vectors |
| `erasure` | removes a person from events |
| `explain` | the reasons for a recommendation; a summary of the state |
"""
