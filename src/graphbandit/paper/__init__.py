"""The paper, figure by figure: what each measures, shows and claims, and the report of all of them.

| module | what is in it |
|---|---|
| `figure_list` | `FIGURES`: the table of all figures |
| `figure_parts` | `Figure` and `ReproduceSettings` |
| `claims` | `Claim`, and how it is judged: it holds, does not hold, or is undecided |
| `theory` | figures on Δ, on Ψ, and on the bound of Theorem 1 |
| `inequalities` | ‖Δ_i‖ ≤ ‖θ_i‖, and two steps of Appendix D |
| `laplacians` | Remark 1: GraphUCB with three Laplacians |
| `growth` | regret against the number of users, and the bounds (15) to (17) |
| `cost` | the time of a round against the number of users |
| `estimation` | figures on Lemma 1 and on the noise inequality |
| `regret_curves` | regret over time on four families of graphs, and with fixed arms |
| `sweeps` | final regret against a property of the graph or of the users |
| `topology` | four families of graphs with as many edges, equally smooth |
| `forms` | the printed, released and recommended form of both algorithms, side by side |
| `coverage` | how often confidence regions contain the true parameters |
| `controls` | alpha; GraphUCB with another graph or without its bonus |
| `delays` | delayed rewards |
| `newcomers` | users who arrive while a policy runs |
| `learned_graphs` | graphs learned from rewards |
| `real_data` | MovieLens, Netflix and Last.fm |
| `lineup` | the algorithms of the paper, with tuned baselines |
| `measure` | measurements that several figures share |
| `chart` | what a figure shows, as data, and its drawing |
| `reproduce` | runs figures, judges claims, writes the report |
| `verdict_matrix` | the top of the report: figure × claim, what holds and why not, the forms side by side |
| `report_page` | the report as one HTML page |
"""

from __future__ import annotations

from .claims import Claim
from .figure_list import FIGURES
from .figure_parts import Figure, ReproduceSettings

__all__ = ["FIGURES", "Claim", "Figure", "ReproduceSettings"]
