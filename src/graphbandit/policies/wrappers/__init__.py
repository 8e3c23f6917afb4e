"""Policies and services around another policy.

| module | what is in it |
|---|---|
| `stochastic` | `Stochastic`: adds a known amount of randomness to the choices of any policy |
| `pending` | `Pending`: decisions with ids, whose rewards come late, in any order, or never |
"""
