"""The paper in this package: its statements as claims, and what its figures show.

`verify` checks every statement against numbers, `counterexample` gives the models that contradict
those which don't hold, and `figures` says of the runs of figure 2 what the paper says of them.
"""

from cpsrl.paper.claims import CLAIMS, verify
from cpsrl.paper.counterexamples import COUNTEREXAMPLES, counterexample
from cpsrl.paper.verdicts import Finding

__all__ = ["CLAIMS", "COUNTEREXAMPLES", "Finding", "counterexample", "verify"]
