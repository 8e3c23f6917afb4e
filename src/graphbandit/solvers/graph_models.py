"""The two solvers of AdaptiveGraphUCB's graph models behind one set of calls, chosen by the type of the state.

`look` views the neighbours once for all models that matter, `predict` serves the evidence, `surround` and `moments` the
decision; `learn` and `forget` keep up with the data. `joint.py` (exact) and `relaxed.py` (local) say what they do. The model of
slack s and strength k has the number s · strengths + k.
"""

from __future__ import annotations

from typing import Any

from ..jit import Floats, compiles, python_function
from ..observations import Observations
from . import joint, relaxed
from .joint import Joint
from .relaxed import Relaxed, View

GraphModels = Joint | Relaxed


def look(solver: Any, seen: Observations, user: int, wanted: Floats, view: View) -> None:
    """Fill an empty view of the user's neighbours, for the models whose entry in `wanted` is positive."""
    (joint.joint_look if isinstance(solver, Joint) else relaxed.relaxed_look)(solver, seen, user, wanted, view)


@compiles(look)
def _look(solver: Any, seen: Any, user: Any, wanted: Any, view: Any) -> Any:
    return python_function(joint.joint_look if solver.instance_class is Joint else relaxed.relaxed_look)


def predict(
    solver: Any,
    user: int,
    k: int,
    tau: float,
    rho: Floats,
    x: Floats,
    z: Floats,
    own: Floats,
    view: View,
    predicted: Floats,
    growth: Floats,
) -> None:
    """Write the expected reward of x and the growth 1 + xᵀ C x for every slack; z = V⁻¹x, own = V⁻¹b."""
    call: Any = joint.joint_predict if isinstance(solver, Joint) else relaxed.relaxed_predict
    call(solver, user, k, tau, rho, x, z, own, view, predicted, growth)


@compiles(predict)
def _predict(
    solver: Any, user: Any, k: Any, tau: Any, rho: Any, x: Any, z: Any, own: Any, view: Any, predicted: Any, growth: Any
) -> Any:
    return python_function(joint.joint_predict if solver.instance_class is Joint else relaxed.relaxed_predict)


def surround(solver: Any, tau: float, view: View, around: Floats) -> None:
    """Write what the covariances of all slacks share at one strength."""
    (joint.joint_surround if isinstance(solver, Joint) else relaxed.relaxed_surround)(solver, tau, view, around)


@compiles(surround)
def _surround(solver: Any, tau: Any, view: Any, around: Any) -> Any:
    return python_function(joint.joint_surround if solver.instance_class is Joint else relaxed.relaxed_surround)


def moments(
    solver: Any,
    user: int,
    model: int,
    tau: float,
    rho: float,
    inverse: Floats,
    own: Floats,
    view: View,
    around: Floats,
    theta: Floats,
    covariance: Floats,
) -> None:
    """Write mean and covariance / σ² of the user's vector; inverse = V⁻¹, own = V⁻¹b."""
    call: Any = joint.joint_moments if isinstance(solver, Joint) else relaxed.relaxed_moments
    call(solver, user, model, tau, rho, inverse, own, view, around, theta, covariance)


@compiles(moments)
def _moments(
    solver: Any,
    user: Any,
    model: Any,
    tau: Any,
    rho: Any,
    inverse: Any,
    own: Any,
    view: Any,
    around: Any,
    theta: Any,
    covariance: Any,
) -> Any:
    return python_function(joint.joint_moments if solver.instance_class is Joint else relaxed.relaxed_moments)


def learn(solver: Any, seen: Observations, user: int, model: int, x: Floats, reward: float, theta: Floats) -> None:
    """Take in an observation that `seen` already counts; theta = V⁻¹(b + τ ρ Σ_j P_ij θ_j), with the new data."""
    call: Any = joint.joint_learn if isinstance(solver, Joint) else relaxed.relaxed_learn
    call(solver, seen, user, model, x, reward, theta)


@compiles(learn)
def _learn(solver: Any, seen: Any, user: Any, model: Any, x: Any, reward: Any, theta: Any) -> Any:
    return python_function(joint.joint_learn if solver.instance_class is Joint else relaxed.relaxed_learn)


def forget(solver: Any, seen: Observations, user: int, keep: float) -> None:
    """Follow statistics of a user that `seen` has already multiplied by `keep`."""
    (joint.joint_forget if isinstance(solver, Joint) else relaxed.relaxed_forget)(solver, seen, user, keep)


@compiles(forget)
def _forget(solver: Any, seen: Any, user: Any, keep: Any) -> Any:
    return python_function(joint.joint_forget if solver.instance_class is Joint else relaxed.relaxed_forget)
