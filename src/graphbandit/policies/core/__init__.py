"""What every policy is built from. Nothing here knows of a single policy.

| module | what is in it |
|---|---|
| `policy` | `Policy`, the Python shell around the compiled kernels: decisions, learning, saving |
| `kernels` | the generic compiled kernels: score, sample, update, decide, learn, rank |
| `decisions` | what is asked of a policy and what it answers |
| `hyperparameters` | declared once: signature, ranges, collected settings |
| `propensity` | how probable a choice is under a policy that samples |
| `live_users` | `LiveUsers`, the part of `Policy` about users and edges that come and go |
| `graph_changes` | how such a change is checked, made and taken back |
| `policy_file` | a policy as header and arrays of a file |
| `item_effects` | what an item earns beyond its features, for everybody |
| `ridge` | ridge regression by rank-one updates, and optimistic scores |
| `confidence` | the single-user confidence region of GraphUCB: metric and radius |
| `schedules` | how the radius of confidence grows: theory, log, constant |
| `top_arms` | the best arms of a large catalogue without scoring all exactly; `ArmCatalogue` for `Policy.rank` |
| `catalogue` | which item of a fixed catalogue an offered arm is |
"""
