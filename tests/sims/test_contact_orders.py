import json

import pytest

from estim import ContactOrders, ContactSlopes
from sims import contact_orders
from sims.__main__ import main


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contact_orders, "MATRIX_INPUTS", (12, 16))
        patch.setattr(contact_orders, "CHAIN_INPUTS", (1, 3, 4))
        assert main(["contact-orders", "--out", str(folder)]) == 0
    return json.loads((folder / "contact-orders.json").read_text())


def test_slopes_of_the_chain_read_back(study):
    slopes = ContactSlopes.from_dict(study["slopes"])
    assert slopes.orders == (1, 5, 17, 53)
    assert slopes.deviation < 0.0023
    assert study["slope_values"][3].startswith("53.00026172")
    assert study["values"][1][3].startswith("6.62649277988348409165")


def test_chains_of_all_depths(study):
    orders = {(row["depth"], row["inputs"]): row["orders"][-1] for row in study["chains"]}
    assert orders == {(4, 4): 53, (5, 8): 161, (6, 8): 485, (5, 4): 241}


def test_tables_by_the_size_of_the_bank(study):
    names = [name for name in study["matrix_by_inputs"][0] if name != "inputs"]
    small, large = (ContactOrders.from_dict({n: row[n] for n in names}) for row in study["matrix_by_inputs"])
    assert small.counts == {0: 16, 1: 12, 5: 12, 17: 4, 19: 4, 25: 4}
    assert large.counts == {0: 16, 1: 12, 5: 12, 17: 12}
    assert [row["orders"][-1] for row in study["chain_by_inputs"]] == [79, 79, 53]
    assert "3^depth - 2" in study["why"]
