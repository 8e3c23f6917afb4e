"""Names in, names out: users, items and events as people have them, around a policy.

| module | what is in it |
|---|---|
| `recommender` | `Recommender`: fit, recommend, reward, observe, save |
| `fit_log` | `fit`: a policy learns a log that does not fit into memory |
| `recommender_file` | a recommender in one file |
| `features` | `Features`: from columns of items and of the context to vectors |
| `encoders` | what a column becomes: numbers, categories, text and tags, given vectors |
| `catalogue_table` | the items of a recommender, from their table to vectors and attributes |
| `behaviour` | vectors of items from who took what |
| `user_names` | the users of a recommender and their edges before its policy is built |
| `similar_users` | which users have attributes like those of a newcomer |
| `named_policy` | `NamedPolicy`: users and arms by name, filters, decisions; the service is built on it too |
| `offered_arms` | the arms on offer, in order, as arrays |
| `rank_everybody` | the best items of all users, streamed to a Parquet file |
| `unknown_users` | what to show to users whom nobody has seen |
| `policy_choice` | which policy it is to have, checked at once |
| `ids` | ids and filter values as text |
| `open_recommendations` | `Recommendation`; what was shown lately, so that it can be rewarded by its id |
| `requests` | what is asked for, as it arrives and resolved to rows |
| `errors` | `InvalidRequest` and `UnknownName`, which name the field that is wrong |
"""

from __future__ import annotations

from .features import Features
from .fit_log import Fitted, fit
from .open_recommendations import Recommendation
from .recommender import Recommender

__all__ = ["Features", "Fitted", "Recommendation", "Recommender", "fit"]
