"""The claims come out as the documentation says, and can tell right from wrong."""

import json
import re
from pathlib import Path

import pytest

from cpsrl.paper import CLAIMS, COUNTEREXAMPLES, verify

DOCS = Path(__file__).parents[2] / "docs" / "paper.md"

CHEAP = [
    "pseudo-episode-length",
    "pseudo-episode-count",
    "unbiased-return",
    "discounted-value",
    "bellman-equation",
    "lemma-5.3",
    "long-pseudo-episodes",
    "indicator-in-the-sum",
    "sum-of-widths",
    "lemma-5.1",
    "lemma-5.2",
    "lemma-5.4",
    "appendix-c",
]


def test_cheap_claims_come_out_as_known():
    told = []
    found = list(verify(CHEAP, quick=True, progress=lambda name, share: told.append((name, share))))
    assert [finding.claim.name for finding in found] == CHEAP
    for finding in found:
        assert finding.as_expected, finding.as_dict()
        assert finding.verdict.holds == (finding.verdict.ratio <= 1)
        assert finding.verdict.control.what
        assert finding.verdict.control.must_hold == (not finding.claim.true)
    assert ("lemma-5.1", 1.0) in told


@pytest.mark.slow
def test_all_claims_come_out_as_known():
    for finding in verify(quick=True):
        assert finding.as_expected, finding.as_dict()
        assert finding.verdict.ratio > 0


@pytest.mark.parametrize("name", CLAIMS)
def test_every_claim_is_described_and_documented(name):
    claim = CLAIMS[name]
    assert claim.name == name
    assert claim.statement
    assert claim.reference
    assert bool(claim.instead) == (not claim.true)
    assert claim.counterexample in ("", *COUNTEREXAMPLES)
    row = next(line for line in DOCS.read_text().splitlines() if f"`{name}`" in line)
    true = "vacuous" if claim.vacuous else "holds|consistent"
    assert re.search(true if claim.true else "false", row)


def test_the_documentation_names_no_claim_that_does_not_exist():
    named = re.findall(r"^\| [^|]*\| `([a-z0-9.-]+)` \| .", DOCS.read_text(), re.M)
    assert sorted(named) == sorted(CLAIMS)


def test_findings_are_json():
    finding = next(verify(["sum-of-widths"]))
    row = json.loads(json.dumps(finding.as_dict()))
    assert {"name", "reference", "statement", "holds", "ratio", "details"} <= set(row)
    assert row["holds"] is False


def test_an_unknown_name_gets_the_nearest_before_anything_is_checked():
    with pytest.raises(ValueError, match=r"did you mean 'lemma-5\.2'"):
        verify(["lemma-5.1", "lema-5.2"])


def test_another_seed_gives_other_numbers_and_the_same_verdict():
    one, same, other = (next(verify(["unbiased-return"], True, seed)) for seed in (1, 1, 2))
    assert one.verdict.details == same.verdict.details != other.verdict.details
    assert one.verdict.holds
    assert other.verdict.holds
