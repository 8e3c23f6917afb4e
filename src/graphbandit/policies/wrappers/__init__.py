"""Policies and services around another policy.

| module | what is in it |
|---|---|
| `stochastic` | `Stochastic`: adds a known amount of randomness to the choices of any policy |
| `pending` | `Pending`: decisions with ids, whose rewards come late, in any order, or never |
| `pending_bonus` | scores and choice probabilities as if pending decisions had been observed |
| `learner` | `GraphLearner`: learns from the rewards which users are alike, and lets a graph policy act on that graph |
| `learner_kernels` | its state, and the evidence for the given graph against the learned one |
| `similarity` | the learned graph: Bayes factors of pairs of users |
| `inner_policy` | what wrappers share: settings, random generator and file of the policy inside |
"""
