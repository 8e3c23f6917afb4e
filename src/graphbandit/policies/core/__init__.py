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
| `arm_blocks` | the arms of a large catalogue in blocks of similar ones |
| `arm_index` | `ArmIndex`: these blocks, kept up to date |
| `arm_catalogue` | `ArmCatalogue`: many arms by row, for `Policy.rank` |
| `arm_search` | the best arms of a catalogue without scoring all, by bounds on blocks |
| `score_bounds` | bounds on the scores of a block, and their rounding |
| `catalogue_choice` | a decision by that search, as a full scan would make it |
| `luck` | random numbers that break ties, drawn where they are needed |
| `catalogue` | which item of a fixed catalogue an offered arm is |
"""
