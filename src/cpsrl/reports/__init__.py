"""Reports: statistics of regret curves, figures, tables, and the paper's claims."""

from cpsrl.reports.report import Report, report

__all__ = ["Report", "report"]
