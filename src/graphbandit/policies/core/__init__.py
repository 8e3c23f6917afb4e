"""Building blocks of all policies. No module here imports a policy.

| module | what is in it |
|---|---|
| `kernels` | what a policy registers, and what is derived from it: scores, draws, rankings, learning |
| `policy` | `Policy`, the Python shell around them: settings, decisions, learning, saving |
| `live_users` | `LiveUsers`, the part of `Policy` about users and edges that come and go |
| `policy_file` | a policy as header and arrays of a file |
| `item_effects` | what an item earns beyond its features, for everybody |
| `ridge` | ridge regression by rank-one updates, and published radii of confidence |
| `catalogue` | which item of a fixed catalogue an offered arm is |
| `top_arms` | the best arms of a large catalogue without scoring all exactly; `ArmCatalogue` for `Policy.rank` |
"""
