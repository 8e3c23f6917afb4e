"""The two solvers of AdaptiveGraphUCB's graph models behind one set of calls, chosen by the type of the state.

`look` views the neighbours once for all models, `predict` serves the evidence, `moments` the decision; `learn` and `forget`
keep up with the data. `joint.py` (exact) and `relaxed.py` (local) say what they do.
"""

from __future__ import annotations

from typing import Any

from ..jit import Floats, compiles, python_function
from ..observations import Observations
from . import joint, relaxed
from .joint import Joint
from .relaxed import Prior, Relaxed, View

GraphModels = Joint | Relaxed


def look(solver: Any, seen: Observations, user: int, view: View) -> None:
    """Fill an empty view of the user's neighbours."""
    (joint.joint_look if isinstance(solver, Joint) else relaxed.relaxed_look)(solver, seen, user, view)


@compiles(look)
def _look(solver: Any, seen: Any, user: Any, view: Any) -> Any:
    return python_function(joint.joint_look if solver.instance_class is Joint else relaxed.relaxed_look)


def predict(
    solver: Any, user: int, model: int, prior: Prior, x: Floats, z: Floats, own: Floats, view: View, out: Floats
) -> None:
    """Write the expected reward of x and the growth 1 + xᵀ C x; z = V⁻¹x, own = V⁻¹b."""
    call: Any = joint.joint_predict if isinstance(solver, Joint) else relaxed.relaxed_predict
    call(solver, user, model, prior, x, z, own, view, out)


@compiles(predict)
def _predict(solver: Any, user: Any, model: Any, prior: Any, x: Any, z: Any, own: Any, view: Any, out: Any) -> Any:
    return python_function(joint.joint_predict if solver.instance_class is Joint else relaxed.relaxed_predict)


def moments(
    solver: Any,
    user: int,
    model: int,
    prior: Prior,
    inverse: Floats,
    own: Floats,
    view: View,
    theta: Floats,
    covariance: Floats,
) -> None:
    """Write mean and covariance / σ² of the user's vector; inverse = V⁻¹, own = V⁻¹b."""
    call: Any = joint.joint_moments if isinstance(solver, Joint) else relaxed.relaxed_moments
    call(solver, user, model, prior, inverse, own, view, theta, covariance)


@compiles(moments)
def _moments(
    solver: Any, user: Any, model: Any, prior: Any, inverse: Any, own: Any, view: Any, theta: Any, covariance: Any
) -> Any:
    return python_function(joint.joint_moments if solver.instance_class is Joint else relaxed.relaxed_moments)


def learn(
    solver: Any, seen: Observations, user: int, model: int, prior: Prior, x: Floats, reward: float, theta: Floats
) -> None:
    """Take in an observation that `seen` already counts; theta = V⁻¹(b + τ g), with the new data."""
    call: Any = joint.joint_learn if isinstance(solver, Joint) else relaxed.relaxed_learn
    call(solver, seen, user, model, prior, x, reward, theta)


@compiles(learn)
def _learn(solver: Any, seen: Any, user: Any, model: Any, prior: Any, x: Any, reward: Any, theta: Any) -> Any:
    return python_function(joint.joint_learn if solver.instance_class is Joint else relaxed.relaxed_learn)


def forget(solver: Any, seen: Observations, user: int, keep: float) -> None:
    """Follow statistics of a user that `seen` has already multiplied by `keep`."""
    (joint.joint_forget if isinstance(solver, Joint) else relaxed.relaxed_forget)(solver, seen, user, keep)


@compiles(forget)
def _forget(solver: Any, seen: Any, user: Any, keep: Any) -> Any:
    return python_function(joint.joint_forget if solver.instance_class is Joint else relaxed.relaxed_forget)
