"""Solvers of joint ridge estimates over all users: (A + K ⊗ I) vec(θ) = b, K a prior on the graph.

| module | what is in it |
|---|---|
| `dense` | `Dense`: the joint inverse, a block for each connected component; exact, for some hundred users |
| `push` | `Push`: an estimate and its residual, pushed along edges; for any number of users |
| `cg` | `CG`: conjugate gradients, which solve for all users now and then, with any right-hand side |
| `selection` | priors over users; which solver a policy gets; `observe`, one name for the step that all solvers take |
"""
