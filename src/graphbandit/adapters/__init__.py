"""Adapters: graphbandit in the form that other libraries expect. Each module needs its library; this package imports none.

`graphbandit.sklearn`, `graphbandit.gymnasium` and `graphbandit.obp` are these modules, imported when they are first used.

| module | what is in it |
|---|---|
| `sklearn` | `GraphBanditRegressor`: a policy as a scikit-learn regressor |
| `gymnasium` | our environments as gymnasium's, registered as `graphbandit/…`; `run_policy`: a policy of ours in one |
| `obp` | Open Bandit Pipeline: its `bandit_feedback` to and from a `DecisionLog`, a policy with its methods |
"""

from __future__ import annotations
