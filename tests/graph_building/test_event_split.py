"""Which events build, which judge, and what rewards mean."""

from __future__ import annotations

import numpy as np

from graphbandit.graph_building.events import Split, read_events, split_events
from made_up_events import grouped_events, named


def split(columns: dict[str, object], seed: int = 0) -> Split:
    return split_events(read_events(columns)[0], seed)


def test_the_earlier_part_of_a_log_with_time_builds() -> None:
    rng = np.random.default_rng(0)
    time = rng.permutation(1000)
    found = split(named(rng.integers(10, size=1000), rng.integers(5, size=1000), time.astype(float), time))
    assert found.n_earlier == 600 and found.said[0].startswith("Split in order of time: the first 60%")
    assert (np.diff(found.reward) > 0).all()  # the reward is the time


def test_users_who_come_and_go_are_split_one_by_one() -> None:
    user = np.repeat(np.arange(20), 50)
    found = split(named(user, np.arange(1000) % 7, np.arange(1000) % 3, np.arange(1000)))
    assert "Split user by user, the first 60% of each one's events" in found.said[0] and "only 0%" in found.said[0]
    assert np.bincount(found.user[: found.n_earlier]).tolist() == [30] * 20


def test_rows_sorted_by_user_without_time_are_drawn() -> None:
    columns = named(np.repeat(np.arange(20), 50), np.arange(1000) % 7, np.arange(1000) % 3, None)
    del columns["time"]
    found = split(columns)
    assert found.said[0].startswith("Split user by user, a random 60%")
    assert np.bincount(found.user[: found.n_earlier]).tolist() == [30] * 20
    assert not np.array_equal(found.item, split(columns, seed=1).item)


def test_without_time_the_order_of_the_rows_counts() -> None:
    columns = grouped_events()
    del columns["time"]
    assert split(columns).said[0].startswith("Split in the order of the rows, as there is no time")


def test_one_time_for_all_is_no_time() -> None:
    columns = grouped_events() | {"time": np.zeros(2500)}
    assert "there is no time" in split(columns).said[0]


def test_rewards_are_standardised_by_the_earlier_ones() -> None:
    columns = grouped_events()
    columns["reward"] = 100.0 + 5.0 * columns["reward"]
    early = split(columns)
    assert abs(early.reward[: early.n_earlier].mean()) < 1e-9 and abs(early.reward[: early.n_earlier].std() - 1) < 1e-9


def test_equal_rewards_get_unseen_items_as_zeros() -> None:
    columns = grouped_events(n_items=200)
    del columns["reward"]
    found = split(columns)
    assert "Rewards are all equal" in found.said[1]
    pairs = set(zip(found.user[found.taken].tolist(), found.item[found.taken].tolist(), strict=True))
    assert len(pairs) == found.taken.sum()  # every pair once
    later = np.arange(len(found.user)) >= found.n_earlier
    unseen = zip(found.user[~found.taken & later].tolist(), found.item[~found.taken & later].tolist(), strict=True)
    assert pairs.isdisjoint(unseen)
    assert 0.4 < found.taken.mean() < 0.6 and len(np.unique(found.reward)) == 2


def test_skewed_counts_are_taken_as_logarithms() -> None:
    columns = grouped_events(n_items=200)
    columns["reward"] = np.random.default_rng(0).geometric(0.01, size=2500) ** 2
    found = split(columns)
    assert "log(1 + count) is learned" in found.said[1] and not found.taken.all()


def test_earlier_draws_do_not_depend_on_later_events() -> None:
    columns = grouped_events(n_items=200)
    pairs = list(dict.fromkeys(zip(columns["user"], columns["item"], strict=True)))  # rows that say a pair again count once
    columns = {"user": [user for user, _ in pairs], "item": [item for _, item in pairs]}
    before = split(columns)
    early = columns["item"][: before.n_earlier]
    changed = dict(columns, item=[*early, *(f"new {place}" for place in range(len(pairs) - len(early)))])
    after = split(changed)
    n = min(before.n_earlier, after.n_earlier)
    assert before.n_earlier == after.n_earlier
    names = {name: place for place, name in enumerate(dict.fromkeys(columns["item"]))}
    assert len(names) == 200  # all items occur early, so that both number them alike
    assert np.array_equal(before.item[:n], after.item[:n]) and np.array_equal(before.taken[:n], after.taken[:n])
